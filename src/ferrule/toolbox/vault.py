"""A folder of notes that link to each other: which file a link means, who links to a note, and moving one.

Links are followed by Obsidian's rules: a name or the end of a path is enough, `.md` may be left out, and neither case
nor Unicode form matters. Of several files of one name the one nearest to the link is meant.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule import ErrorKind, ToolError
from ferrule.extension import Edit, PathError, Paths, Place, Text, advice, decode, nearest, one_line, phrase, splice
from ferrule.toolbox.failures import invalid, not_found
from ferrule.toolbox.markdown_note import MOST_CHARACTERS, Link, Note, alike

if TYPE_CHECKING:
    from ferrule import Session

GoOn = Callable[[int, int], None]
"""Hears which of how many notes is looked at next; raising there ends the work."""
ENDINGS = (".md", ".markdown")
MARKER = ".obsidian"
_MOST_NAMED = 10
_LEFT_OUT = "node_modules"
_NOT_TEXT = re.compile(r"[\ud800-\udfff]")
"""Bytes of a name that are no text, as Python holds them; no link can name such a file."""


class Links:
    """The files of a vault by their names, and what a link between them means."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = frozenset(files)
        self._meant: dict[tuple[str, str, bool], str | None] = {}
        self._by_path: dict[str, list[str]] = {}
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(self.files):
            self._by_path.setdefault(alike(path), []).append(path)
            self._by_name.setdefault(alike(posixpath.basename(path)), []).append(path)

    def resolve(self, target: str, source: str, *, markdown: bool = False) -> str | None:
        """The file that a link in `source` leads to; an empty target is the source itself."""
        if not target:
            return source
        key = target, posixpath.dirname(source), markdown
        if key not in self._meant:
            self._meant[key] = self._resolved(*key)
        return self._meant[key]

    def _resolved(self, target: str, folder: str, markdown: bool) -> str | None:
        if target.startswith("/"):
            return self._exactly(posixpath.normpath(target.lstrip("/")))
        if target.startswith(("./", "../")):
            return self._exactly(posixpath.normpath(posixpath.join(folder, target)))
        if markdown and (found := self._exactly(posixpath.normpath(posixpath.join(folder, target)))):
            return found
        return self._exactly(posixpath.normpath(target)) or self._nearest(target, folder)

    def ending_with(self, given: str) -> list[str]:
        """The files whose path is or ends with what is given, with or without `.md`."""
        for name in (given, f"{given}.md"):
            wanted = alike(name)
            same_name = self._by_name.get(wanted.rpartition("/")[2], ())
            if found := [one for one in same_name if alike(one) == wanted or alike(one).endswith(f"/{wanted}")]:
                return found
        return []

    def _exactly(self, path: str) -> str | None:
        for name in (path, f"{path}.md"):
            if name in self.files:
                return name
            if found := self._by_path.get(alike(name)):
                return found[0]
        return None

    def _nearest(self, target: str, folder: str) -> str | None:
        def rank(path: str) -> tuple[bool, bool, int, str]:
            spelled = path.endswith((f"/{target}", f"/{target}.md"))
            return not spelled, not path.startswith(f"{folder}/"), len(path), path

        return min(self.ending_with(target), key=rank, default=None)


@dataclass(slots=True, frozen=True)
class Backlink:
    source: str
    line: int
    text: str


