"""What somebody's code prints while it is imported does not reach our standard output."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ferrule.plugins.plugin import descriptor_aside, printing_aside
from tests.plugins.files import findings, load, tool_file


def test_what_a_file_prints_goes_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loud = "import sys\nprint('printed')\nsys.stdout.write('written\\n')\nsys.stdout.flush()"
    assert findings(load(tmp_path, {"say.py": tool_file("say_word", before=loud)})) == {}
    print("ours")
    assert capsys.readouterr() == ("ours\n", "printed\nwritten\n")


def test_other_threads_write_on_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    def other() -> None:
        print("from another thread")

    with printing_aside():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        print("from this one")
    assert capsys.readouterr() == ("from another thread\n", "from this one\n")


def test_the_streams_are_what_they_were_afterwards() -> None:
    before = sys.stdout, sys.stdin
    with printing_aside(), pytest.raises(EOFError):
        input()
    assert (sys.stdout, sys.stdin) == before


def test_whatever_writes_to_the_descriptor_is_covered_too(capfd: pytest.CaptureFixture[str]) -> None:
    with descriptor_aside():
        os.write(1, b"written\n")
        subprocess.run(["echo", "from a program"], check=True)
        print("printed", flush=True)
        print("kept in a buffer")
    print("ours")
    out, err = capfd.readouterr()
    assert out == "ours\n"
    assert sorted(err.splitlines()) == ["from a program", "kept in a buffer", "printed", "written"]
