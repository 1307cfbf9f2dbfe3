"""What the kernel keeps a program from."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ferrule.process.landlock import Confinement, confine_thread, kernel_version, needed_by, open_rules

pytestmark = pytest.mark.skipif(kernel_version() < 1, reason="this kernel has no Landlock")


def confined(confinement: Confinement, *command: str) -> subprocess.CompletedProcess[bytes] | OSError:
    outcome: list[subprocess.CompletedProcess[bytes] | OSError] = []
    nothing = os.open(os.devnull, os.O_RDWR)

    def work() -> None:
        assert confine_thread(confinement)
        try:
            outcome.append(subprocess.run(command, stdin=nothing, capture_output=True))
        except OSError as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    os.close(nothing)
    return outcome[0]


def find(name: str) -> str:
    return next(path for folder in ("/usr/bin", "/bin") if Path(path := os.path.realpath(f"{folder}/{name}")).exists())


def test_only_the_named_programs_start(tmp_path: Path) -> None:
    cat, shell = find("cat"), find("sh")
    (tmp_path / "a").write_text("hello")
    may = Confinement(needed_by(cat))
    done = confined(may, cat, str(tmp_path / "a"))
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.stdout == b"hello"
    assert isinstance(confined(may, shell, "-c", "true"), PermissionError)
    done = confined(Confinement(needed_by(shell)), shell, "-c", f"{cat} {tmp_path}/a; echo > {tmp_path}/made")
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.stdout == b""
    assert not (tmp_path / "made").exists()


def test_only_the_named_folders_are_read(tmp_path: Path) -> None:
    inside, secret = tmp_path / "in", tmp_path / "secret"
    inside.mkdir()
    secret.write_text("secret")
    (inside / "a").write_text("hello")
    (inside / "out").symlink_to(secret)
    rg = str(Path(sys.executable).parent / "rg")
    if not Path(rg).exists():
        pytest.skip("needs a program without shared libraries")
    opened = os.open(inside, os.O_PATH)
    done = confined(Confinement((rg,), (opened,)), rg, "--no-config", "-N", ".", str(inside / "a"), str(inside / "out"))
    os.close(opened)
    assert isinstance(done, subprocess.CompletedProcess)
    assert b"hello" in done.stdout
    assert b"secret" not in done.stdout
    assert b"ermission denied" in done.stderr


def test_the_rules_end_with_their_thread(tmp_path: Path) -> None:
    confined(Confinement(()), "/nothing")
    assert subprocess.run([find("true")]).returncode == 0
    (tmp_path / "x").write_text("still free")


def test_rules_can_be_handed_on(tmp_path: Path) -> None:
    """What is writable is all that can be changed by whoever binds itself with them."""
    (tmp_path / "mine").mkdir()
    rules = open_rules(["/usr", "/bin", "/lib"], [str(tmp_path / "mine"), os.devnull])
    code = (
        "import ctypes, sys\n"
        "libc = ctypes.CDLL(None); libc.prctl(38, 1, 0, 0, 0)\n"
        f"assert libc.syscall(446, {rules}, 0) == 0\n"
        f"open('{tmp_path}/mine/a', 'w').write('x')\n"
        f"try: open('{tmp_path}/b', 'w')\n"
        "except PermissionError: print('kept out')\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], pass_fds=(rules,), capture_output=True, text=True)
    os.close(rules)
    assert done.stdout == "kept out\n", done.stderr
    assert (tmp_path / "mine/a").read_text() == "x"
