"""Which places of the system a command need not see, sockets of services among them, and which folders of a home hold
its tools.

Homes are hidden whole, because no list of secrets is complete. What is shown of them again, read-only, are folders of
tools and of packages that are known to hold no secrets.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.process.sandbox.git_config import of_person

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_MOST_SOCKETS, _MOST_LISTED = 512, 4_000
_SOCKET = re.compile(r" (/.*)$", re.MULTILINE)
# Homes, the sockets of services, and folders that everyone may write.
_REPLACED_FOLDERS = ("/home", "/root", "/run", "/var/tmp")  # noqa: S108 - to be hidden
_OF_SYSTEM = frozenset({
    "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "sbin", "sys", "tmp", "usr",
    "System", "Library", "private", "Applications",
})  # fmt: skip
# Mail, print and cron queues, key material: of no use to a build.
_HIDDEN_FOLDERS = (
    "/var/mail", "/var/spool", "/var/backups", "/boot", "/lost+found",
    "/etc/ssl/private", "/etc/sudoers.d", "/etc/ssh", "/etc/wireguard", "/etc/NetworkManager", "/etc/kubernetes",
    "/etc/docker", "/var/lib/docker", "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/sss", "/var/lib/private",
)  # fmt: skip
_HIDDEN_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/krb5.keytab")
_TOOLS_OF_HOME = (
    ".pyenv", ".rbenv", ".nvm", ".volta", ".asdf", ".sdkman", ".jenv", ".rustup", ".cargo/bin", ".cargo/registry",
    ".cargo/git", ".bun/bin", ".deno/bin", ".juliaup", ".ghcup", ".opam", ".dotnet", ".local/bin", ".local/lib",
    ".local/share/uv", ".local/share/pipx", ".local/share/mise", ".local/share/pnpm", ".local/share/fnm",
    ".nix-profile", ".m2/repository", ".npm-global", "go/bin", "go/pkg/mod", "miniconda3", "anaconda3", "miniforge3",
    ".conda/envs", "bin",
)  # fmt: skip
# Hidden when the workspace is the home itself, or holds it. Not complete, and the profile may name more.
SECRETS_OF_HOME = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/op", ".config/git",
    ".config/hub", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".cargo/credentials.toml", ".cargo/credentials",
    ".password-store", ".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium", ".m2",
    ".gradle/gradle.properties", ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".pgpass",
    ".my.cnf", ".terraform.d", ".vault-token", ".config/ferrule", ".local/share/ferrule", ".local/state/ferrule",
    ".claude", ".codex", ".config/anthropic", ".config/openai",
)  # fmt: skip


@dataclass(slots=True, frozen=True)
class Places:
    """Real paths, each of which was there."""

    home: str
    folders: tuple[str, ...]
    """Replaced by empty ones that can be used."""
    hidden: tuple[str, ...]
    """Folders and files that cannot be entered or read; only those that otherwise could be."""
    tools: tuple[str, ...]
    """Shown, read-only, although a hidden folder holds them."""
    secrets: tuple[str, ...]
    """Of the home; to be hidden where the home itself is shown."""


def system_places(*, closed: bool = False, emptied: Iterable[Path] = ()) -> Places:
    """Those of this system and user; `closed` has every folder replaced that holds no part of the system itself, and
    the `emptied` ones, and shows no tools of the home.
    """
    found = _places(os.environ.get("HOME") or "/", os.environ.get("PATH", ""), sys.base_prefix)
    if not closed:
        return found
    others = (entry.path for entry in os.scandir("/") if entry.is_dir() and entry.name not in _OF_SYSTEM)
    known = (*found.folders, *found.hidden)
    outer = (path for path in _real(tuple(others)) if not any(is_within(path, folder) for folder in known))
    folders = (*outer, *found.folders)
    more = _real(tuple(str(one) for one in emptied if one.is_dir()))
    more = tuple(path for path in more if not any(is_within(path, one) for one in folders))
    return replace(found, folders=(*more, *folders), tools=())


def is_within(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies below it; both real."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def all_but(folder: str, kept_out: frozenset[str]) -> Iterator[str]:
    """Paths that together hold everything below a folder, except what is kept out."""
    if folder in kept_out:
        return
    if not any(path.startswith(folder.rstrip("/") + "/") for path in kept_out):
        yield folder
        return
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if not entry.is_symlink()][:_MOST_LISTED]
    except OSError:
        return
    for path in names:
        yield from all_but(path, kept_out)


@lru_cache(maxsize=8)
def _places(home: str, path: str, python: str) -> Places:
    home = os.path.realpath(home)
    folders = _real(_REPLACED_FOLDERS)
    if home != "/" and not any(is_within(home, folder) for folder in folders):
        folders = (*folders, home)
    tools = dict.fromkeys(os.path.realpath(f"{home}/{name}") for name in _TOOLS_OF_HOME)
    for entry in (*path.split(os.pathsep), f"{python}/bin"):
        if entry.startswith("/"):
            # The folder that holds the libraries too: `…/venv/bin` is of no use without `…/venv/lib`.
            programs = os.path.realpath(entry)
            prefix = Path(programs).parent
            alone = str(prefix) in ("/", home) or not is_within(str(prefix), home)
            whole = not alone and any(os.access(prefix / name, os.F_OK) for name in ("pyvenv.cfg", "lib"))
            tools[str(prefix) if whole else programs] = None
    # A tool in another user's home, which may not be used, is neither shown nor needed.
    shown = tuple(
        tool
        for tool in tools
        if tool not in (home, *folders)
        and any(is_within(tool, folder) for folder in folders)
        and os.access(tool, os.R_OK | os.X_OK)
    )
    outer = tuple(tool for tool in shown if not any(tool != other and is_within(tool, other) for other in shown))
    secrets = _real(tuple(f"{home}/{name}" for name in SECRETS_OF_HOME))
    hidden = tuple(path for path in _real((*_HIDDEN_FOLDERS, *_HIDDEN_FILES)) if os.access(path, os.R_OK))
    return Places(home, folders, hidden, outer, secrets)


def _real(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The real paths of those that are there."""
    found = dict.fromkeys(os.path.realpath(path) for path in paths if os.access(path, os.F_OK))
    return tuple(path for path in found if path != "/")


