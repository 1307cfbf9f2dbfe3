"""What a plugin may be granted, what is said of it before, and what its box shows (R7, X1)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.core.errors import ToolError
from ferrule.workspace.granted_folders import dangers_of, require_grantable, shown_folders

KEPT = (".ssh/id_ed25519", ".aws/credentials", ".config/ferrule/ferrule.toml", ".local/share/ferrule/audit.db",
        ".bashrc", ".profile", ".config/fish/config.fish", ".config/gh/hosts.yml", ".config/app/settings",
        ".local/share/app/data", ".s3cfg", ".env", ".Xauthority", ".claude.json", ".psql_history")  # fmt: skip
PLAIN = ("notes.txt", "Documents/a.txt", "work/project/a.py")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home" / "ada"
    for name in (*KEPT, *PLAIN):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("x")
    monkeypatch.setenv("HOME", str(made))
    for name in ("FERRULE_DATA", "FERRULE_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    return made


def shown(home: Path, *folders: str) -> set[str]:
    return {path for path, _ in shown_folders(folders, home / "work/project")}


def covers(paths: set[str], file: Path) -> bool:
    return any(file.is_relative_to(path) for path in paths)


def test_a_home_is_shown_without_anything_hidden(home: Path) -> None:
    """R7: no list of what programs keep there is complete."""
    for folder in ("~", "~/", str(home), str(home.parent), f"{home}/work/.."):
        found = shown(home, folder)
        assert [name for name in KEPT if covers(found, home / name)] == [], folder
        assert [name for name in PLAIN if not covers(found, home / name)] == [], folder


def test_keys_are_shown_where_they_were_granted_by_name(home: Path) -> None:
    found = shown(home, "~", "~/.ssh", "~/.config/app")
    assert [name for name in KEPT if covers(found, home / name)] == [".ssh/id_ed25519", ".config/app/settings"]


@pytest.mark.parametrize(
    "folder",
    [
        "/", "//", "/.", "/usr/..", "/:write", "/proc", "/proc/1", "/dev", "/sys/fs", "/run", "/run/docker.sock",
        "~:write", "~/:write", "~/.config:write", "~/.local:write", "~/.local/share:write", "~/.ssh:write",
        "~/.config/ferrule", "~/.config/ferrule/", "~/.CONFIG/Ferrule", "~/.local/share/ferrule/plugins", "~/.bashrc",
        "~/.bashrc:write", "~/.config/fish", "~/.profile", "~/.config/autostart:write", "~/.local/bin:write",
        "~/.git\u0063onfig:write", "", ":write", "..", "../..:write", "a\0b", "~nobody-at-all/x", "/etc/ferrule",
        "/etc:write", "~/bin:write", "~/work/../.config/ferrule", "~/Documents/../../ada:write",
        # What is hidden in a home
        "~/.bashrc.d:write", "~/.zsh:write", "~/.oh-my-zsh/custom:write", "~/.config/nushell:write", "~/.cache:write",
        "~/.config/powershell:write", "~/.pyenv/shims:write", "~/.Config/app:write", "~/.new-shell:write",
        # Git's own files and guarded settings, wherever they lie
        ".git:write", ".git/hooks:write", ".GIT/hooks:write", "sub/.git/modules/x:write", ".vscode:write",
        ".husky:write", "sub/.husky/_:write", ".github/hooks:write", "~/Documents/.git/info:write",
        "~/Documents/.idea:write", "bare.git:write", "bare.git/hooks:write",
    ],
)  # fmt: skip
def test_no_plugin_gets_it(home: Path, folder: str) -> None:
    """R7, M4."""
    for name in ("HEAD", "objects/x", "refs/x", "hooks/x"):
        (home / "work/project/bare.git" / name).parent.mkdir(parents=True, exist_ok=True)
    (home / "work/project/bare.git/HEAD").touch()
    with pytest.raises(ToolError):
        require_grantable([folder], home / "work/project")
    with pytest.raises(ToolError):
        shown(home, folder)


def test_a_link_is_what_it_leads_to(home: Path) -> None:
    (home / "mine").symlink_to(home / ".config/ferrule")
    (home / "keys").symlink_to(home / ".ssh")
    (home / "all").symlink_to(home)
    for folder in ("~/mine", "~/keys", "~/all", "~/all:write", "~/all/.bashrc"):
        with pytest.raises(ToolError, match=r"cannot be granted"):
            shown(home, folder)


def test_a_start_file_that_is_a_link_is_not_written_where_it_lies(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / ".bashrc").unlink()
    (home / "dotfiles/bashrc").write_text("x")
    (home / ".bashrc").symlink_to(home / "dotfiles/bashrc")
    with pytest.raises(ToolError, match="your shell runs"):
        shown(home, "~/dotfiles:write")
    assert not covers(shown(home, "~"), home / "dotfiles/bashrc")


def test_what_is_hidden_in_a_home_and_a_link_is_not_written_where_it_lies(home: Path) -> None:
    for link, target in ((".zsh.d", "dotfiles/zsh"), (".config/nushell", "dotfiles/nu"), (".cache", "scratch")):
        (home / target).mkdir(parents=True)
        (home / link).symlink_to(home / target)
    (home / ".all").symlink_to(home)
    for folder in ("~/dotfiles:write", "~/dotfiles/zsh:write", "~/dotfiles/nu/x:write"):
        with pytest.raises(ToolError, match="other programs run or obey"):
            require_grantable([folder], home / "work/project")
    require_grantable(["~/scratch:write", "~/Documents:write"], home / "work/project")


def test_data_of_programs_in_a_home_can_be_written(home: Path) -> None:
    (home / ".cache/app").mkdir(parents=True)
    for folder in ("~/.local/share/app:write", "~/.cache/app:write"):
        assert len(shown(home, folder)) == 1


@pytest.mark.parametrize("name", ["XDG_CONFIG_HOME", "ZDOTDIR"])
def test_settings_of_shells_that_lie_elsewhere_are_settings_of_shells(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """R7: `$XDG_CONFIG_HOME/fish` and `$ZDOTDIR/.zshrc` are run by every new shell."""
    for file in ("Documents/conf/fish/config.fish", "Documents/conf/.zshrc", "Documents/conf/app/a"):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).touch()
    monkeypatch.setenv(name, str(home / "Documents/conf"))
    for folder in ("", "/conf", "/conf/app", "/conf/new"):
        with pytest.raises(ToolError):
            require_grantable([f"~/Documents{folder}:write"], home / "work/project")
    assert not covers(shown(home, "~"), home / "Documents/conf/app/a")
    found = shown(home, "~/Documents/conf")
    assert covers(found, home / "Documents/conf/app/a")
    assert not covers(found, home / "Documents/conf/fish/config.fish")
    assert not covers(found, home / "Documents/conf/.zshrc")
    (danger,) = dangers_of(["~/Documents/conf"], home / "work/project")
    assert danger.why == "programs keep their settings there, and often tokens"
    monkeypatch.setenv(name, str(home))
    require_grantable(["~/Documents:write"], home / "work/project")


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
        with pytest.raises(ToolError, match="Ferrule's own files"):
            shown(home, folder)


def test_files_and_folders_that_a_plugin_may_have(home: Path) -> None:
    assert shown(home, ".", "~/notes.txt", "~/Documents:write") == {
        str(home / "work/project"), str(home / "notes.txt"), str(home / "Documents")
    }  # fmt: skip
    with pytest.raises(ToolError, match="There is no folder `~/missing`"):
        shown(home, "~/missing")


def test_the_worst_is_said_first(home: Path) -> None:
    many = [f"~/Documents/{number}" for number in range(900)]
    asked = [
        *many[:450],
        "~/.local/share/app:write",
        "~/work",
        "/etc",
        "~/.ssh",
        "/",
        "~",
        *many[450:],
        ".",
        "~/.config",
    ]
    assert [f"{one.folder}: {one.why}" for one in dangers_of(asked, home / "work/project")] == snapshot(
        [
            "/: no plugin gets this folder: it is the whole machine",
            "~/.ssh: passwords, keys or tokens are kept there",
            "~: it is a home folder or holds one",
            "~/work: it holds the workspace and whatever lies beside it",
            "/etc: the settings of the whole system are there",
            "~/.local/share/app:write: programs keep their settings there, and often tokens",
            "~/.config: programs keep their settings there, and often tokens",
        ]
    )


def test_a_workspace_that_is_the_home_is_no_way_around(home: Path) -> None:
    with pytest.raises(ToolError):
        list(shown_folders([".:write"], home))
    found = {path for path, _ in shown_folders(["."], home)}
    assert [name for name in KEPT if covers(found, home / name)] == []


def test_a_folder_with_too_many_entries_beside_keys_is_refused(home: Path) -> None:
    for number in range(600):
        (home / f"file-{number}").touch()
    with pytest.raises(ToolError, match="too many"):
        shown(home, "~")
    assert os.fspath(home / "Documents") in shown(home, "~/Documents")
