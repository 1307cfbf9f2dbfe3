"""What of the system is hidden, and what of a home is shown."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ferrule.process.sandbox.places import _places, git_settings, is_within, sockets_of_others, system_places


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


def test_the_home_is_hidden_wherever_it_is(home: Path) -> None:
    assert str(home) in _places(str(home), "", "/usr").folders


def test_known_tools_are_shown_and_the_folder_above_is_not(home: Path) -> None:
    for name in (".cargo/bin", ".pyenv/shims", ".ssh", ".cargo/registry"):
        (home / name).mkdir(parents=True)
    shown = _places(str(home), "", "/usr").tools
    assert set(shown) == {str(home / name) for name in (".cargo/bin", ".pyenv", ".cargo/registry")}


def test_a_folder_on_path_is_shown_with_its_libraries(home: Path) -> None:
    for name in ("venv/bin", "venv/lib", "plain/bin", "bin"):
        (home / name).mkdir(parents=True)
    path = os.pathsep.join(str(home / name) for name in ("venv/bin", "plain/bin", "bin"))
    assert set(_places(str(home), path, "/usr").tools) == {str(home / name) for name in ("venv", "plain/bin", "bin")}


def test_the_home_itself_on_path_shows_nothing(home: Path) -> None:
    assert _places(str(home), f"{home}:.:", "/usr").tools == ()


def test_a_tool_folder_that_is_a_link_shows_its_target_alone(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (home / ".pyenv").symlink_to(tmp_path / "elsewhere")
    assert _places(str(home), "", "/usr").tools == ()  # the target is no secret place, so it can be seen anyway


def test_every_place_is_real() -> None:
    places = system_places()
    for path in (*places.folders, *places.hidden, *places.tools):
        assert os.path.realpath(path) == path
    assert "/" not in places.folders


@pytest.mark.parametrize(
    ("path", "folder", "within"),
    [("/a", "/a", True), ("/a/b", "/a", True), ("/ab", "/a", False), ("/", "/a", False), ("/a", "/", True)],
)
def test_within(path: str, folder: str, within: bool) -> None:
    assert is_within(path, folder) is within


def test_only_the_person_and_habits_are_taken_from_git(home: Path) -> None:
    assert git_settings(str(home)) == b""
    (home / ".gitconfig").write_text("[user]\nname = Ada\n[credential]\nhelper = !evil\n[github]\ntoken = x\n")
    assert git_settings(str(home)) == b'[user]\n\tname = "Ada"\n'


def test_a_listening_socket_is_found_unless_it_is_covered(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        assert str(path.resolve()) in sockets_of_others(())
        assert str(path.resolve()) not in sockets_of_others((str(tmp_path.resolve()),))


def test_one_that_was_removed_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.unlink()
        path.write_text("not a socket")
        assert str(path.resolve()) not in sockets_of_others(())