class Vault:
    """A folder of notes of a session's workspace. Files that rules keep back are not in it."""

    def __init__(self, paths: Paths, folder: Place) -> None:
        self._paths = paths
        self.folder = folder
        self.dates: dict[str, int] = {}
        """When each file was changed last, in nanoseconds."""
        self.unread: list[str] = []
        """Notes that a search came across and could not read: too long, no text, or not readable."""
        self._walk()
        self.links = Links(self.dates)

    @property
    def notes(self) -> list[str]:
        return sorted(one for one in self.dates if is_note(one))

    def _walk(self) -> None:
        waiting = [""]
        while waiting:
            below = waiting.pop()
            try:
                opened = self._paths.open(self.place(below) if below else self.folder, os.O_RDONLY | os.O_DIRECTORY)
            except (OSError, PathError):
                continue  # gone meanwhile, or not ours to read
            try:
                for name in os.listdir(opened):  # noqa: PTH208 - of an open folder
                    if name.startswith(".") or name == _LEFT_OUT or _NOT_TEXT.search(name):
                        continue
                    found = os.stat(name, dir_fd=opened, follow_symlinks=False)
                    inner = f"{below}/{name}" if below else name
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append(inner)
                    elif stat.S_ISREG(found.st_mode) and not self._paths.kept.hidden(self.folder.path / inner):
                        self.dates[inner] = found.st_mtime_ns
            except OSError:
                continue
            finally:
                os.close(opened)

    def place(self, inner: str) -> Place:
        """A file of the vault, as the workspace knows it."""
        return self._paths.beside(self.folder, self.folder.path / inner)

    def inner(self, path: Path) -> str | None:
        """A real path below the vault, as it is named in here."""
        return path.relative_to(self.folder.path).as_posix() if self.folder.path in path.parents else None

    def read(self, inner: str) -> tuple[bytes, Text] | None:
        """A note's bytes and text; None for what is too long, or no text, or gone."""
        try:
            data = self._paths.read(self.place(inner), MOST_CHARACTERS + 1)
        except PathError:
            return None
        text = decode(data) if len(data) <= MOST_CHARACTERS else None
        return (data, text) if text is not None else None

    def searched(self, go_on: GoOn, named: str = "") -> Iterator[tuple[str, bytes, Text]]:
        """Every note that a search may look into, and the one that was `named`; `go_on` hears of each."""
        notes = self.notes
        held = self._paths.kept.all_held_back([str(self.folder.path / one) for one in notes], self.folder.path)
        for at, (inner, kept) in enumerate(zip(notes, held, strict=True)):
            go_on(at, len(notes))
            if kept and inner != named:
                continue
            if (found := self.read(inner)) is not None:
                yield inner, *found
            else:
                self.unread.append(inner)

    def backlinks(self, inner: str, go_on: GoOn) -> Iterator[Backlink]:
        """Who links to a note, other than itself."""
        may_link = mentions([inner])
        for source, _, text in self.searched(go_on):
            if source != inner and may_link(text.text):
                note = Note(text.text)
                lines = {link.line for link in note.links if self.leads_to(link, source) == inner}
                yield from (Backlink(source, line, note.line_text(line)) for line in sorted(lines))

    def leads_to(self, link: Link, source: str) -> str | None:
        return self.links.resolve(link.target, source, markdown=link.form != "wiki")


def is_note(path: str) -> bool:
    return path.lower().endswith(ENDINGS)


def title_of(path: str) -> str:
    """What a note is called: its file name without the ending."""
    return posixpath.splitext(posixpath.basename(path))[0]


def mentions(paths: Sequence[str]) -> Callable[[str], bool]:
    """Whether a text may have a link to one of these files: quick, and never a wrong no."""
    names = [alike(title_of(path)) for path in paths]
    odd = re.compile(r"%[0-9A-Fa-f]{2}|&#?\w+;|\\")

    def may(text: str) -> bool:
        if "](" not in text and "[[" not in text and "]:" not in text:
            return False
        plain = alike(text)
        return any(name in plain for name in names) or odd.search(text) is not None

    return may


# Which vaults there are, and which note is meant


def find_vaults(session: Session, paths: Paths, configured: Sequence[Path]) -> list[Place]:
    """The folders of notes that a session may use; `ToolError` where one that is configured lies elsewhere."""
    found: dict[Path, Place] = {}
    for folder in configured:
        try:
            place = paths.find(str(folder))
        except PathError as problem:
            if problem.code == "outside":
                raise ToolError(
                    phrase("The vault `{folder}` is outside the workspace.", folder=folder),
                    suggestion=advice(
                        "Ask the user to add it to the session's folders (`Environment(roots=[…])`).",
                        "Add its folder to `files.folders` in your settings.",
                    ),
                ) from None
            raise
        found[place.path] = place
    here = paths.locate(str(session.directory))
    for folder in (here.path, *here.path.parents):
        if here.root.path != folder and here.root.path not in folder.parents:
            break
        if (folder / MARKER).is_dir():
            found.setdefault(folder, paths.beside(here, folder))
    if not found:
        raise not_found(
            phrase("There is no vault here."),
            phrase("A vault is a folder with `.obsidian` in it, or one that the settings name as a vault."),
        )
    # A vault within a vault is read as part of the outer one, once.
    return [place for path, place in found.items() if not any(other in path.parents for other in found)]


