"""`ferrule doctor`: proven by trying."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Command


def test_a_sound_installation_passes(ferrule: Command) -> None:
    done = ferrule("doctor", "--json")
    assert done.code == 0
    states = {check["name"]: check["state"] for check in done.json}
    assert (states["call"], states["audit"], states["tools"]) == ("ok", "ok", "ok")


def test_each_thing_that_is_wrong_is_named(ferrule: Command) -> None:
    (ferrule.folder / "tools" / "broken.py").write_text("1 / 0\n")
    ferrule.environment["FERRULE_AUDIT_PATH"] = str(ferrule.settings)
    done = ferrule("doctor")
    assert done.code == 1
    assert "broken.py: ZeroDivisionError: division by zero" in done.out
    assert "fail  call" in done.out
    assert "Traceback" not in done.err


def test_wrong_settings_do_not_keep_it_from_looking(ferrule: Command) -> None:
    ferrule.settings.write_text("this is not toml")
    done = ferrule("doctor")
    assert done.code == 1
    assert "is not valid TOML" in done.out
    assert "ok    call" in done.out
