"""Asks git about a repository that nobody vouches for: its settings are read, and nothing they name is run.

A repository's own settings can name programs for git to start: monitors, hooks, filters, diff and text converters,
pagers, helpers, transports. Three walls keep them from running. The settings that `status` would obey are overridden,
filter drivers by name. No transport is allowed. And on Linux the kernel lets git start no other program at all.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.confined import without_waiting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.workspace.paths import Paths

SECONDS = 15.0
_MOST_OUTPUT = 8 << 20
_OVERRIDES = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.askPass": "",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.quotePath": "false",
    "core.alternateRefsCommand": "",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "uploadpack.packObjectsHook": "",
}
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ASKPASS": "false",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_SSH_COMMAND": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": os.devnull,
    "LC_ALL": "C",
    "PATH": os.defpath,
}
_STATUS = (
    "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=normal", "--ignore-submodules=all", "--no-renames",
)  # fmt: skip
_LOGIN = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/@]*@")


@dataclass(slots=True)
class Repository:
    """What git says of a repository. Names are from the folder of the repository on."""

    branch: str | None = None
    commit: str | None = None
    remote: str | None = None
    modified: list[str] = field(default_factory=list[str])
    added: list[str] = field(default_factory=list[str])
    deleted: list[str] = field(default_factory=list[str])


async def look_at_repository(paths: Paths) -> Repository | None:
    """The repository that the working directory lies in, as far as it lies in the workspace; None without one."""
    from ferrule.process.child import find_program  # most runs of Ferrule start no program

    top = _top(paths)
    if top is None:
        return None
    program = find_program("git", (root.path for root in paths.roots))
    if program is None:
        raise ToolError(
            phrase("git is not installed."), kind=ErrorKind.NOT_FOUND, suggestion=phrase("Go on without it.")
        )
    git = _Git(program, top)
    _check_outside(paths, top)
    listed = await git("config", "--null", "--name-only", "--get-regexp", r"^(filter|diff)\..*\.", may_fail=True)
    git.silence(listed.split("\0"))
    repository = _read_status(await git(*_STATUS))
    remote = await _remote(git)
    repository.remote = without_login(remote) if remote else None
    return repository


def _top(paths: Paths) -> Path | None:
    """The nearest folder with a `.git`, from the working directory up to the top of the workspace."""
    directory = paths.directory
    roots = [root.path for root in paths.roots if root.path == directory or root.path in directory.parents]
    if not roots:
        return None
    highest = min(roots, key=lambda root: len(root.parts))
    for folder in (directory, *directory.parents):
        git = folder / ".git"
        if os.path.isfile(git) or os.path.exists(git / "HEAD"):  # noqa: PTH110, PTH113 - no error where it is closed
            _refuse_special(git)
            return folder
        if folder == highest:
            return None
    return None


def _check_outside(paths: Paths, top: Path) -> None:
    """A `.git` that leads elsewhere is used only if what it leads to says that it belongs here."""
    git = top / ".git"
    real = Path(os.path.realpath(git))
    if real.is_file():
        said = _first_line(real).removeprefix("gitdir:").strip()
        real = Path(os.path.realpath(top / said))
    if any(root.path == real or root.path in real.parents for root in paths.roots):
        return
    back = _first_line(real / "gitdir")  # a worktree knows where its `.git` is
    if back and os.path.realpath(real / back) == os.path.realpath(git):
        return
    worktree = re.search(r"^\s*worktree\s*=\s*(.+?)\s*$", _text(real / "config"), re.MULTILINE)
    if worktree and os.path.realpath(real / worktree[1].strip('"')) == str(top):  # a submodule's
        return
    raise ToolError(
        phrase("`.git` leads to a repository outside the workspace that does not belong to it."),
        kind=ErrorKind.PERMISSION,
        suggestion=phrase("Go on without git, or ask the person to look at `.git`."),
    )


def _refuse_special(git: Path) -> None:
    """Git would wait for the other end of a pipe that stands where one of its files should."""
    for name in ("HEAD", "config", "index", "packed-refs"):
        file = git / name
        if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113
            raise ToolError(
                phrase("`.git/{name}` is not a regular file, so this is no repository that git can read.", name=name),
                suggestion=phrase("Go on without git, or ask the person to look at `.git`."),
            )


def _text(file: Path) -> str:
    try:
        # Without waiting: a pipe may stand there, and nobody at its other end.
        with open(file, errors="replace", opener=without_waiting) as stream:
            return stream.read(1 << 16)
    except OSError:
        return ""


def _first_line(file: Path) -> str:
    return _text(file).partition("\n")[0].strip()


class _Git:
    """git for one repository, with everything of it switched off that could start a program."""

    def __init__(self, program: str, top: Path) -> None:
        self._program = os.path.realpath(program)
        self._top = top
        self._settings: dict[str, str] = dict(_OVERRIDES)

    def silence(self, names: list[str]) -> None:
        """Empty every driver that the repository defines, by the names of its settings."""
        for name in names:
            driver, _, _ = name.rpartition(".")
            if driver.startswith("filter."):
                self._settings |= {f"{driver}.{one}": "" for one in ("clean", "smudge", "process")}
                self._settings[f"{driver}.required"] = "false"
            elif driver.startswith("diff."):
                self._settings |= {f"{driver}.command": "", f"{driver}.textconv": ""}

    async def __call__(self, *arguments: str, may_fail: bool = False) -> str:
        import asyncio

        from ferrule.process.child import Child
        from ferrule.process.landlock import Confinement, needed_by

        command = [self._program, "--no-pager", "--no-optional-locks", "--literal-pathspecs", *arguments]
        # Naming both folders skips the search for a repository, the question of who owns it, and `core.worktree`.
        place = {"GIT_DIR": str(self._top / ".git"), "GIT_WORK_TREE": str(self._top)}
        child = Child(
            command,
            folder=self._top,
            environment={**_ENVIRONMENT, **place, **_as_environment(self._settings)},
            confinement=Confinement(needed_by(self._program)),
        )
        try:
            async with asyncio.timeout(SECONDS), child:
                output = bytearray()
                async for piece in child.output():
                    output += piece
                    if len(output) > _MOST_OUTPUT:
                        raise ToolError(phrase("git gave more output than can be taken in."))
                code = await child.ended()
        except TimeoutError:
            raise ToolError(
                phrase("git did not answer within {seconds} s.", seconds=f"{SECONDS:g}"),
                kind=ErrorKind.TIMEOUT,
                suggestion=phrase("Go on without it."),
            ) from None
        if code != 0 and not may_fail:
            raise ToolError(phrase("git could not read the repository: {why}.", why=_reason(child.complaints)))
        return output.decode(errors="replace") if code == 0 else ""


def _as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as git takes them from its environment, where a name may hold anything."""
    given = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return given


