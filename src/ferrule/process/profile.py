"""What a box may do and see: folders, hosts, bounds, and the variables its command gets.

Variables are an allow-list, because a secret can stand under any name and a list of secrets would never be complete.
What programs load code from (`LD_PRELOAD`, `BASH_ENV`, `PYTHONSTARTUP`, `NODE_OPTIONS`, …) is not on it, nor are
sockets and proxies, which give access or hold passwords. Whoever wants more for commands gives it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from ferrule.core.secrets import may_hold_secret, redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


@dataclass(slots=True, frozen=True)
class Bounds:
    """Limits on what one command may use; None leaves the system's own."""

    processes: int | None = 512
    memory: int | None = None
    """Bytes of each process."""
    total_memory: int | None = None
    """Bytes of all processes together; of each where no control group can count them."""
    file_size: int | None = 4 << 30
    open_files: int | None = 4096
    temporary: int = 2 << 30
    """Bytes of each folder for temporary files; a box that fills the one that commands share is ended."""
    layer: int = 2 << 30
    """Bytes that the layers of a look box may hold together; a box that writes more is ended."""


@dataclass(slots=True, frozen=True)
class LayerMount:
    """Where the changes to one root of the workspace land instead of in it.

    `upper` and `work` are empty folders of one file system, new for each command. `below` are layers of earlier
    commands, topmost first, that are seen above the root.
    """

    root: Path
    upper: Path
    work: Path
    below: tuple[Path, ...] = ()
    masks: Path | None = None
    """A folder for layers that cover hidden files, where they are very many. It is there as long as any box."""


@dataclass(slots=True, frozen=True)
class Forbidden:
    """What no command may write, by rules about names: what is there is locked, and what is made is taken away."""

    rules: object
    """Names the rules: while it is equal, so are the answers."""
    concerns: Callable[[Sequence[str]], Sequence[bool]] = field(compare=False)
    """Of each of many real paths whether it may not be written."""


@dataclass(slots=True, frozen=True)
class Profile:
    """The workspace is writable, its guarded places are not, and `hidden` cannot even be read. The system's programs,
    toolchains and what is `readable` are read-only. Nothing else is there.

    `guarded` and `hidden` may name what does not exist yet: it must stay so. `hosts` is None for no network at all,
    and otherwise the allow-list of host patterns (`example.org`, `*.example.org`, `*` for everything).

    With `look`, nothing of the workspace is changed: what is written to a root lands in its layer, and a root without
    one is read-only.
    """

    writable: tuple[Path, ...]
    folder: Path
    guarded: tuple[Path, ...] = ()
    forbidden: Forbidden | None = None
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Folders and files that are there and shown, read-only, besides the system's own and toolchains."""
    names: tuple[Path, ...] = ()
    """Other names of what is shown, which lead there through links."""
    hosts: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    bounds: Bounds = Bounds()
    look: bool = False
    layers: tuple[LayerMount, ...] = ()
    temporary: Path | None = None
    """A folder to be seen as `/tmp`, for what commands keep there for one another; without it each has an own."""
    closed: bool = False
    """Whether nothing is seen but programs, their libraries and settings, and the folders that are named here."""
    emptied: tuple[Path, ...] = ()
    """Folders that are not seen although they lie in the system's own; what else is named here may lie in one."""
    home: Path | None = None
    """Of a plugin: its own folder, in which no other program runs or obeys anything. It cannot write git directories
    in other folders.
    """

    @property
    def who(self) -> str:
        """What runs in the box, at the beginning of a sentence."""
        return "The command" if self.home is None else "The plugin"


# The variables a command gets: those known to be harmless, what keeps programs quiet, and what was given on purpose.


_KEPT = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "COLORTERM", "NO_COLOR", "FORCE_COLOR",
    "COLUMNS", "LINES", "TZ", "TMPDIR", "CI", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT",
    "PYENV_VERSION", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUTF8", "NVM_DIR", "NODE_ENV", "VOLTA_HOME",
    "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "GOPATH", "GOROOT", "GOFLAGS", "GOTOOLCHAIN", "JAVA_HOME",
    "M2_HOME", "GRADLE_HOME", "SDKMAN_DIR", "RBENV_ROOT", "GEM_HOME", "DOTNET_ROOT", "ASDF_DIR", "ASDF_DATA_DIR",
    "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "ANDROID_HOME", "ANDROID_SDK_ROOT", "UV_CACHE_DIR", "PIP_CACHE_DIR",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_DATA_DIRS", "XDG_CONFIG_DIRS",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "SOURCE_DATE_EPOCH", "MAKEFLAGS", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "PKG_CONFIG_PATH", "EDITOR",
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
})  # fmt: skip
_KEPT_PREFIXES = ("LC_",)
_KEPT_CLOSED = frozenset({"PATH", "LANG", "LANGUAGE", "TZ", "NO_COLOR", "SSL_CERT_FILE", "SSL_CERT_DIR"})
"""What tells a program of strangers how to speak, and nothing of the user."""
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Programs that would page, draw or ask do none of it: there is no terminal. Nor do they look for newer versions of
# themselves, which without a network takes some of them minutes.
_QUIET = {
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat"),
    **dict.fromkeys(("PYTHONUNBUFFERED", "NO_UPDATE_NOTIFIER", "PIP_DISABLE_PIP_VERSION_CHECK"), "1"),
    "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "DEBIAN_FRONTEND": "noninteractive",
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
}  # fmt: skip


def clean_environment(
    environment: Mapping[str, str], given: Mapping[str, str], *, closed: bool = False
) -> dict[str, str]:
    """What of `environment` is passed on, with `given` over it as it is; `closed` for a program of strangers."""
    known = _KEPT_CLOSED if closed else _KEPT
    named = [name for name in environment if name in known or name.startswith(_KEPT_PREFIXES)]
    kept = {name: value for name in named if not _holds_secret(value := environment[name])}
    kept.setdefault("PATH", _DEFAULT_PATH)
    if not any(name in kept for name in ("LANG", "LC_ALL", "LC_CTYPE")):
        kept["LANG"] = "C.UTF-8"
    return kept | _QUIET | dict(given)


def found_program(name: str, environment: Mapping[str, str]) -> str:
    """Where a program lies that is started in this environment; the name itself where it is not found."""
    return shutil.which(name, path=environment.get("PATH", _DEFAULT_PATH)) or name


@lru_cache(maxsize=256)  # asked at every start, of values that hardly change
def _holds_secret(value: str) -> bool:
    return may_hold_secret(value) and redact_text(value) != value
