"""What of the machine a box shows: the system's programs, libraries and settings, toolchains and caches, and nothing
else. Homes, other projects and other disks are not hidden one by one, as no such list is complete: they aren't there.
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
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.process.sandbox.git_config import of_person
from ferrule.process.sandbox.toolchains import VARIABLES, Toolchains, is_within, links_on_the_way

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ferrule.process.profile import Profile


_MOST_SOCKETS, _MOST_LISTED = 512, 100_000
_SOCKET = lazy_pattern(r" (/.*)$", re.MULTILINE)
# Programs, libraries, settings that every user may read, and what tells of the machine and of installed packages.
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix/store", "/nix/var/nix/profiles",
    "/gnu/store", "/run/current-system", "/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman", "/var/lib/alternatives",
    "/var/lib/ca-certificates", "/var/cache/fontconfig", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
)  # fmt: skip
_OF_MACOS = (
    "/System", "/Library", "/Applications", "/dev", "/private/etc", "/private/var/db", "/private/var/select",
    "/opt/homebrew",
)  # fmt: skip
# Links of the system that lead out of all that is shown.
_NAMED_ELSEWHERE = ("/etc/resolv.conf", "/etc/localtime", "/etc/hosts", "/snap/bin")
_SOURCES = ("/usr/src", "/usr/local/src")
"""Where people keep projects of their own within the system."""
# Of no use to a build, and not for every user to read.
_HIDDEN_FOLDERS = (
    "/etc/ssl/private", "/etc/sudoers.d", "/etc/ssh", "/etc/wireguard", "/etc/NetworkManager", "/etc/kubernetes",
    "/etc/docker", "/etc/letsencrypt", "/etc/openvpn",
)  # fmt: skip
_HIDDEN_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/krb5.keytab")
# Hidden when the workspace is the home itself, or holds it. Not complete, and the profile may name more.
SECRETS_OF_HOME = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/op", ".config/git",
    ".config/hub", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".cargo/credentials.toml", ".cargo/credentials",
    ".password-store", ".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium",
    ".m2/settings.xml", ".m2/settings-security.xml", ".gem/credentials", ".local/share/uv/credentials",
    ".gradle/gradle.properties", ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".pgpass",
    ".my.cnf", ".terraform.d", ".vault-token", ".config/ferrule", ".local/share/ferrule", ".local/state/ferrule",
    ".claude", ".codex", ".config/anthropic", ".config/openai", ".pub-cache/credentials.json", ".julia/servers",
    ".config/dart/pub-credentials.json", ".cache/huggingface/token", ".ivy2/.credentials", ".sbt/.credentials",
    ".bundle/config", ".composer/auth.json", ".config/composer/auth.json", ".config/pypoetry/auth.toml",
    # Agents, clouds and services
    ".gemini", ".qwen", ".copilot", ".config/github-copilot", ".local/share/opencode/auth.json", ".huggingface",
    ".kaggle", ".config/goose", ".config/containers/auth.json", ".config/doctl", ".config/glab-cli", ".config/netlify",
    ".config/heroku", ".local/share/com.vercel.cli", ".wrangler", ".config/.wrangler", ".fly", ".oci", ".aliyun",
    ".pulumi/credentials.json", ".supabase", ".snowsql", ".snowflake", ".databrickscfg", ".dbt/profiles.yml", ".s3cfg",
    ".boto", ".config/rclone", ".config/sops", ".minikube", ".tsh", ".config/solana", ".electrum", ".bitcoin",
    ".ethereum",
    # Mail, chat, browsers and the desktop
    ".authinfo", ".authinfo.gpg", ".msmtprc", ".mbsyncrc", ".offlineimaprc", ".fetchmailrc", ".thunderbird", ".irssi",
    ".weechat", ".config/Slack", ".config/Signal", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi",
    ".config/Code/User/globalStorage", ".config/Cursor/User/globalStorage", ".local/share/kwalletd", ".smbcredentials",
    ".Xauthority", ".ICEauthority",
    # What was typed
    ".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history", ".dbshell", ".histfile", ".ash_history",
    ".local/share/fish/fish_history", ".lesshst", ".viminfo", ".ipython/profile_default/history.sqlite",
)  # fmt: skip


@dataclass(slots=True, frozen=True)
class Places:
    """All that a box shows of the machine itself, read-only. Real paths, each of which was there."""

    home: str
    system: tuple[str, ...]
    tools: tuple[str, ...]
    """Toolchains and caches, and files that settings of the system lead to."""
    links: tuple[tuple[str, str], ...] = ()
    """Other names of what is shown: a link, and what it says."""
    hidden: tuple[str, ...] = ()
    """Folders and files in these that cannot be entered or read; only those that otherwise could be."""
    emptied: tuple[str, ...] = ()
    """Folders in these that are replaced by empty ones, in which something else may be shown."""
    secrets: tuple[str, ...] = ()
    """Of the home; to be hidden where the home itself is shown."""

    def show(self, path: str) -> bool:
        """Whether a real path is among what is shown."""
        if any(is_within(path, one) for one in (*self.hidden, *self.emptied)):
            return False
        return any(is_within(path, one) for one in (*self.system, *self.tools))


def system_places(inside: Iterable[str] = (), *, closed: bool = False, emptied: Iterable[Path] = ()) -> Places:
    """Those of this system and user. What lies `inside` the folders that commands write derives nothing. `closed` is
    without tools of the home, and without the `emptied` folders.
    """
    path = os.environ.get("PATH", "")
    variables = tuple((name, value) for name in VARIABLES if (value := os.environ.get(name)))
    roots = tuple(sorted(inside))
    found = _places(os.environ.get("HOME") or "/", path, variables, sys.prefix, roots, _changes(path))
    if not closed:
        return found
    tools = tuple(path for path in found.tools if found.home == "/" or not is_within(path, found.home))
    return replace(found, tools=tools, emptied=(*found.emptied, *filter(found.show, _real(map(str, emptied)))))


def all_but(folders: Iterable[str], kept_out: frozenset[str]) -> Iterator[str]:
    """Paths that together hold everything below folders, except what is kept out."""
    above = {str(parent) for path in kept_out for parent in PurePath(path).parents}
    waiting = list(folders)[::-1]
    while waiting:
        path = waiting.pop()
        if path in kept_out:
            continue
        if path not in above:
            yield path
            continue
        with suppress(OSError), os.scandir(path) as entries:
            waiting += sorted((entry.path for entry in entries if not entry.is_symlink()), reverse=True)[:_MOST_LISTED]


def _changes(path: str) -> tuple[int, ...]:
    """When something came to a folder of PATH, or went."""
    found: list[int] = []
    for entry in path.split(os.pathsep):
        try:
            found.append(os.stat(entry).st_mtime_ns if entry.startswith("/") else 0)  # noqa: PTH116 - on every start
        except OSError:
            found.append(-1)
    return tuple(found)


@lru_cache(maxsize=16)
def _places(
    home: str,
    path: str,
    variables: tuple[tuple[str, str], ...],
    python: str,
    inside: tuple[str, ...],
    changes: tuple[int, ...] = (),
) -> Places:
    named, home = home, os.path.realpath(home)
    system = _real((*_SYSTEM, *(_OF_MACOS if sys.platform == "darwin" else ())))
    tools = Toolchains(home, system, inside)
    tools.of_home()
    tools.of_path(path)
    tools.of_variables(dict(variables))
    for prefix in (python, sys.base_prefix):
        tools.installation(prefix)
    led_to = (one for one in _real(_NAMED_ELSEWHERE) if not any(is_within(one, shown) for shown in system))
    shown = tuple(dict.fromkeys((*tools.shown(), *led_to)))
    secrets = _real(f"{home}/{name}" for name in SECRETS_OF_HOME)
    hidden = [one for one in _real((*_HIDDEN_FOLDERS, *_HIDDEN_FILES)) if os.access(one, os.R_OK)]
    if os.geteuid() == 0:
        hidden += [one for one in _closed_to_others("/etc") if not any(is_within(one, other) for other in hidden)]
    hidden += [one for one in secrets if any(is_within(one, tool) for tool in shown)]
    emptied = tuple(one for one in _real(_SOURCES) if any(is_within(root, one) for root in inside))
    names = [*_SYSTEM, *_NAMED_ELSEWHERE, named, *(one for one in path.split(os.pathsep) if one.startswith("/"))]
    names += [one for _, value in variables for one in value.split(os.pathsep) if one.startswith("/")]
    links = links_of(names, (*system, *shown))
    return Places(home, system, shown, links, tuple(hidden), emptied, secrets)


def links_of(names: Iterable[str], shown: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The links that names of what is shown lead through, but for those that are shown anyway."""
    found = dict(link for name in names for link in links_on_the_way(name))
    return tuple((link, target) for link, target in found.items() if not any(is_within(link, one) for one in shown))


