"""Programs are started from one thread that stays."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ferrule.process.launch import Launch
from ferrule.process.sandbox.spawner import spawn

DIES_WITH_ITS_PARENT = (
    "import ctypes; ctypes.CDLL(None).prctl(1, 9); print('ready', flush=True); import time; time.sleep(60)"
)


def test_a_program_outlives_the_thread_that_asked_for_it() -> None:
    started: list[subprocess.Popen[bytes]] = []

    def ask() -> None:
        launch = Launch((sys.executable, "-c", DIES_WITH_ITS_PARENT), dict(os.environ))
        started.append(spawn(launch, stdout=subprocess.PIPE))
        assert started[0].stdout is not None
        started[0].stdout.readline()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    process = started[0]
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.kill()
    process.communicate()
    assert ctypes.sizeof(ctypes.c_int) == 4


def test_it_gets_what_the_launch_says_and_nothing_else(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    launch = Launch(
        ("/bin/bash", "-c", f"pwd; /usr/bin/env -u _ -u SHLVL; echo through >&{writing}"),
        {"A": "b"},
        str(tmp_path),
        (writing,),
    )
    process = spawn(launch, stdout=subprocess.PIPE)
    out, _ = process.communicate()
    os.close(writing)
    assert set(out.decode().split()) == {str(tmp_path), f"PWD={tmp_path}", "A=b"}
    assert os.read(reading, 100) == b"through\n"
    os.close(reading)


def test_what_goes_wrong_is_told_to_the_one_who_asked() -> None:
    with pytest.raises(FileNotFoundError):
        spawn(Launch(("/nothing/here",)))


def test_a_forked_process_has_a_thread_of_its_own() -> None:
    spawn(Launch(("/bin/true",))).wait()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(spawn(Launch(("/bin/sh", "-c", "exit 5"))).wait())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
