"""Without a sandbox nothing can be tried, and what was approved runs as the user's own commands do."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.process.sandbox.box import run

from ferrule.process.profile import Profile
from ferrule.process.sandbox.denials import SandboxRefused
from ferrule.process.sandbox.sandbox import NoSandbox


@pytest.mark.parametrize("off", [False, True])
def test_nothing_can_be_tried(tmp_path: Path, off: bool) -> None:
    sandbox = NoSandbox(off=off, reasons=("bubblewrap: there is no `bwrap` program.",))
    assert not sandbox.confines
    assert not sandbox.has_layers
    with pytest.raises(SandboxRefused) as refused:
        sandbox.prepare(Profile((tmp_path,), tmp_path, look=True), ["true"])
    assert refused.value.kind == "permission_error"
    assert (refused.value.message, refused.value.suggestion) == snapshot(
        (
            "No sandbox works on this machine, so no command can be tried without approval.",
            "Ask the user to run `ferrule doctor` and fix this: bubblewrap: there is no `bwrap` program.",
        )
    )


def test_what_was_approved_runs_with_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    done = run(NoSandbox(), Profile((tmp_path,), tmp_path), ["sh", "-c", "pwd; env; : >made"])
    assert done.out.startswith(str(tmp_path.resolve()))
    assert "secret" not in done.out
    assert (tmp_path / "made").exists()
    assert done.denials == ()


def test_turned_off_it_says_so(tmp_path: Path) -> None:
    off = NoSandbox(off=True)
    assert "turned off" in off.notes[0]
    assert off.name == "none"
    assert off.explain_denial(1, "Permission denied", Profile((tmp_path,), tmp_path)) is None
