"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from ferrule.app.settings import Settings
from ferrule.cli.options import (
    assistant_options,
    permission_options,
    sandbox_options,
    settings_for,
    workspace_option,
)

if TYPE_CHECKING:
    from .conftest import Command


@click.command
@workspace_option
@permission_options
@sandbox_options
@assistant_options
def shown(workspace: Path, model: str, go_on: bool, resume: str | None) -> Settings:
    return settings_for(workspace).settings


def with_flags(ferrule: Command, flags: str = "") -> Settings:
    return shown.main(["--workspace", str(ferrule.workspace), *flags.split()], standalone_mode=False)


def test_each_flag_is_a_setting(ferrule: Command) -> None:
    usual = with_flags(ferrule)
    assert (usual.permissions.mode, usual.permissions.allow, usual.sandbox.enabled) == ("default", [], True)
    given: Any = with_flags(ferrule, "--mode plan --allow a --allow b --ask d --deny c").permissions
    rules = [[one.rule for one in listed] for listed in (given.allow, given.ask, given.deny)]
    assert (given.mode, rules) == ("plan", [["a", "b"], ["d"], ["c"]])
    box = with_flags(ferrule, "--no-sandbox --allow-host x.org --allow-host y.org").sandbox
    assert (box.enabled, box.hosts) == (False, ["x.org", "y.org"])
    turn = with_flags(ferrule, "--max-steps 3 --max-tokens 100 --max-cost 0.5 --timeout 9").assistant
    assert (turn.max_steps, turn.max_tokens, turn.max_cost, turn.max_seconds) == (3, 100, 0.5, 9)


def test_what_a_workspace_asks_for_and_does_not_get_is_said(ferrule: Command) -> None:
    (ferrule.workspace / "ferrule.toml").write_text('[permissions]\nallow = ["save_note"]\n')
    done = ferrule("call", "save_note", '{"text": "x"}')
    assert done.code == 3
    assert "asks for permissions.allow; not applied" in done.err


def test_a_trusted_folder_gets_what_it_asks_for(ferrule: Command) -> None:
    (ferrule.workspace / "ferrule.toml").write_text('[permissions]\nallow = ["save_note"]\n')
    with ferrule.settings.open("r+") as settings:
        rest = settings.read()
        settings.seek(0)
        settings.write(f'trusted_folders = ["{ferrule.workspace}"]\n{rest}')
    assert ferrule("call", "save_note", '{"text": "x"}').code == 0


def test_what_the_organisation_overrules_is_put_down_to_it(
    ferrule: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    organisation = ferrule.folder / "organisation.toml"
    organisation.write_text("[sandbox]\nenabled = true\n")
    monkeypatch.setattr("ferrule.app.settings.ORGANISATION_FILE", organisation)
    assert with_flags(ferrule, "--no-sandbox").sandbox.enabled
    said = capsys.readouterr().err
    why = f"because your organisation's {organisation} is stricter"
    assert said == f"Warning: sandbox.enabled = False: not applied, {why}.\n"
