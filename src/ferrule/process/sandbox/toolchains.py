"""Derives which toolchains and caches a box shows: from PATH, the variables that name them, and known names in a home.

A folder on PATH opens no tree just by being there. A folder of programs is shown whole, and so is the installation that
it belongs to, if it looks like one (`bin` beside `lib`, and nothing that isn't part of an installation). Of any other
folder only the programs themselves are shown. Programs that are links, and scripts that name their interpreter, lead on
to what they need. What lies in a workspace derives nothing: anyone could have written it.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.files import start_of
from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_OF_HOME = (
    ".pyenv", ".rbenv", ".nodenv", ".goenv", ".nvm", ".fnm", ".volta", ".asdf", ".sdkman", ".jenv", ".rustup",
    ".cargo/bin", ".cargo/registry", ".cargo/git", ".bun/bin", ".deno/bin", ".juliaup", ".julia", ".ghcup",
    ".cabal/bin", ".opam", ".dotnet", ".nuget/packages", ".pub-cache", ".rye", ".pixi/bin", ".linuxbrew", ".local/bin",
    ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/share/mise", ".local/share/pnpm",
    ".local/share/fnm", ".local/share/rtx", ".nix-profile", ".guix-profile", ".local/state/nix", ".m2/repository",
    ".m2/wrapper", ".gradle/wrapper", ".npm-global", "go/bin", "go/pkg/mod", "miniconda3", "anaconda3", "miniforge3",
    "mambaforge", ".conda/envs", "bin",
)  # fmt: skip
"""Of a home: programs, libraries and packages. No list of secrets is complete, so only these are shown."""
_WHOLE_BY_VARIABLE = (
    "PYENV_ROOT", "RBENV_ROOT", "NVM_DIR", "VOLTA_HOME", "RUSTUP_HOME", "SDKMAN_DIR", "ASDF_DIR", "ASDF_DATA_DIR",
    "DOTNET_ROOT", "PNPM_HOME", "GEM_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT",
)  # fmt: skip
_INSTALLATION_BY_VARIABLE = (
    "GOROOT", "JAVA_HOME", "CONDA_PREFIX", "VIRTUAL_ENV", "M2_HOME", "GRADLE_HOME", "BUN_INSTALL",
)  # fmt: skip
_PARTS_BY_VARIABLE = {"CARGO_HOME": ("bin", "registry", "git"), "GOPATH": ("bin", "pkg/mod")}
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
VARIABLES = (*_WHOLE_BY_VARIABLE, *_INSTALLATION_BY_VARIABLE, *_PARTS_BY_VARIABLE, *_CERTIFICATES)
"""What else than PATH the derivation goes by."""
_FOR_PROGRAMS = frozenset({"bin", "sbin", "shims", "scripts", "Scripts", "condabin", "libexec", ".bin"})
_OF_INSTALLATION = frozenset({
    *_FOR_PROGRAMS, "lib", "lib32", "lib64", "include", "share", "etc", "man", "doc", "docs", "conf", "jmods", "legal",
    "jre", "demo", "release", "boot", "init.d", "src", "pkg", "api", "misc", "test", "ssl", "conda-meta", "envs",
    "pkgs", "compiler_compat", "shell", "Cellar", "opt", "Frameworks", "x86_64-conda-linux-gnu",
})  # fmt: skip
_MARKS = ("pyvenv.cfg", "conda-meta", "Cellar", "lib/node_modules", "pkg/tool", "jmods", "lib/rustlib")
"""What only an installation has, whatever else lies beside it."""
_HARMLESS_FILE = lazy_pattern(
    r"[A-Z][A-Z0-9_.-]*|(?:LICENSE|README|NOTICE|CHANGELOG|COPYING)[\w.-]*|release|pyvenv\.cfg|\.lock|\.gitignore|go\.env"
)
_MOST_PROGRAMS = 100
_MOST_LISTED = 20_000
_MOST_LINKS = 40
"""As the kernel follows."""


def is_within(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies below it; both real."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Toolchains:
    """Gathers the real paths of what is shown besides `system`. Nothing `inside` a workspace is looked at."""

    def __init__(self, home: str, system: Iterable[str], inside: Iterable[str]) -> None:
        self._home = home
        self._system, self._inside = tuple(system), tuple(inside)
        self._shown: dict[str, None] = {}
        self._seen: set[str] = set()

    def shown(self) -> tuple[str, ...]:
        """The outer ones of all that was found."""
        found = sorted(self._shown)
        outer: list[str] = []
        for path in found:
            if not outer or not is_within(path, outer[-1]):
                outer.append(path)
        return tuple(outer)

    def of_home(self) -> None:
        for name in _OF_HOME if self._home != "/" else ():
            self._show(f"{self._home}/{name}")

    def of_path(self, path: str) -> None:
        """The folders of PATH and what their programs need."""
        for entry in path.split(os.pathsep):
            if entry.startswith("/"):
                self._folder(os.path.realpath(entry))

    def of_variables(self, variables: Mapping[str, str]) -> None:
        for name, value in variables.items():
            for one in value.split(os.pathsep):
                if not one.startswith("/"):
                    continue
                place = os.path.realpath(one)
                if name in _PARTS_BY_VARIABLE:
                    for part in _PARTS_BY_VARIABLE[name]:
                        self._show(f"{place}/{part}")
                elif name in _INSTALLATION_BY_VARIABLE:
                    self.installation(place)
                else:
                    self._show(place)

    def installation(self, prefix: str) -> None:
        """What is shown of a folder that holds `bin`, if it is an installation."""
        prefix = os.path.realpath(prefix)
        if self._known(prefix) or is_within(self._home, prefix) or prefix == "/":
            return
        try:
            with os.scandir(prefix) as entries:
                names = {entry.name: entry.is_dir() for entry in entries}
        except OSError:
            return
        if "pyvenv.cfg" in names:
            # The Python that a virtual environment was made with.
            with suppress(OSError):
                text = Path(f"{prefix}/pyvenv.cfg").read_text(encoding="utf-8", errors="replace")[:10_000]
                if found := re.search(r"^home\s*=\s*(/.*)$", text, re.MULTILINE):
                    self._folder(os.path.realpath(found[1].strip()))
        marked = any(os.path.lexists(f"{prefix}/{mark}") for mark in _MARKS)
        others = [name for name, is_folder in names.items() if is_folder and name not in _OF_INSTALLATION]
        if ".git" in names and not marked:
            return
        if prefix.startswith("/opt/"):  # where add-on packages are installed, each in a folder of its own
            self._add(prefix)
        elif marked or (not others and "bin" in names and len(names) > 1):
            files = [name for name, is_folder in names.items() if not is_folder]
            harmless = "pyvenv.cfg" in names or all(map(_HARMLESS_FILE.fullmatch, files))
            if not others and harmless and prefix.count("/") > 1:
                self._add(prefix)
                return
            for name in names:
                if name in _OF_INSTALLATION or _HARMLESS_FILE.fullmatch(name):
                    self._add(f"{prefix}/{name}")

    def _known(self, path: str) -> bool:
        return any(is_within(path, one) for one in (*self._system, *self._inside, *self._shown))

    def _show(self, path: str) -> None:
        """All of a folder or file that was named; not of one that holds the home or a whole part of the machine."""
        real = os.path.realpath(path)
        if not self._known(real) and real.count("/") > 1 and not is_within(self._home, real):
            self._add(real)

    def _add(self, path: str) -> None:
        """Another user's tool, which may not be used, is neither shown nor needed."""
        if os.access(path, os.R_OK):
            self._shown[os.path.realpath(path)] = None

    def _folder(self, folder: str) -> None:
        """A folder of PATH, or one that a program of it lies in."""
        if folder in self._seen or any(is_within(folder, one) for one in self._inside):
            return
        self._seen.add(folder)
        is_system = any(is_within(folder, one) for one in self._system)
        try:
            programs, elsewhere = _programs_in(folder, os.stat(folder).st_mtime_ns, is_system=is_system)  # noqa: PTH116
        except OSError:
            return
        broad = folder.count("/") == 1 or is_within(self._home, folder)
        if not broad and folder.rpartition("/")[2] in _FOR_PROGRAMS:
            self.installation(os.path.dirname(folder))  # noqa: PTH120 - text
            if not self._known(folder):
                self._add(folder)
        if not self._known(folder):
            for program in programs[:_MOST_PROGRAMS]:
                self._add(program)
        for real in elsewhere:
            self._program(real)

    def _program(self, real: str) -> None:
        """What a program that lies elsewhere needs."""
        folder = os.path.dirname(real)  # noqa: PTH120 - text
        if self._known(real) or not os.path.isfile(real):  # noqa: PTH113 - of every program
            return
        if folder.rpartition("/")[2] in _FOR_PROGRAMS:
            self._folder(folder)
        elif folder.startswith("/opt/") and not os.path.lexists(f"{folder}/.git"):
            self._add(folder)
        if not self._known(real):
            self._add(real)


