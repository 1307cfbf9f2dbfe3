"""Options that commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ferrule.cli.options import permission_flags, sandbox_flags, settings_for

if TYPE_CHECKING:
    from .conftest import Command


def test_flags_take_the_form_of_settings() -> None:
    assert permission_flags(None, (), (), ()) == {}
    assert permission_flags("plan", ("a", "b"), ("d",), ("c",)) == {
        "permissions": {"mode": "plan", "allow": ["a", "b"], "ask": ["d"], "deny": ["c"]}
    }


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
    loaded = settings_for(ferrule.workspace, sandbox_flags(True, ()))
    assert loaded.settings.sandbox.enabled
    said = capsys.readouterr().err
    why = f"because {organisation} of your organisation is stricter"
    assert said == f"Warning: sandbox.enabled = False: not applied, {why}.\n"
