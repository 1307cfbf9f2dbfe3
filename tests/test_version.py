"""The version is one string, and asking for it imports nothing heavy."""

from __future__ import annotations

import re
import subprocess
import sys

from ferrule._version import __version__


def test_the_version_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\w*", __version__)


def test_asking_for_it_imports_neither_click_nor_pydantic() -> None:
    code = (
        "import sys; sys.argv = ['ferrule', '--version']\n"
        "from ferrule.cli.main import main; main()\n"
        "print(sorted({'click', 'pydantic', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"ferrule {__version__}\n[]\n"
