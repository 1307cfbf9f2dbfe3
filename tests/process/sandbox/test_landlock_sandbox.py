"""The second choice: what Landlock with a filter of calls stops, and what it refuses because it could not."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.needs import needs
from tests.process.sandbox.box import Box, landlock, python_for_all
from tests.process.sandbox.conftest import USERS, marks

from ferrule.process.landlock import kernel_version
from ferrule.process.profile import Bounds, Profile
from ferrule.process.sandbox import landlock_sandbox as module
from ferrule.process.sandbox.denials import SandboxRefused


@pytest.fixture(params=[pytest.param(uid, id=user, marks=marks(user)) for user, uid in USERS.items()])
def box(request: pytest.FixtureRequest, room: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    needs(kernel_version(), "a kernel with Landlock")
    needs(python := python_for_all(), "a Python that every user can run")
    monkeypatch.setattr(module.sys, "executable", python)
    return Box(room / "box", request.param, landlock())


def test_the_workspace_is_writable_and_nothing_else(box: Box) -> None:
    done = box.run(
        f"echo hello >a; for place in /usr /etc /var {box.outside} /tmp; do : >$place/made && echo $place; done"
    )
    assert (box.workspace / "a").read_text() == "hello\n"
    assert done.out == ""
    assert not (box.outside / "made").exists()


def test_homes_and_keys_cannot_be_read(box: Box) -> None:
    (box.home / ".netrc").write_text("PRIVATE")
    box.own()
    done = box.run(f"cat {box.home}/.netrc /etc/shadow; ls {box.home} /root /tmp; cat ~/.netrc")
    assert done.out == ""


def test_home_and_temporary_files_are_of_this_start_alone(box: Box) -> None:
    done = box.run("echo 1 >~/x && mktemp && cat ~/x && echo $HOME")
    *_, content, home = done.out.split()
    assert content == "1"
    assert not Path(home).exists()


def test_commands_share_a_folder_for_temporary_files_which_is_bounded(box: Box) -> None:
    folder = box.folder / "shared"
    folder.mkdir()
    box.own()
    shared: dict[str, Any] = {"temporary": folder, "bounds": Bounds(temporary=5 << 20)}
    assert box.run('echo 1 >"$TMPDIR/x"', **shared).code == 0
    assert box.run('cat "$TMPDIR/x"', **shared).out == "1\n"
    done = box.run('head -c 10000000 /dev/zero >"$TMPDIR/y"; sleep 50', **shared)
    assert [one.kind for one in done.denials] == ["temporary size"]
    assert list(folder.iterdir()) == []


def test_nothing_is_seen_of_other_processes(box: Box) -> None:
    done = box.run(f"cat /proc/{os.getpid()}/environ /proc/{os.getpid()}/cmdline /proc/self/environ; ls /proc")
    assert done.out == ""


def test_there_are_no_sockets_but_pairs(box: Box) -> None:
    code = (
        "import socket\n"
        "for family in (1, 2, 10, 16, 17):\n"
        "    for kind in (1, 2, 3):\n"
        "        try: socket.socket(family, kind); print('made', family, kind)\n"
        "        except PermissionError: pass\n"
        "a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))\n"
    )
    assert box.run_program([str(python_for_all()), "-c", code]).out == "b'x'\n"


def test_no_capability_is_left_and_nothing_is_mounted(box: Box) -> None:
    done = box.run("unshare -U true && echo a; mount -t tmpfs x /mnt && echo b; chown 1:1 . && echo c")
    assert done.out == ""


def test_signals_reach_nobody_outside(box: Box) -> None:
    if kernel_version() < 6:
        assert any("signals" in note for note in box.sandbox.notes)
        return
    victim = box.do(lambda: os.getpid())
    assert victim
    sleeping = (
        subprocess.Popen(["sleep", "60"], user=box.uid) if os.geteuid() == 0 else subprocess.Popen(["sleep", "60"])
    )
    done = box.run(f"kill -9 {sleeping.pid}")
    assert "not permitted" in done.err
    assert sleeping.poll() is None
    sleeping.kill()
    sleeping.wait()


def test_nothing_else_reaches_anybody_outside(box: Box) -> None:
    """No limits or turns of other processes, no memory or queues that stay, no terminal of the user's."""
    master, slave = os.openpty()
    outside = subprocess.Popen(["sleep", "60"], user=box.uid if os.geteuid() == 0 else None)
    libc = ctypes.CDLL(None)
    queue = libc.msgget(0, 0o1666)
    try:
        Path(os.ttyname(slave)).chmod(0o666)
        code = (
            "import ctypes, os, resource\n"
            f"def limit(): resource.prlimit({outside.pid}, resource.RLIMIT_CPU, (0, 0))\n"
            f"def slow(): os.setpriority(os.PRIO_PROCESS, {outside.pid}, 19)\n"
            "def all(): os.setpriority(os.PRIO_USER, 0, 19)\n"
            f"def last(): os.sched_setscheduler({outside.pid}, os.SCHED_IDLE, os.sched_param(0))\n"
            f"def write(): os.write(os.open({os.ttyname(slave)!r}, os.O_WRONLY), b'x')\n"
            "libc = ctypes.CDLL(None)\n"
            "for tried in (limit, slow, all, last, write):\n"
            "    try: tried(); print(tried.__name__)\n"
            "    except OSError: pass\n"
            "print(libc.shmget(0, 4096, 0o1600), libc.msgget(0, 0o1600), libc.semget(0, 1, 0o1600))\n"
            f"print(libc.msgsnd({queue}, b'12345678x', 1, 0o4000), libc.msgctl({queue}, 0, None))\n"
            "resource.prlimit(0, resource.RLIMIT_CPU, (50, 50)); os.nice(1); print('own')\n"
        )
        assert box.run(f'{python_for_all()} -c "{code}"').out == "-1 -1 -1\n-1 -1\nown\n"
        assert os.waitid(os.P_PID, outside.pid, os.WEXITED | os.WNOHANG) is None
        assert os.getpriority(os.PRIO_PROCESS, outside.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    finally:
        assert libc.msgctl(queue, 0, None) == 0, "a queue of the user's is still there"
        outside.kill()
        outside.wait()
        os.close(master)
        os.close(slave)


def test_guarded_places_are_put_back(box: Box) -> None:
    repository = box.repository()
    config = (repository / ".git/config").read_text()
    done = box.run("echo evil >>.git/config; echo evil >.git/hooks/pre-commit; echo x >ferrule.toml")
    assert (repository / ".git/config").read_text() == config
    assert not (repository / ".git/hooks/pre-commit").exists()
    assert not (repository / "ferrule.toml").exists()
    assert [one.subject for one in done.denials] == [".git/config", ".git/hooks", "ferrule.toml"]


def test_a_fork_bomb_stays_bounded(box: Box) -> None:
    mark = f"ferrule-bomb-{os.getpid()}-{box.uid}"
    script = "bomb() { bomb | bomb & }; bomb; exec sleep 1"  # which needs no room for another process
    done = box.run_program(["bash", "-c", f"exec -a {mark} bash -c '{script}'"], bounds=Bounds(processes=64))
    assert done.code == 0
    assert "Resource temporarily unavailable" in done.err
    assert running(mark) == 0


def test_everyday_work_goes_on(box: Box) -> None:
    done = box.run(
        "git init -q r && git -C r -c user.name=a -c user.email=b commit -q --allow-empty -m m && "
        "python3 -c 'import sqlite3, ssl; print(1)' && cat <(echo two) && echo three >/dev/null && exit 3"
    )
    assert (done.out, done.code) == ("1\ntwo\n", 3), done.err


def test_what_a_command_leaves_behind_ends_with_it(box: Box) -> None:
    mark = f"ferrule-ll-{os.getpid()}-{box.uid}"
    done = box.run(f"(setsid nohup bash -c 'exec -a {mark} sleep 1000' >/dev/null 2>&1 &); sleep 0.2; echo done")
    assert done.out == "done\n"
    assert running(mark) == 0


def test_what_it_cannot_hide_is_refused(tmp_path: Path) -> None:
    needs(kernel_version(), "a kernel with Landlock")
    (tmp_path / ".env").write_text("x")
    with pytest.raises(SandboxRefused) as refused:
        landlock().prepare(Profile((tmp_path,), tmp_path, hidden=(tmp_path / ".env",)), ["true"])
    assert (refused.value.message, refused.value.suggestion) == snapshot(
        (
            "Without bubblewrap the sandbox cannot hide `.env` from a command that may change files, and reading it needs approval or is denied by a rule.",
            "Ask the user to install bubblewrap, or, if no rule denies it, to let commands read the file with the rule `Read(.env)`.",
        )
    )


def test_the_network_by_host_is_refused(tmp_path: Path) -> None:
    needs(kernel_version(), "a kernel with Landlock")
    with pytest.raises(SandboxRefused, match="only some hosts"):
        landlock().prepare(Profile((tmp_path,), tmp_path, hosts=("example.org",)), ["true"])


def test_without_landlock_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "kernel_version", lambda: 0)
    assert landlock().missing() == "this kernel has no Landlock"
    with pytest.raises(SandboxRefused, match="no Landlock"):
        landlock().prepare(Profile((tmp_path,), tmp_path), ["true"])


def running(mark: str) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                count += (entry / "cmdline").read_bytes().startswith(mark.encode())
            except OSError:
                continue
    return count


def test_the_rules_are_this_platforms() -> None:
    assert sys.platform == "linux" or kernel_version() == 0
