"""What of the system is hidden, and what of a home is shown."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ferrule.process.sandbox.places import Places, _places, git_settings, is_within, sockets_in, system_places
from ferrule.process.sandbox.toolchains import _reals


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


def derived(home: Path, *path: Path | str, inside: tuple[str, ...] = (), **variables: str) -> Places:
    return _places(str(home), os.pathsep.join(map(str, path)), tuple(variables.items()), "/usr", inside)


def shown(home: Path, *path: Path | str, inside: tuple[str, ...] = (), **variables: str) -> set[str]:
    """What of the folder that the home lies in is shown."""
    top = f"{home.parent}/"
    tools = derived(home, *path, inside=inside, **variables).tools
    return {one.removeprefix(top) for one in tools if one.startswith(top)}


def make(folder: Path, *names: str) -> Path:
    """Folders, and programs where a name has `!` at its end."""
    for name in names:
        path = folder / name.rstrip("!")
        if name.endswith("!"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
        else:
            path.mkdir(parents=True)
    return folder


def test_known_tools_of_a_home_are_shown_and_the_folder_above_is_not(home: Path) -> None:
    make(home, ".cargo/bin", ".pyenv/shims", ".ssh", ".cargo/registry", ".m2/repository")
    (home / ".cargo/credentials.toml").touch()
    assert shown(home) == {"home/.cargo/bin", "home/.pyenv", "home/.cargo/registry", "home/.m2/repository"}


def test_a_folder_on_path_is_shown_with_the_installation_it_belongs_to(home: Path) -> None:
    """S1"""
    path = [
        make(home / "node", "bin", "lib", "share", "include") / "bin",
        make(home / "venv", "bin", "lib") / "bin",
        make(home / "plain", "bin") / "bin",
    ]
    (home / "node/README.md").touch()
    (home / "venv/pyvenv.cfg").touch()
    assert shown(home, *path) == {"home/node", "home/venv", "home/plain/bin"}


def test_a_projects_folder_on_path_shows_its_programs_and_not_the_project(home: Path) -> None:
    """S1"""
    project = make(home / "p2", "bin", "lib", "src", "data", ".git", "tool!")
    (project / ".env").touch()
    other = make(home / "p3", "bin", "lib", "data")
    tools = make(home / "tools", "run!", "data")
    (tools / "token.txt").touch()
    path = (project / "bin", project, other / "bin", tools)
    assert shown(home, *path) == {"home/p2/bin", "home/p2/tool", "home/p3/bin", "home/tools/run"}


@pytest.mark.parametrize("broad", ["", "/"])
def test_the_home_or_all_of_the_machine_on_path_shows_no_tree(home: Path, broad: str) -> None:
    """S1"""
    make(home, "notes", "here!", "bin", "lib")
    entry = broad or str(home)
    variables = {"JAVA_HOME": entry, "NVM_DIR": entry, "GOPATH": entry, "SSL_CERT_DIR": entry}
    found = derived(home, entry, str(home.parent), ".", "relative", inside=(), **variables)
    assert not found.show(str(home / "notes"))
    assert not found.show("/srv/x")
    assert not found.show(str(home.parent / "x"))


def test_programs_that_are_links_and_scripts_lead_on_to_what_they_need(home: Path, tmp_path: Path) -> None:
    bin_folder = make(home / "on", "bin") / "bin"
    tool = make(tmp_path / "elsewhere/tool-1.0", "bin/tool!", "lib", "share")
    python = make(tmp_path / "python", "bin/python!", "lib", "include")
    script = make(tmp_path / "single", "script!", "other") / "script"
    (bin_folder / "tool").symlink_to(tool / "bin/tool")
    (bin_folder / "single").symlink_to(script)
    (bin_folder / "app").write_text(f"#!{python}/bin/python -I\n")
    (bin_folder / "app").chmod(0o755)
    assert shown(home, bin_folder) == {"home/on/bin", "elsewhere/tool-1.0", "python", "single/script"}


def test_links_of_programs_are_followed_as_the_system_follows_them(tmp_path: Path) -> None:
    make(tmp_path, "real/bin/tool!", "other")
    links = {
        "direct": "real/bin/tool", "chain": "direct", "absolute": f"{tmp_path}/real/bin/tool", "folder": "real/bin",
        "through": "folder/tool", "up": "other/../direct", "ends_up": "real/bin/..", "ends_here": "real/.",
        "slash": "real/bin/", "missing": "nowhere/tool", "loop": "loop",
    }  # fmt: skip
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    paths = [f"{tmp_path}/{name}" for name in links if name != "loop"]
    assert [*_reals(paths)] == [os.path.realpath(path) for path in paths]
    assert not os.path.isfile(*_reals([f"{tmp_path}/loop"]))


def test_a_folder_of_programs_is_read_once_for_all_workspaces(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first command of a process makes boxes of its own before that of the workspace (R1)."""
    make(home.parent, "opt/node/bin/node!", "opt/node/lib")
    read: list[str] = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (read.append(str(path)), real(path))[1])
    for inside in ((), ("/one",), ("/two",)):
        assert "opt/node" in shown(home, home.parent / "opt/node/bin", inside=inside)
    assert read.count(f"{home.parent}/opt/node/bin") == 1


