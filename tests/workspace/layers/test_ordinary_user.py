"""All that is shown of layers as root holds for an ordinary user, whose layers the kernel marks in another way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ORDINARY = 1000
AS_ORDINARY = ("setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, to become another")
@pytest.mark.parametrize("module", sorted(path.name for path in HERE.glob("test_*.py") if path != Path(__file__)))
def test_an_ordinary_user_has_the_same(module: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, ORDINARY, ORDINARY)
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-n", "0", f"--basetemp={folder}/base"]
        command += ["-o", f"cache_dir={folder}/cache", HERE / module]
        environment = {
            **os.environ,
            "HOME": folder,
            "PYTEST_ADDOPTS": "",
            "TMPDIR": folder,
            "HYPOTHESIS_STORAGE_DIRECTORY": folder,
        }
        ran = subprocess.run(
            [*AS_ORDINARY, *command], env=environment, cwd=HERE.parents[2], capture_output=True, text=True, check=False
        )
    if "Permission denied" in ran.stderr and not ran.stdout:
        pytest.skip("an ordinary user may not read this clone")
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert " skipped" not in ran.stdout, ran.stdout
