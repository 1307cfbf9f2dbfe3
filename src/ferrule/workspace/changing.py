"""One change of one file, the way every tool makes it: seen before, changed as a whole, undoable, shown as a diff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.workspace.files import MOST_EDITABLE, files_of
from ferrule.workspace.locks import writing
from ferrule.workspace.paths import Place, check_new_name
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.changes import NOTHING, Origin
from ferrule.workspace.texts.diff import changed_counts, unified_diff
from ferrule.workspace.texts.same_encoding import require_same_encoding
from ferrule.workspace.texts.text import Text, decode
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.context import ToolContext


@dataclass(slots=True, frozen=True)
class Changed:
    """What became of a file."""

    place: Place
    created: bool
    size: int
    lines: int
    added: int
    removed: int
    diff: str
    change: int | None
    """The number in the history, for undo; None when nothing changed."""

    @property
    def metadata(self) -> dict[str, object]:
        return {"diff": self.diff, "added": self.added, "removed": self.removed, "change": self.change}


def change_file(
    context: ToolContext,
    given: str,
    make: Callable[[bytes | None, Text | None], bytes],
    *,
    must_exist: bool,
) -> Changed:
    """Change a file to what `make` gives for its bytes and its text (both None for a new one).

    An existing file must have been read in this session and be unchanged since.
    """
    files = files_of(context.session)
    place = files.paths.find(given) if must_exist else files.paths.locate(given)
    with writing(place.path):
        found = files.paths.stat(place)
        if found is None:
            if must_exist:
                files.paths.find(given)
            if given.endswith("/"):
                raise _a_folder(given)
            check_new_name(place)
            before, text = None, None
        else:
            if found.st_size > MOST_EDITABLE:
                raise _too_large(place, found.st_size)
            before = files.paths.read(place)
            files.tracker.require_seen(place, before)
            text = decode(before)
        after = make(before, text)
        require_same_encoding(text, after)
        origin = Origin(
            session=context.session_id,
            turn=str(context.state.get("turn", "")),
            call=context.call_id,
            tool=context.tool,
        )
        expect = digest(before) if before is not None else NOTHING
        group = files.history.write(place, after, origin, expect=expect)
        files.tracker.saw(place, after)
    now = decode(after)
    added, removed = changed_counts(text, now)
    return Changed(
        place=place,
        created=before is None,
        size=len(after),
        lines=_line_count(now),
        added=added,
        removed=removed,
        diff=unified_diff(text, now, place.name),
        change=group.number if group is not None else None,
    )


def _line_count(text: Text | None) -> int:
    if text is None or not text.text:
        return 0
    return text.text.count("\n") + (0 if text.final_newline else 1)


def _a_folder(given: str) -> PathProblem:
    return PathProblem(
        "name",
        f"`{given}` is the name of a folder.",
        kind=ErrorKind.VALIDATION,
        suggestion="Give the name of a file; the folders on its way are made.",
    )


def _too_large(place: Place, size: int) -> PathProblem:
    return PathProblem(
        "too_large",
        f"`{place}` has {size:,} bytes; files over {MOST_EDITABLE:,} are not changed by this tool.",
        suggestion="Change it with a command, or split it.",
    )


def require_text(place: str, text: Text | None) -> Text:
    """The text of a file, or words about why there is none."""
    if text is None:
        raise PathProblem(
            "binary",
            f"`{place}` is not a text file, and is not edited.",
            suggestion="Write it whole, or change it with a command made for its kind.",
        )
    return text