def _closed_to_others(folder: str) -> Iterator[str]:
    """What in a folder of the system not every user may read."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if not mode & (0o001 if stat.S_ISDIR(mode) else 0o004):
                yield entry.path
            elif stat.S_ISDIR(mode):
                yield from _closed_to_others(entry.path)


def _real(paths: Iterable[str]) -> tuple[str, ...]:
    """The real paths of those that are there, outer ones alone."""
    found = sorted({os.path.realpath(path) for path in paths if os.access(path, os.F_OK)} - {"/"})
    outer: list[str] = []
    for path in found:
        if not outer or not is_within(path, outer[-1]):
            outer.append(path)
    return tuple(outer)


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


def sockets_in(folders: Sequence[str]) -> list[str]:
    """Real paths of sockets in these folders that are in use now. They can be used even where they are read-only."""
    try:
        with open("/proc/net/unix", "rb", 0) as file:  # noqa: PTH123 - on every start
            text = file.read().decode(errors="surrogateescape")
    except OSError:
        return []
    found: dict[str, None] = {}
    for path in _SOCKET.findall(text):
        real = os.path.realpath(path)
        with suppress(OSError):
            if any(is_within(real, one) for one in folders) and stat.S_ISSOCK(os.lstat(real).st_mode):
                found[real] = None
        if len(found) >= _MOST_SOCKETS:
            break
    return list(found)


def shown_by(profile: Profile) -> tuple[Places, tuple[str, ...]]:
    """What a box shows of the machine, and besides it: the workspace and what was named."""
    roots = tuple(os.path.realpath(root) for root in profile.writable)
    places = system_places(roots, closed=profile.closed, emptied=profile.emptied)
    return places, tuple(dict.fromkeys((*roots, *map(os.path.realpath, profile.readable))))


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
