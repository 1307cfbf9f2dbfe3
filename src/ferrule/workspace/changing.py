"""One change of one file, the way every tool makes it: seen before, changed as a whole, undoable, shown as a diff."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import advice, phrase
from ferrule.workspace.atomic import writing
from ferrule.workspace.files import MOST_EDITABLE, files_of
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import NO_FILE, Origin, Write
from ferrule.workspace.texts.diff import diff_file
from ferrule.workspace.texts.text import Text, decode, require_same_encoding

if TYPE_CHECKING:
    from ferrule.core.context import Session, ToolContext
    from ferrule.workspace.files import Files
    from ferrule.workspace.paths import Place
    from ferrule.workspace.texts.diff import FileDiff

SECONDS_TO_CHANGE = 60.0
"""What a change may take to come to its end once its call is told to stop: on a slow disk, or after other programs that
change files. Sooner than this nobody is told of an end that has not come."""


@dataclass(slots=True, frozen=True)
class Changed:
    """What became of a file."""

    place: Place
    created: bool
    size: int
    text: Text | None
    added: int
    removed: int
    diff: str
    change: int | None
    """The number in the history, for undo; None when nothing changed."""

    @property
    def metadata(self) -> dict[str, object]:
        return {"diff": self.diff, "added": self.added, "removed": self.removed, "change": self.change}


@dataclass(slots=True, frozen=True)
class Planned:
    """A change that could be made now: what the file holds, and what it would hold."""

    place: Place
    before: bytes | None
    text: Text | None
    expect: str
    after: bytes

    @property
    def diff(self) -> FileDiff:
        return diff_file(self.text, decode(self.after), self.place.name)


Make = Callable[[bytes | None, Text | None], bytes]
"""What a file shall hold, by its bytes and its text; both are None for a new one."""


def plan_change(session: Session, given: str, make: Make, *, must_exist: bool) -> Planned:
    """What changing a file would do; nothing is written.

    An existing file must have been read in this session and be unchanged since.
    """
    files = files_of(session)
    return _plan(files, _place(files, given, must_exist=must_exist), given, make, must_exist=must_exist)


def change_file(context: ToolContext, given: str, make: Make, *, must_exist: bool) -> Changed:
    """Change a file to what `make` gives.

    An existing file must have been read in this session and be unchanged since.
    """
    files = files_of(context.session)
    place = _place(files, given, must_exist=must_exist)

    def go_on(_position: int = 0) -> None:
        context.cancellation.raise_if_requested()  # it may have waited long for others who change files

    with writing(place.path):
        go_on()
        planned = _plan(files, place, given, make, must_exist=must_exist)
        before, after, expect = planned.before, planned.after, planned.expect
        step = Write(place, after, expect=expect, holds=before, through_hard_links=files.hard_links)
        group = files.history.apply([step], origin_of(context), before_each=go_on)
        files.tracker.saw(place, after, group.changes[0].digest_after if group else expect)
    now = decode(after)
    diff = diff_file(planned.text, now, place.name)
    return Changed(
        place=place,
        created=before is None,
        size=len(after),
        text=now,
        added=diff.added,
        removed=diff.removed,
        diff=diff.text,
        change=group.number if group is not None else None,
    )


def _place(files: Files, given: str, *, must_exist: bool) -> Place:
    place = files.paths.find(given) if must_exist else files.paths.locate(given)
    files.paths.require_writable(place, given)
    return place


def _plan(files: Files, place: Place, given: str, make: Make, *, must_exist: bool) -> Planned:
    found = files.paths.stat(place)
    if found is None:
        if must_exist:
            files.paths.find(given)
        if given.endswith("/"):
            raise PathError(
                "name",
                phrase("`{given}` is the name of a folder.", given=given),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Give the name of a file; missing folders are created."),
            )
        files.paths.check_new(place)
        before, text, expect = None, None, NO_FILE
    else:
        if found.st_size > MOST_EDITABLE:
            raise PathError(
                "too_large",
                phrase(
                    "`{place}` has {size} bytes; files over {most_editable} are not changed by this tool.",
                    place=place,
                    size=f"{found.st_size:,}",
                    most_editable=f"{MOST_EDITABLE:,}",
                ),
                suggestion=phrase("Change it with a command, or split it."),
            )
        try:
            before = files.paths.read(place)
        except PathError as problem:  # it may differ from what the caller has read
            if problem.code not in ("permission", "failed"):
                raise
            why = problem.message.rpartition(": ")[2].rstrip(".")
            raise PathError(
                "unverified",
                phrase(
                    "Whether `{place}` is still as you read it could not be verified, because it "
                    "cannot be read: {why}. It was not changed.",
                    place=place,
                    why=why,
                ),
                kind=problem.kind,
                suggestion=advice(
                    "Ask the user to make it readable, or write to another file.",
                    "Make it readable, or write to another file.",
                ),
            ) from None
        expect = files.tracker.require_seen(place, before)
        text = decode(before)
    after = make(before, text)
    require_same_encoding(text, after)
    return Planned(place, before, text, expect, after)


def origin_of(context: ToolContext) -> Origin:
    """Who asked for the changes of a call."""
    call = context.change or context.call_id
    return Origin(session=context.session_id, turn=context.session.turn, call=call, tool=context.tool)


def require_text(place: str, text: Text | None) -> Text:
    """The text of a file, or words about why there is none."""
    if text is None:
        raise PathError(
            "binary",
            phrase("`{place}` is not a text file, and is not edited.", place=place),
            suggestion=phrase("Write the whole file, or change it with a command made for its type."),
        )
    return text
