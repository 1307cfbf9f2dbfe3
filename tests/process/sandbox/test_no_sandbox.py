"""Without a sandbox nothing runs that could change something, unless the person turned it off (must-show 5)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ferrule.process.profile import Profile
from ferrule.process.sandbox.no_sandbox import NoSandbox
from ferrule.process.sandbox.sandbox import SandboxRefused


def test_what_may_write_or_reach_the_network_is_refused(tmp_path: Path) -> None:
    for profile in (Profile((tmp_path,), tmp_path), Profile((), tmp_path, hosts=("x.org",))):
        with pytest.raises(SandboxRefused) as refused:
            NoSandbox(reasons=("bubblewrap: there is no `bwrap` program.",)).prepare(profile, ["true"])
        assert refused.value.suggestion is not None
        assert "bwrap" in refused.value.suggestion
        assert refused.value.kind == "permission_error"


def test_what_only_reads_may_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    with NoSandbox().prepare(Profile((), tmp_path), ["sh", "-c", "pwd; env"]) as prepared:
        launch = prepared.launch
        assert not launch.contains_all
        done = subprocess.run(launch.arguments, cwd=launch.folder, env=dict(launch.environment), capture_output=True)
        assert done.stdout.startswith(str(tmp_path.resolve()).encode())
        assert b"secret" not in done.stdout
        assert prepared.after_command() == ()
        assert not prepared.stale


def test_turned_off_it_says_so_and_runs_everything(tmp_path: Path) -> None:
    off = NoSandbox(off=True)
    assert off.prepare(Profile((tmp_path,), tmp_path), ["true"]).launch.arguments == ("true",)
    assert "turned off" in off.notes[0]
    assert off.name == "none"
    assert off.explain_denial(1, "Permission denied", Profile((tmp_path,), tmp_path)) is None
