"""Each layer broken on purpose: the next is taken, and where none is left nothing runs and the reason is said."""

# ruff: noqa: E501 - a text that is pinned stands on one line
from __future__ import annotations

import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.needs import needs
from tests.process.sandbox.box import as_user, bubblewrap

from ferrule.process import landlock
from ferrule.process.profile import Profile
from ferrule.process.sandbox import choose, landlock_sandbox
from ferrule.process.sandbox.denials import SandboxRefused


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_found", {})


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.fixture
def no_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock_sandbox, "kernel_version", lambda: 0)


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_bubblewrap_comes_first() -> None:
    needs(bubblewrap(), "bubblewrap (`bwrap` on PATH)")
    assert choose.best_sandbox().name == "bubblewrap"
    assert [(one.name, one.works) for one in choose.probe_report()] == [("bubblewrap", True)]
    assert choose.best_sandbox() is choose.best_sandbox()


def test_without_bubblewrap_it_is_landlock(no_bubblewrap: None) -> None:
    needs(landlock.kernel_version(), "a kernel with Landlock")
    assert choose.best_sandbox().name == "landlock"
    first, second = choose.probe_report()
    assert not first.works
    assert second.works
    assert first.message == snapshot(
        "there is no `bwrap` program; install it with the system's package manager (`apt-get install bubblewrap`, `dnf install bubblewrap`, `pacman -S bubblewrap`)"
    )


@pytest.mark.parametrize(
    ("script", "advice"),
    [
        ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "user namespaces are not allowed"),
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "user namespaces are not allowed"),
        ("echo 'bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted' >&2; exit 1", "namespace"),
        ("echo 'bwrap: Unknown option --x' >&2; exit 1", "to see the same"),
        ('while [ "$1" != -- ]; do shift; done; shift; exec "$@"', "did not confine"),
        ("echo confined; exit 1", "did not confine"),
    ],
    ids=["uid map", "namespace", "loopback", "unknown", "confines nothing", "fails"],
)
def test_a_bubblewrap_that_does_not_confine_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_landlock: None, script: str, advice: str
) -> None:
    fake(tmp_path, monkeypatch, script)
    sandbox = choose.best_sandbox()
    assert sandbox.name == "none"
    assert advice in choose.probe_report()[0].message
    with pytest.raises(SandboxRefused):
        sandbox.prepare(Profile((tmp_path,), tmp_path, look=True), ["true"])


def test_a_bubblewrap_of_the_workspace_is_never_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_landlock: None
) -> None:
    fake(tmp_path, monkeypatch, f": >{tmp_path}/started; echo confined")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert choose.best_sandbox([tmp_path]).name == "none"
    assert not (tmp_path / "started").exists()


def test_with_nothing_left_the_refusal_says_what_to_do(tmp_path: Path, no_bubblewrap: None, no_landlock: None) -> None:
    sandbox = choose.best_sandbox()
    with pytest.raises(SandboxRefused) as refused:
        sandbox.prepare(Profile((tmp_path,), tmp_path, look=True), ["true"])
    assert (refused.value.message, refused.value.suggestion) == snapshot(
        (
            "No sandbox works on this machine, so no command can be tried without approval.",
            "Ask the user to run `ferrule doctor` and fix this: bubblewrap: there is no `bwrap` program; install it with the system's package manager (`apt-get install bubblewrap`, `dnf install bubblewrap`, `pacman -S bubblewrap`). landlock: this kernel has no Landlock; a kernel from 5.13 on with Landlock turned on has it.",
        )
    )


def test_layers_are_proven_over_the_workspace_and_in_the_folder_for_them(tmp_path: Path) -> None:
    needs(bubblewrap(), "bubblewrap (`bwrap` on PATH)")
    workspace, layers = tmp_path / "workspace", tmp_path / "layers"
    workspace.mkdir()
    assert choose.best_sandbox((workspace,), layers).has_layers
    assert (list(workspace.iterdir()), list(layers.iterdir())) == ([], [])


def test_where_no_layer_can_be_put_the_reason_is_told(tmp_path: Path) -> None:
    needs(bubblewrap(), "bubblewrap (`bwrap` on PATH)")
    sandbox = choose.best_sandbox((tmp_path,), Path("/proc/layers"))
    assert (sandbox.has_layers, sandbox.confines) == (False, True)
    (outcome,) = choose.probe_report((tmp_path,), Path("/proc/layers"))
    assert outcome.works
    assert outcome.notes[-1] == snapshot(
        "unapproved commands see the workspace read-only: no layer can be put over it ([Errno 2] No such file or directory: '/proc/layers')"
    )


def test_without_user_namespaces_an_ordinary_user_falls_back(room: Path) -> None:
    """The limit is set in a namespace of the test's own, so that nobody else loses anything."""
    if os.geteuid() != 0:
        return
    needs(bubblewrap(), "bubblewrap (`bwrap` on PATH)")
    import ctypes

    def attempt() -> tuple[str, str]:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(4, 1, 0, 0, 0)  # dumpable again, so that our own files in /proc are ours
        assert libc.unshare(0x10000000) == 0, os.strerror(ctypes.get_errno())
        uid = os.getuid()
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
        tried = choose._try_bubblewrap((), None)
        return tried[1].name, tried[1].message

    uid = 65534
    os.chown(room, uid, uid)
    found = as_user(uid, {"PATH": "/usr/bin:/bin", "HOME": str(room)}, lambda: _in_a_thread_free_child(attempt))
    assert found[0] == "bubblewrap"
    assert "does not work here" in found[1]


def _in_a_thread_free_child(work: object) -> object:
    assert callable(work)
    return work()
