"""`@file` in a message: the model gets the file with it, through the same Read that it would call itself.

So rules, ignore files and the record hold for a mention too, and the file counts as read before it is edited. What is
too long to send along is only pointed at, and a word that is no file (`@property`) stays a word; one that looks like a
file's name is said to be none.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from ferrule.cli.words import _, localised
from ferrule.core.errors import ToolError
from ferrule.core.nearest import edits

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.context import Session
    from ferrule.core.result import Attachment
    from ferrule.pipeline.run import Runtime


# The files of the workspace for completion: what ignore files and rules leave, newest first, listed now and then.


_MOST = 20_000
_FRESH = 5.0


class FileNames:
    """Asks the disk at most once in a few seconds; a folder that cannot be listed has no files."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._names: list[str] = []
        self._looked: float | None = None

    async def matching(self, part: str, most: int = 50) -> list[str]:
        """Names that begin with the part, then those whose last piece does, then those that hold it."""
        names = await self.all()
        wanted = part.lower()
        ranked = sorted(
            ((rank, at, name) for at, name in enumerate(names) if (rank := _rank(name.lower(), wanted)) is not None)
        )
        return [name for _rank_, _at, name in ranked[:most]]

    async def all(self) -> list[str]:
        """As they were at most a few seconds ago."""
        if self._looked is None or monotonic() - self._looked > _FRESH:
            self._names = await self._list()
            self._looked = monotonic()
        return self._names

    async def _list(self) -> list[str]:
        from ferrule.workspace.files import paths_of
        from ferrule.workspace.searching.find_files import find_files
        from ferrule.workspace.searching.search import Names

        try:
            paths = paths_of(self._session)
            place = paths.find(".")
            found = await find_files(paths, place, (), _MOST, lambda _names: None)
        except (ToolError, OSError):
            return []
        names = Names(paths, place)
        return [name for one in found.names if (name := names.show(one)).isprintable()]


def _rank(name: str, wanted: str) -> int | None:
    if name.startswith(wanted):
        return 0
    if name.rpartition("/")[2].startswith(wanted):
        return 1
    return 2 if wanted in name else None


_MENTION = re.compile(r"""(?<![\w@])@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]+))""")
_ENDS = ".,;:!?)]}'，。；：！？）】》"
_MOST_CHARACTERS = 30_000
_MOST_FILES = 10


@dataclass(slots=True)
class Expanded:
    """A message with what was mentioned in it; `notes` are for the person."""

    text: str
    attachments: list[Attachment] = field(default_factory=list["Attachment"])
    notes: list[str] = field(default_factory=list[str])


def quoted(name: str) -> str:
    """A file's name as a mention: `@src/a.py`, `@"my notes.txt"`."""
    plain = re.fullmatch(r'[^\s"]+', name) and name.isprintable() and not name.endswith(tuple(_ENDS))
    return f"@{name}" if plain else f'@"{name}"'


def mentioned(text: str, folder: Path) -> list[str]:
    """The files and folders that the message names, each once, in their order."""
    found: dict[str, None] = {}
    for mention in _MENTION.finditer(text):
        if (name := _name(mention, folder)) is not None:
            found[name] = None
    return list(found)


def _name(mention: re.Match[str], folder: Path) -> str | None:
    """The file or folder that is meant; None where there is none."""
    return next((name for name in _candidates(mention) if name and os.path.lexists(folder / name)), None)


def _candidates(mention: re.Match[str]) -> list[str]:
    if mention["quoted"] is not None:
        return [mention["quoted"]]
    name = mention["bare"]
    return [name, name.rstrip(_ENDS)]


async def expand(text: str, runtime: Runtime) -> Expanded:
    """The message as the model gets it."""
    expanded = Expanded(text)
    parts: list[str] = []
    names = mentioned(text, runtime.session.directory)
    for name in names[:_MOST_FILES]:
        if (runtime.session.directory / name).is_dir():
            parts.append(f"`{name}` is a folder.")
            continue
        result = await runtime.run("Read", {"file_path": name})
        if not result.success:
            why = localised(result.error.message) if result.error is not None else result.display_content
            expanded.notes.append(_("@{name} was not attached: {why}").format(name=name, why=why))
            continue
        if len(result.llm_content) > _MOST_CHARACTERS:
            parts.append(f"`{name}` is too long to be shown here; read what you need of it with Read.")
            expanded.notes.append(_("@{name} is long; only its path was sent to the model.").format(name=name))
            continue
        parts.append(f"`{name}`:\n{result.llm_content}")
        expanded.attachments += result.attachments
    expanded.notes += await _mistyped(text, runtime.session)
    if len(names) > _MOST_FILES:
        expanded.notes.append(_("Only the first {n} files were attached.").format(n=_MOST_FILES))
    if parts:
        expanded.text = "\n\n".join([text, "[The user mentioned these files, as they are now:]", *parts])
    return expanded


# A mention of a file that is not there: said where it was meant to be one.


_WITH_ENDING = re.compile(r"[^\s()]*[^\s()./]\.[A-Za-z][A-Za-z0-9]{0,3}")
_LEAST_LETTERS = 4
_MOST_SLIPS = 2


async def _mistyped(text: str, session: Session) -> list[str]:
    folder = session.directory
    absent = {_candidates(one)[-1]: one for one in _MENTION.finditer(text) if _name(one, folder) is None}
    there = await FileNames(session).all() if absent else []
    notes: list[str] = []
    for name, mention in absent.items():
        close = _closest(name, there)
        inside = any(one.startswith(f"{name.partition('/')[0]}/") for one in there) and "/" in name
        if close or inside or mention["quoted"] is not None or _WITH_ENDING.fullmatch(name):
            words = _("@{name}: there is no such file, so nothing was attached.").format(name=name)
            meant = _("Did you mean {name}?").format(name=quoted(close)) if close else ""
            notes.append(f"{words} {meant}".strip())
    return notes


def _closest(name: str, there: list[str]) -> str | None:
    """The file whose path or own name is a slip or two away."""
    last = name.rpartition("/")[2].lower()
    if len(last) < _LEAST_LETTERS:
        return None
    whole = [(edits(name.lower(), one.lower(), _MOST_SLIPS), one) for one in there]
    own = [(edits(last, one.rpartition("/")[2].lower(), _MOST_SLIPS), one) for one in there]
    best = min([*whole, *own], default=(_MOST_SLIPS + 1, ""))
    return best[1] if best[0] <= _MOST_SLIPS else None
