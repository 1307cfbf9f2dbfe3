"""What a plain `pip install ferrule` brings: how many distributions, how many bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from _measure import Row

ROOT = Path(__file__).parents[1]
NOT_OURS = {"pip", "setuptools", "wheel"}


def measure_install() -> list[Row]:
    """Build the wheel and install it, without extras, into an empty environment."""
    with TemporaryDirectory() as folder:
        home = Path(folder) / "venv"
        wheels = Path(folder) / "wheels"
        _run(sys.executable, "-m", "venv", str(home))
        python = str(home / "bin" / "python")
        _run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
        (wheel,) = wheels.glob("ferrule-*.whl")
        before = _sizes(home)
        _run(python, "-m", "pip", "install", "--quiet", str(wheel))
        after = _sizes(home)
        listed = json.loads(_run(python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"))
    names = sorted(one["name"] for one in listed if one["name"] not in NOT_OURS)
    without, with_cache = ((now - then) / 1e6 for now, then in zip(after, before, strict=True))
    return [
        Row("h. distributions installed", len(names), "", 10, ", ".join(names)),
        Row("   installed size", without, "MB", 15.0, f"{with_cache:.1f} MB with the compiled files"),
    ]


def _sizes(home: Path) -> tuple[int, int]:
    """The bytes of every file, without and with `__pycache__`."""
    files = [(path, path.stat().st_size) for path in (home / "lib").rglob("*") if path.is_file()]
    return sum(size for path, size in files if "__pycache__" not in path.parts), sum(size for _, size in files)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