def git_settings(home: str) -> bytes:
    """The person's name and habits for git, without the rest of its configuration, which may hold tokens."""
    return of_person(_git_config(home)).encode()


def _git_config(home: str) -> str:
    for path in (f"{home}/.gitconfig", f"{home}/.config/git/config"):
        try:
            state = os.stat(path)  # noqa: PTH116 - on every start
        except OSError:
            continue
        return _read_git_config(path, state.st_mtime_ns, state.st_size)
    return ""


@lru_cache(maxsize=4)
def _read_git_config(path: str, changed: int, size: int) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def sockets_of_others(covered: Sequence[str], shown: Sequence[str] = ()) -> list[str]:
    """Real paths of sockets that are in use now and lie in none of the `covered` folders, or in one that is `shown`
    again. They can be used even where their folder is read-only.
    """

    def is_away(path: str) -> bool:
        return any(is_within(path, one) for one in covered) and not any(is_within(path, one) for one in shown)

    try:
        with open("/proc/net/unix", "rb", 0) as file:  # noqa: PTH123 - on every start
            text = file.read().decode(errors="surrogateescape")
    except OSError:
        return []
    found: dict[str, None] = {}
    for path in _SOCKET.findall(text):
        if is_away(path):
            continue
        real = os.path.realpath(path)
        with suppress(OSError):
            if not is_away(real) and stat.S_ISSOCK(os.lstat(real).st_mode):
                found[real] = None
        if len(found) >= _MOST_SOCKETS:
            break
    return list(found)


def find_program(name: str, inside: Iterable[Path] = ()) -> str | None:
    """A program on PATH, never one that lies in a workspace, where anyone may have put it."""
    roots = [os.path.realpath(root) for root in inside]
    safe: list[str] = []
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        real = os.path.realpath(entry)
        if entry.startswith("/") and not any(real == root or real.startswith(root + "/") for root in roots):
            safe.append(entry)
    found = shutil.which(name, path=os.pathsep.join(safe)) if safe else None
    if found is None:
        return None
    real = os.path.realpath(found)
    return None if any(real.startswith(root + "/") for root in roots) else found
