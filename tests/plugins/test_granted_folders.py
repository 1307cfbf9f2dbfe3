"""What a plugin may be granted, what is said of it before, and what its box shows (R7, X1)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.plugins.granted_folders import dangers_of, require_grantable, shown_folders
from ferrule.plugins.manifest import PluginError

KEPT = (".ssh/id_ed25519", ".aws/credentials", ".config/ferrule/ferrule.toml", ".local/share/ferrule/audit.db",
        ".bashrc", ".profile", ".config/fish/config.fish", ".config/gh/hosts.yml")  # fmt: skip
PLAIN = ("notes.txt", "Documents/a.txt", ".config/app/settings", ".local/share/app/data", "work/project/a.py")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home" / "ada"
    for name in (*KEPT, *PLAIN):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("x")
    monkeypatch.setenv("HOME", str(made))
    for name in ("FERRULE_DATA", "FERRULE_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return made


def shown(home: Path, *folders: str) -> set[str]:
    return {path for path, _ in shown_folders(folders, home / "work/project")}


def covers(paths: set[str], file: Path) -> bool:
    return any(file.is_relative_to(path) for path in paths)


def test_a_home_is_shown_without_keys_start_files_and_ferrules_own(home: Path) -> None:
    for folder in ("~", "~/", str(home), str(home.parent), f"{home}/work/.."):
        found = shown(home, folder)
        assert [name for name in KEPT if covers(found, home / name)] == [], folder
        assert [name for name in PLAIN if not covers(found, home / name)] == [], folder


def test_keys_are_shown_where_they_were_granted_by_name(home: Path) -> None:
    found = shown(home, "~", "~/.ssh")
    assert [name for name in KEPT if covers(found, home / name)] == [".ssh/id_ed25519"]


@pytest.mark.parametrize(
    "folder",
    [
        "/", "//", "/.", "/usr/..", "/:write", "/proc", "/proc/1", "/dev", "/sys/fs", "/run", "/run/docker.sock",
        "~:write", "~/:write", "~/.config:write", "~/.local:write", "~/.local/share:write", "~/.ssh:write",
        "~/.config/ferrule", "~/.config/ferrule/", "~/.CONFIG/Ferrule", "~/.local/share/ferrule/plugins", "~/.bashrc",
        "~/.bashrc:write", "~/.config/fish", "~/.profile", "~/.config/autostart:write", "~/.local/bin:write",
        "~/.git\u0063onfig:write", "", ":write", "..", "../..:write", "a\0b", "~nobody-at-all/x", "/etc/ferrule",
        "/etc:write", "~/bin:write", "~/work/../.config/ferrule", "~/Documents/../../ada:write",
    ],
)  # fmt: skip
def test_no_plugin_gets_it(home: Path, folder: str) -> None:
    with pytest.raises(PluginError):
        require_grantable([folder], home / "work/project")
    with pytest.raises(PluginError):
        shown(home, folder)


def test_a_link_is_what_it_leads_to(home: Path) -> None:
    (home / "mine").symlink_to(home / ".config/ferrule")
    (home / "keys").symlink_to(home / ".ssh")
    (home / "all").symlink_to(home)
    for folder in ("~/mine", "~/keys", "~/all", "~/all:write", "~/all/.bashrc"):
        with pytest.raises(PluginError, match=r"cannot be granted"):
            shown(home, folder)


def test_a_start_file_that_is_a_link_is_not_written_where_it_lies(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / ".bashrc").unlink()
    (home / "dotfiles/bashrc").write_text("x")
    (home / ".bashrc").symlink_to(home / "dotfiles/bashrc")
    with pytest.raises(PluginError, match="your shell runs"):
        shown(home, "~/dotfiles:write")
    assert not covers(shown(home, "~"), home / "dotfiles/bashrc")


def test_settings_that_lie_elsewhere_are_kept_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "conf").mkdir()
    (home / "conf/mine.toml").write_text("")
    monkeypatch.setenv("FERRULE_CONFIG", "~/conf/mine.toml")
    monkeypatch.setenv("FERRULE_DATA", str(home / "Documents/ferrule"))
    (home / "Documents/ferrule").mkdir()
    found = shown(home, "~/conf", "~/Documents")
    assert not covers(found, home / "conf/mine.toml")
    assert not covers(found, home / "Documents/ferrule")
    assert covers(found, home / "Documents/a.txt")
    for folder in ("~/conf:write", "~/Documents:write"):
        with pytest.raises(PluginError, match="Ferrule's own files"):
            shown(home, folder)


def test_files_and_folders_that_a_plugin_may_have(home: Path) -> None:
    assert shown(home, ".", "~/notes.txt", "~/Documents:write") == {
        str(home / "work/project"), str(home / "notes.txt"), str(home / "Documents")
    }  # fmt: skip
    with pytest.raises(PluginError, match="There is no folder `~/missing`"):
        shown(home, "~/missing")


def test_the_worst_is_said_first(home: Path) -> None:
    many = [f"~/Documents/{number}" for number in range(900)]
    asked = [*many[:450], "~/.config/app:write", "~/work", "/etc", "~/.ssh", "/", "~", *many[450:], ".", "~/.config"]
    assert [f"{one.folder}: {one.why}" for one in dangers_of(asked, home / "work/project")] == snapshot(
        [
            "/: no plugin gets this folder: it is the whole machine",
            "~/.ssh: passwords, keys or tokens are kept there",
            "~: it is a home folder or holds one",
            "~/work: it holds the workspace and whatever lies beside it",
            "/etc: the settings of the whole system are there",
            "~/.config/app:write: programs keep their settings there, and often tokens",
            "~/.config: programs keep their settings there, and often tokens",
        ]
    )


def test_a_workspace_that_is_the_home_is_no_way_around(home: Path) -> None:
    with pytest.raises(PluginError):
        list(shown_folders([".:write"], home))
    found = {path for path, _ in shown_folders(["."], home)}
    assert [name for name in KEPT if covers(found, home / name)] == []


def test_a_folder_with_too_many_entries_beside_keys_is_refused(home: Path) -> None:
    for number in range(600):
        (home / f"file-{number}").touch()
    with pytest.raises(PluginError, match="too many"):
        shown(home, "~")
    assert os.fspath(home / "Documents") in shown(home, "~/Documents")
