"""Where no sandbox works, `explain`, `call` and the MCP server agree, and only your own settings lift it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.test_protection_checks import found
from tests.mcp_server.serving import answering, both_eras, client_of

from ferrule import Runtime, Session
from ferrule.app.settings import ShellSettings, load_settings
from ferrule.builtin.bash import bash
from ferrule.mcp_server.server import McpServer
from ferrule.policy.decide import RulePolicy
from ferrule.process.sandbox import choose
from ferrule.process.sandbox.sandbox import NoSandbox

if TYPE_CHECKING:
    from .conftest import Command

TOUCH = '{"command": "touch made"}'


@pytest.fixture(autouse=True)
def _no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    none = NoSandbox(reasons=("bubblewrap: there is no `bwrap` program.",))
    monkeypatch.setattr(choose, "_best", lambda *_: (none, ()))


@pytest.mark.parametrize("flags", [("--allow", "Bash(touch *)"), ("--mode", "bypass"), ("--mode", "accept-edits")])
def test_explain_and_call_agree(ferrule: Command, flags: tuple[str, str]) -> None:
    """S1, P4."""
    explained = ferrule("explain", "Bash", TOUCH, "--json", *flags).json
    assert (explained["verdict"], explained["reason"]) == ("ask", "no sandbox works on this machine")
    assert 'shell.unconfined = "allow"' in explained["needed"]
    assert "Nothing confines it" in explained["box_why"]
    done = ferrule("call", "Bash", TOUCH, *flags)
    assert done.code != 0
    assert "no sandbox works on this machine" in done.err
    assert "ferrule doctor" in done.err
    assert "--allow" not in done.err
    assert not (ferrule.workspace / "made").exists()


def test_your_own_settings_let_rules_decide_and_it_warns(ferrule: Command) -> None:
    """S1."""
    with ferrule.settings.open("a") as file:
        file.write('[shell]\nunconfined = "allow"\n[permissions]\nallow = ["Bash(touch *)"]\n')
    assert ferrule("explain", "Bash", TOUCH).code == 0
    done = ferrule("call", "Bash", TOUCH)
    assert done.code == 0
    assert "where no sandbox works, commands run with all your permissions" in done.err
    assert (ferrule.workspace / "made").exists()


@pytest.mark.parametrize("trusted", [False, True])
def test_a_projects_file_cannot(ferrule: Command, trusted: bool) -> None:
    """S3: in a trusted folder neither."""
    if trusted:
        text = ferrule.settings.read_text()
        ferrule.settings.write_text(f'trusted_folders = ["{ferrule.workspace}"]\n{text}')
    (ferrule.workspace / "ferrule.toml").write_text(
        '[shell]\nunconfined = "allow"\nmemory = "off"\n[permissions]\nmode = "bypass"\n'
    )
    done = ferrule("call", "Bash", TOUCH)
    assert done.code != 0
    assert "asks for shell.unconfined; not applied, because only your own settings may say that" in done.err
    assert ("shell.memory" in done.err) is not trusted
    assert not (ferrule.workspace / "made").exists()


def test_nobody_lifts_it_where_the_organisation_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3."""
    organisation, mine = tmp_path / "organisation.toml", tmp_path / "mine.toml"
    organisation.write_text('[shell]\nunconfined = "ask"\n')
    mine.write_text('[shell]\nunconfined = "allow"\n')
    monkeypatch.setattr("ferrule.app.settings.ORGANISATION_FILE", organisation)
    monkeypatch.setenv("FERRULE_CONFIG", str(mine))
    loaded = load_settings(tmp_path)
    assert (loaded.settings.shell.unconfined, loaded.overruled) == ("ask", ["shell.unconfined = 'allow'"])


def test_doctor_says_what_the_setting_does(tmp_path: Path) -> None:
    allowed = [message for _, message in found(tmp_path, "sandbox", shell=ShellSettings(unconfined="allow"))]
    assert "`shell.unconfined` is set: what your rules and the mode allow runs without asking" in allowed
    limits = dict(found(tmp_path, "limits"))
    assert "file_size: no limit without a sandbox" in limits.values()


@both_eras
async def test_a_client_of_the_mcp_server_is_told(tmp_path: Path, era: str) -> None:
    """P4, X2."""
    server = McpServer(Runtime([bash], session=Session(workspace=tmp_path), policy=RulePolicy(mode="bypass")))
    person = answering(answer="always")
    async with client_of(server, era, elicitation_callback=person) as client:
        for _ in range(2):
            await client.call_tool("Bash", {"command": "touch made"})
    assert len(person.seen) == 2
    assert all("no sandbox works on this machine" in asked.message for asked in person.seen)
    assert all("Nothing would confine the command" in asked.message for asked in person.seen)
    assert all('"Always" would mean' not in asked.message for asked in person.seen)