def test_the_python_of_a_virtual_environment_is_shown(home: Path, tmp_path: Path) -> None:
    python = make(tmp_path / "python", "bin/python!", "lib", "include")
    venv = make(home / "venv", "bin", "lib")
    (venv / "pyvenv.cfg").write_text(f"home = {python}/bin\n")
    assert shown(home, venv / "bin") == {"home/venv", "python"}


def test_what_lies_in_a_workspace_derives_nothing(home: Path, tmp_path: Path) -> None:
    """S1: anyone could have written it."""
    secret = make(tmp_path / "secret", "bin/x!", "lib")
    workspace = make(tmp_path / "ws", "venv/bin", "venv/lib", "shell!")
    (workspace / "venv/bin/python").symlink_to(secret / "bin/x")
    (workspace / "venv/pyvenv.cfg").write_text(f"home = {secret}/bin\n")
    path = (workspace / "venv/bin", workspace)
    assert shown(home, *path, inside=(str(workspace),), VIRTUAL_ENV=str(workspace / "venv")) == set()


def test_variables_name_toolchains(home: Path, tmp_path: Path) -> None:
    make(
        tmp_path, "jdk/bin", "jdk/lib", "jdk/jmods", "cargo/bin", "cargo/registry", "cargo/other", "nvm/versions", "ca"
    )
    (tmp_path / "ca/mine.pem").touch()
    given = {"JAVA_HOME": "jdk", "CARGO_HOME": "cargo", "NVM_DIR": "nvm", "SSL_CERT_FILE": "ca/mine.pem"}
    found = shown(home, inside=(), **{name: str(tmp_path / value) for name, value in given.items()})
    assert found == {"jdk", "cargo/bin", "cargo/registry", "nvm", "ca/mine.pem"}


def test_names_that_lead_through_links_are_links_in_the_box(home: Path, tmp_path: Path) -> None:
    make(tmp_path / "real/tool", "bin", "lib")
    (tmp_path / "named").symlink_to("real")
    found = derived(home, tmp_path / "named/tool/bin")
    assert f"{tmp_path}/real/tool" in found.tools
    assert (f"{tmp_path}/named", "real") in found.links


def test_a_tool_that_was_installed_meanwhile_is_found(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = make(home / "some", "bin") / "bin"
    make(tmp_path / "later", "bin/x!", "lib", "share")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin")
    monkeypatch.setenv("HOME", str(home))
    assert not system_places().show(str(tmp_path / "later/bin/x"))
    (folder / "x").symlink_to(tmp_path / "later/bin/x")
    os.utime(folder, ns=(1, 1))
    assert system_places().show(str(tmp_path / "later/bin/x"))


def test_every_place_is_real() -> None:
    places = system_places()
    for path in (*places.system, *places.hidden, *places.tools):
        assert os.path.realpath(path) == path
    assert "/" not in (*places.system, *places.tools)


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


def test_a_listening_socket_is_found_where_it_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        assert sockets_in((str(tmp_path.resolve()),)) == [str(path.resolve())]
        assert sockets_in((str(tmp_path.resolve() / "other"),)) == []


def test_one_that_was_removed_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.unlink()
        path.write_text("not a socket")
        assert sockets_in((str(tmp_path.resolve()),)) == []
