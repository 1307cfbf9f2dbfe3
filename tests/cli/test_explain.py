"""`ferrule explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Command

BASH = '''
from ferrule import Touch, tool

@tool(name="Bash", kind="execute", touches=lambda params: [Touch(f"command:{params.command}", write=True)])
def bash(command: str) -> str:
    """Run a command. Use this to test: nothing is run."""
    return command
'''


@pytest.fixture
def with_bash(ferrule: Command) -> Command:
    (ferrule.folder / "tools" / "bash.py").write_text(BASH)
    return ferrule


def test_what_would_run_says_why(ferrule: Command) -> None:
    done = ferrule("explain", "Read", '{"file_path": "a.txt"}')
    assert done.code == 0
    assert done.out.startswith("Read: allow, because a read-only tool runs freely\n")


def test_what_is_denied_names_the_rule_and_its_file(ferrule: Command) -> None:
    (ferrule.workspace / "ferrule.toml").write_text('[permissions]\ndeny = ["Edit(/src/**)"]\n')
    arguments = '{"file_path": "src/a.py", "content": ""}'
    done = ferrule("explain", "Write", arguments)
    assert done.code == 3
    file = str(ferrule.workspace / "ferrule.toml")
    assert f"deny: `Edit(/src/**)` denies it ({file})" in done.out
    assert f"Needed: Remove `Edit(/src/**)` from {file}" in done.out
    document = ferrule("explain", "Write", arguments, "--json").json
    assert (document["verdict"], document["rule"], document["file"]) == ("deny", "Edit(/src/**)", file)
    assert document["parts"][1]["what"] == "write src/a.py"


def test_what_would_ask_says_what_rule_would_help(ferrule: Command) -> None:
    done = ferrule("explain", "Write", '{"file_path": "src/a.py", "content": ""}')
    assert done.code == 3
    assert f"Needed: Approval, or an allow rule: Edit(/{ferrule.workspace}/src/**)" in done.out
    allowed = ferrule("explain", "Write", '{"file_path": "src/a.py", "content": ""}', "--allow", "Edit(/src/**)")
    assert allowed.code == 0


def test_nothing_is_run_and_nothing_recorded(ferrule: Command) -> None:
    ferrule("explain", "Write", '{"file_path": "a.py", "content": "x"}', "--mode", "bypass")
    assert not (ferrule.workspace / "a.py").exists()
    kept = {file.name for file in (ferrule.folder / "data").iterdir()}
    assert kept == {"tools-index"}  # what was read of the tools folder


def test_a_command_is_explained(with_bash: Command) -> None:
    done = with_bash("explain", "Bash", '{"command": "rm x"}', "--deny", "Bash(rm *)", "--json")
    assert (done.code, done.json["verdict"], done.json["file"]) == (3, "deny", "the command line")


@pytest.mark.parametrize("arguments", [["NoSuch", "{}"], ["Read", "{}"], ["Read", "{"]])
def test_a_call_that_cannot_be_is_said_so(ferrule: Command, arguments: list[str]) -> None:
    done = ferrule("explain", *arguments)
    assert done.code == 1
    assert done.err.startswith("Error (")


def test_it_speaks_chinese(ferrule: Command) -> None:
    done = ferrule("--lang", "zh", "explain", "save_note", '{"text": "x"}')
    assert "写入" in done.out


PARTICULAR = '''
from ferrule import tool

@tool(kind="readonly", roles=["admin"])
def for_admins() -> str:
    """Tell admins something. Use this to test."""
    return "told"

@tool(kind="readonly", needs=["tenant"])
def for_tenants() -> str:
    """Tell tenants something. Use this to test."""
    return "told"

@tool(kind="readonly", needs=["user"], roles=[])
def for_users() -> str:
    """Tell users something. Use this to test."""
    return "told"
'''


@pytest.mark.parametrize("name", ["for_admins", "for_tenants", "for_users", "Read", "Raed"])
@pytest.mark.parametrize("mode", ["default", "plan", "bypass"])
def test_explain_and_call_agree_about_who_calls(ferrule: Command, name: str, mode: str) -> None:
    """S1, M4: a tool that is not for this caller, or lacks context, is no more allowed by `explain` than by `call`."""
    (ferrule.folder / "tools" / "particular.py").write_text(PARTICULAR)
    (ferrule.workspace / "a.txt").write_text("a")
    arguments = '{"file_path": "a.txt"}' if name in ("Read", "Raed") else "{}"
    said = ferrule("explain", name, arguments, "--mode", mode, "--json")
    called = ferrule("call", name, arguments, "--mode", mode, "--json").json
    assert (said.code == 0) is called["success"]
    if "verdict" in said.json:
        assert said.json["verdict"] == ("allow" if called["success"] else "deny")
        assert called["success"] or said.json["reason"] in called["error"]["message"]
    else:
        assert said.json["error"] == called["error"]


def test_explain_holds_a_call_to_the_limits_that_a_call_has(ferrule: Command) -> None:
    (ferrule.workspace / "ferrule.toml").write_text("[limits]\nargument_bytes = 20\n")
    for command in ("explain", "call"):
        done = ferrule(command, "Read", '{"file_path": "a-rather-long-name.txt"}')
        assert done.code == 1
        assert "at most 20 are allowed" in done.err