def _reason(complaints: str) -> str:
    lines = [line for line in complaints.splitlines() if line.startswith(("fatal:", "error:"))]
    return lines[-1].partition(": ")[2].rstrip(".") if lines else phrase("it gave no reason")


def _read_status(text: str) -> Repository:
    repository = Repository()
    for record in text.split("\0"):
        kind, _, rest = record.partition(" ")
        if kind == "#":
            key, _, value = rest.partition(" ")
            if key == "branch.oid" and value != "(initial)":
                repository.commit = value
            elif key == "branch.head" and value != "(detached)":
                repository.branch = value
        elif kind == "?":
            repository.added.append(rest)
        elif kind in ("1", "u"):
            fields = rest.split(" ", 7 if kind == "1" else 9)
            _sort_in(repository, fields[0] if kind == "1" else "MM", fields[-1])
    return repository


def _sort_in(repository: Repository, state: str, name: str) -> None:
    if "D" in state:
        repository.deleted.append(name)
    elif state[0] == "A" or state[1] == "A":
        repository.added.append(name)
    else:
        repository.modified.append(name)


async def _remote(git: _Git) -> str | None:
    url = await git("config", "--null", "--get", "remote.origin.url", may_fail=True)
    if not url:
        listed = await git("config", "--null", "--get-regexp", r"^remote\..*\.url$", may_fail=True)
        url = listed.partition("\0")[0].partition("\n")[2]
    return url.rstrip("\0") or None


def without_login(url: str) -> str:
    """The address without the name and password that may stand in it."""
    return _LOGIN.sub(lambda found: found["scheme"], url)