def find_note(vaults: Sequence[Vault], paths: Paths, given: str) -> tuple[Vault, str]:
    """The note of a name, path or alias; `ToolError` where there is none, or several."""
    wanted = given.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].strip()
    if not wanted:
        raise invalid(phrase("`note` is empty."), phrase("Give its name."))
    by_path = [(vault, one) for vault in vaults if (one := _at_path(vault, paths, wanted)) is not None]
    if len(by_path) == 1:
        return by_path[0]
    found = by_path or [
        (vault, one) for vault in vaults for one in vault.links.ending_with(wanted.lstrip("/")) if is_note(one)
    ]
    found = found or [(vault, one) for vault in vaults for one in _with_alias(vault, wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        names = [vault.place(one).name for vault, one in found]
        listed = ", ".join(f"`{one_line(name)}`" for name in names[:_MOST_NAMED]) + (
            "" if len(names) <= _MOST_NAMED else ", …"
        )
        raise ToolError(
            phrase("{count} notes are called `{given}`: {listed}.", count=len(names), given=given, listed=listed),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Give the path of the one you mean."),
            details={"candidates": names},
        )
    titles = sorted({title_of(one) for vault in vaults for one in vault.notes})
    close = nearest(title_of(wanted), titles)
    raise not_found(
        phrase("There is no note `{given}`.", given=given),
        phrase("Did you mean {names}?", names=", ".join(f"`{one_line(name)}`" for name in close))
        if close
        else phrase("FindNotes finds notes by their text, tags and properties."),
    )


def _at_path(vault: Vault, paths: Paths, wanted: str) -> str | None:
    """A note by its path from the vault, or from the working directory."""
    for name in (wanted.lstrip("/"), f"{wanted.lstrip('/')}.md"):
        if name in vault.dates and is_note(name):
            return name
    if "/" not in wanted:
        return None
    for name in (wanted, f"{wanted}.md"):
        try:
            inner = vault.inner(paths.locate(name).path)
        except (PathError, OSError):
            continue
        if inner is not None and inner in vault.dates and is_note(inner):
            return inner
    return None


def _with_alias(vault: Vault, wanted: str) -> Iterator[str]:
    name = alike(wanted)
    for inner, _, text in vault.searched(lambda _at, _of: None):
        if "alias" in text.text and name in map(alike, aliases_of(Note(text.text))):
            yield inner


def aliases_of(note: Note) -> list[str]:
    """Other names of a note, from its front matter."""
    try:
        given: Any = note.properties.get("aliases") or note.properties.get("alias")
    except ToolError:
        return []
    if isinstance(given, str):
        return [one.strip() for one in given.split(",")]
    return [str(one) for one in cast("list[Any]", given)] if isinstance(given, list) else []


# Moving


@dataclass(slots=True)
class RewrittenNote:
    inner: str
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)
    links: int


def relinked(vault: Vault, old: str, new: str, go_on: GoOn) -> list[RewrittenNote]:
    """The notes that must change so that every link means the same file after `old` became `new`."""
    after = Links([*(vault.links.files - {old}), new])
    may_link = mentions([old, new])
    changed: list[RewrittenNote] = []
    for source, data, text in vault.searched(go_on, named=old):
        if source != old and not may_link(text.text):
            continue
        note = Note(text.text)
        moved = new if source == old else source
        edits: list[Edit] = []
        meant: list[str | None] = []
        for link in note.links:
            target = vault.leads_to(link, source)
            target = new if target == old else target
            meant.append(target)
            if target is None or after.resolve(link.target, moved, markdown=link.form != "wiki") == target:
                continue
            edits.append(Edit(link.at, link.until, _written(link, target, moved, after)))
        if not edits:
            continue
        written = splice(data, text, edits)
        # The promise, checked on what is about to be written.
        links = Note(again.text).links if (again := decode(written)) is not None else []
        now = [after.resolve(one.target, moved, markdown=one.form != "wiki") for one in links]
        if len(now) != len(meant) or any(want not in (None, found) for want, found in zip(meant, now, strict=True)):
            raise _unlinkable(source)
        changed.append(RewrittenNote(source, data, written, len(edits)))
    return changed


def _written(link: Link, target: str, source: str, files: Links) -> str:
    """A link's target in the style it was written in: a name, a path from the top, or a relative path."""
    name = posixpath.basename(target)
    markdown = link.form != "wiki"
    if markdown or link.target.startswith("."):
        relative = posixpath.relpath(target, posixpath.dirname(source) or ".")
    else:
        relative = target
    if link.target.startswith("/"):
        ways = [f"/{target}"]
    elif link.target.startswith(("./", "../")):
        ways = [relative if relative.startswith("../") else f"./{relative}", f"/{target}"]
    elif markdown:
        ways = [relative, f"./{relative}", f"/{target}"]
    else:
        ways = [*([] if "/" in link.target else [name]), target, f"/{target}"]
    ended = link.target.lower().endswith(ENDINGS)
    whole = ended or (markdown and "." in posixpath.basename(link.target))
    for way in [*(one if whole else one.removesuffix(".md") for one in ways), *ways]:
        if files.resolve(way, source, markdown=markdown) == target:
            if link.form == "wiki":
                if link.quote == '"':
                    return way.replace("\\", "\\\\").replace('"', '\\"')
                return way.replace("'", "''") if link.quote == "'" else way
            hard = r"[\x00-\x1f%#<>\\&]" if link.form == "angle" else r"[\x00-\x20%#?<>()\\&\"'\[\]|`$*~]"
            return re.sub(hard, lambda one: f"%{ord(one[0]):02X}", way)
    raise _unlinkable(target)


def _unlinkable(path: str) -> ToolError:
    return invalid(
        phrase("Links in `{path}` cannot be written so that they mean the same note. Nothing was moved.", path=path),
        phrase("Choose a name without special characters, which no other note has."),
    )