def links_on_the_way(path: str) -> Iterator[tuple[str, str]]:
    """Each symbolic link that a path leads through, by the real path of its folder, and what it says."""
    at, waiting = "/", [part for part in path.split("/") if part][::-1]
    for _ in range(200):  # more than the kernel follows
        if not waiting:
            return
        part = waiting.pop()
        if part in (".", ".."):
            at = at if part == "." else os.path.dirname(at)  # noqa: PTH120 - text
            continue
        here = os.path.join(at, part)  # noqa: PTH118 - text
        try:
            target = os.readlink(here)  # noqa: PTH115 - text
        except OSError:
            at = here
            continue
        yield here, target
        waiting += [one for one in target.split("/") if one][::-1]
        at = "/" if target.startswith("/") else at


@lru_cache(maxsize=256)  # PATH has a thousand programs, and the first command of a process makes several boxes
def _programs_in(folder: str, _changed: int, *, is_system: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The programs in a real folder, and the real paths that its links and scripts lead to. Of the system's folders,
    whose programs and interpreters are shown anyway, only where the links lead.
    """
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)[:_MOST_LISTED]
    links = {entry.path for entry in entries if entry.is_symlink()}
    programs = () if is_system else tuple(entry.path for entry in entries if _is_program(entry))
    scripts = map(_interpreter, (path for path in programs if path not in links))
    return programs, tuple(dict.fromkeys(_reals(dict.fromkeys((*sorted(links), *filter(None, scripts))))))


def _reals(paths: Iterable[str]) -> Iterator[str]:
    """`os.path.realpath` of each, which looks only once at the folders that they have in common."""
    folders: dict[str, str] = {}
    for path in paths:
        for _ in range(_MOST_LINKS):
            folder, _, name = path.rpartition("/")
            if name in ("", ".", ".."):
                path = os.path.realpath(path)
                break
            if folder not in folders:
                folders[folder] = os.path.realpath(folder or "/")
            path = os.path.join(folders[folder], name)  # noqa: PTH118 - text
            try:
                path = os.path.join(folders[folder], os.readlink(path))  # noqa: PTH115, PTH118 - text
            except OSError:
                break
        yield path


def _is_program(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        state = entry.stat()
        return stat.S_ISREG(state.st_mode) and bool(state.st_mode & 0o111)
    return False


def _interpreter(path: str) -> str | None:
    """What the first line of a script says that it is run with."""
    found = re.match(rb"#!\s*(/[^\s\0]+)", start_of(path, 256))
    return os.fsdecode(found[1]) if found else None
