"""`ferrule doctor` on what protects the person: each layer tried, and broken on purpose."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.needs import needs

from ferrule.app.settings import HookSettings, PermissionSettings, SandboxSettings, Settings, ToolSettings
from ferrule.cli.doctor import protection_checks
from ferrule.process.sandbox import choose

if TYPE_CHECKING:
    from .conftest import Command


@pytest.fixture(autouse=True)
def fresh_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_found", {})


def found(workspace: Path, name: str, **chosen: object) -> list[tuple[str, str]]:
    settings = Settings(tools=ToolSettings(plugins=False), **chosen)  # type: ignore[arg-type]
    return [(one.state, one.message) for one in protection_checks(settings, workspace) if one.name == name]


def test_the_command_says_which_layers_stand(ferrule: Command) -> None:
    """S3."""
    checks = ferrule("doctor", "--json").json
    assert {"sandbox", "commands", "rules"} <= {check["name"] for check in checks}
    best = choose.best_sandbox()
    assert any(check["name"] == "sandbox" and check["message"].startswith(best.name) for check in checks)


def test_what_unapproved_commands_get_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: the layer where one can be had, and else why not."""
    needs(shutil.which("bwrap"), "bubblewrap (`bwrap` on PATH)")
    assert "unapproved ones write to a layer over the workspace" in found(tmp_path, "sandbox")[0][1]
    monkeypatch.setattr(choose, "_found", {})
    monkeypatch.setattr(choose, "_prove_layers", lambda *_: "no tmpfs")
    assert found(tmp_path, "sandbox")[-1] == (
        "note",
        "bubblewrap: unapproved commands see the workspace read-only: no layer can be put over it (no tmpfs)",
    )


def test_without_any_sandbox_it_says_so_and_what_would_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "find_program", lambda *_: None)
    monkeypatch.setattr(choose.LandlockSandbox, "missing", lambda _self: "this kernel has no Landlock")
    states = found(tmp_path, "sandbox")
    assert {state for state, _ in states} == {"fail"}
    assert "apt-get install bubblewrap" in states[0][1]
    assert states[-1][1] == "none works: every command asks before it runs, and runs unconfined"


def test_the_weaker_one_in_use_is_a_note_on_the_stronger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "find_program", lambda *_: None)
    monkeypatch.setattr(choose, "_prove", lambda *_: None)
    monkeypatch.setattr(choose.LandlockSandbox, "missing", lambda _self: None)
    states = found(tmp_path, "sandbox")
    assert [state for state, _ in states[:2]] == ["note", "ok"]


def test_turned_off_is_said(tmp_path: Path) -> None:
    assert found(tmp_path, "sandbox", sandbox=SandboxSettings(enabled=False)) == [
        ("note", "turned off in the settings: commands run unconfined")
    ]


def test_what_the_sandbox_cannot_open_is_named(tmp_path: Path) -> None:
    opened = SandboxSettings(hosts=["a b"], writable=[Path("gone")])
    failed = [message for state, message in found(tmp_path, "sandbox", sandbox=opened) if state == "fail"]
    assert "`sandbox.hosts`: 'a b' is not the name of a host" in failed[0]
    assert f"{tmp_path}/gone: listed in `sandbox.writable`, but does not exist" in failed


def test_a_machine_that_does_not_understand_commands_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(tmp_path, "commands") == [("ok", "commands are analysed before they run")]
    monkeypatch.setitem(__import__("sys").modules, "tree_sitter_bash", None)
    monkeypatch.setattr("ferrule.policy.commands.analyse.analyse", _not_understood)
    ((state, message),) = found(tmp_path, "commands")
    assert state == "note"
    assert "pip install 'ferrule[shell]'" in message


def _not_understood(command: str, **_: object) -> object:
    from ferrule.policy.commands.parts import Analysis

    return Analysis(command, (), (), ("the grammar of bash is not installed",))


def test_a_rule_that_cannot_work_is_named(tmp_path: Path) -> None:
    assert found(tmp_path, "rules", permissions=PermissionSettings(deny=["Read(.env)"])) == [
        ("ok", "1 rules, mode default")
    ]
    ((state, message),) = found(tmp_path, "rules", permissions=PermissionSettings(deny=["Bash()"]))
    assert (state, "Bash()" in message) == ("fail", True)


def test_each_hook_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    hooks = [
        HookSettings("before", ["sh"]),
        HookSettings("before", ["/no/such"], tools=["Bash", "mcp__*"]),
        HookSettings("after", ["./mine"]),
    ]
    sound, missing, closed = found(tmp_path, "hooks", hooks=hooks)
    assert sound == ("ok", "before *: sh")
    assert missing == (
        "fail", "before Bash, mcp__*: /no/such: there is no such program, so all these calls are refused",
    )  # fmt: skip
    assert closed[0] == "fail"
    assert "it cannot be executed" in closed[1]
    (tmp_path / "mine").chmod(0o755)
    assert found(tmp_path, "hooks", hooks=hooks[2:])[0] == (
        "note", "after *: ./mine: it is in the workspace, where an agent may change it",
    )  # fmt: skip
