"""Several edits of one text, one after the other, as one change to the text as it was: all or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from ferrule.core.phrases import joined, phrase
from ferrule.workspace.edits.edit_problems import EditError, FoundText, nul
from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.media import notebook_cells
from ferrule.workspace.texts.text import Edit, apply_edits, in_bytes, require_sure_encoding, splice, splice_utf_8

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferrule.workspace.texts.text import Text


_AS_JSON = phrase(
    "Read shows the cells, but the file is JSON, and an edit changes that: each line of a cell "
    'is a string there, in quotes, with `\\"` for a quote and `\\n` at its end.'
)


class _Found(Protocol):
    @property
    def spans(self) -> list[Edit]: ...


F = TypeVar("F", bound=_Found)


def edited_bytes(name: str, data: bytes, text: Text, find: Callable[[str | bytes], F]) -> tuple[F, bytes]:
    """What `find` finds in the text of a file, or in the bytes of a large one, and the bytes of the file with that
    replaced, and no other changed. A notebook must still be one afterwards.
    """
    notebook = name.endswith(".ipynb") and notebook_cells(text.text) is not None
    source = text.text if notebook else text.source
    try:
        found = find(source)
    except EditError as problem:
        raise (problem.saying(joined("\n\n", [problem.message, _AS_JSON])) if notebook else problem) from None
    if isinstance(source, str) and notebook and notebook_cells(apply_edits(source, found.spans)) is None:
        no_more = phrase("After this change the file would no longer be a notebook. Nothing was changed.")
        raise EditError(
            "notebook",
            joined("\n\n", [no_more, _AS_JSON]),
            suggestion=phrase("Give the new text as it must appear in the JSON."),
        )
    new = "".join(span.new for span in found.spans)
    if "\0" in new:
        raise nul()  # it would be a binary file
    require_sure_encoding(data, text, new)
    return found, splice(data, text, found.spans) if isinstance(source, str) else splice_utf_8(source, found.spans)


@dataclass(slots=True, frozen=True)
class FoundAll:
    """What the edits come to: spans of the original text, the text that results, and how each edit was found."""

    spans: list[Edit]
    text: str
    steps: list[FoundText]


@dataclass(slots=True, frozen=True)
class _EditPiece:
    """A part of the text on its way: characters of the original from `start` on, or (start None) new ones."""

    text: str
    start: int | None = None


def find_edits(source: str | bytes, edits: Sequence[tuple[str, str, bool]]) -> FoundAll:
    """Apply (old, new, replace_all) in turn, each on what the ones before made; raises naming the edit that failed.

    Where the source is bytes in UTF-8, the spans are of bytes.
    """
    text = source if isinstance(source, str) else source.decode()
    now, pieces, steps = text, [_EditPiece(text, 0)], list[FoundText]()
    for number, (old, new, replace_all) in enumerate(edits, 1):
        try:
            found = find_edit(now, old, new, replace_all=replace_all)
        except EditError as problem:
            which = phrase("Edit {n} of {count} failed, so no edit was made.", n=number, count=len(edits))
            raise problem.saying(joined(" ", [which, problem.message]), edit=number) from None
        steps.append(found)
        pieces = _replaced(pieces, found.spans)
        now = apply_edits(now, found.spans)
    # What stands between the pieces of the original that are left.
    spans: list[Edit] = []
    at, made = 0, ""
    for piece in [*pieces, _EditPiece("", len(text))]:
        if piece.start is None:
            made += piece.text
            continue
        if made or piece.start > at:
            spans.append(Edit(at, piece.start, made))
        at, made = piece.start + len(piece.text), ""
    return FoundAll(spans if isinstance(source, str) else in_bytes(text, spans), now, steps)


def _replaced(pieces: list[_EditPiece], spans: list[Edit]) -> list[_EditPiece]:
    """The pieces after a change; spans are in order."""
    result: list[_EditPiece] = []
    at = 0  # where the piece at hand begins in the text as it is now
    waiting = iter([*spans, None])
    span = next(waiting)
    for piece in pieces:
        used = 0
        while span is not None and span.start < at + len(piece.text):
            keep = max(span.start - at, used)
            if span.start >= at:
                result.append(_part(piece, used, keep))
                result.append(_EditPiece(span.new))
            used = min(span.end - at, len(piece.text))
            if span.end > at + len(piece.text):
                break
            span = next(waiting)
        result.append(_part(piece, used, len(piece.text)))
        at += len(piece.text)
    if span is not None:
        result.append(_EditPiece(span.new))  # all there is, in an empty text
    return [piece for piece in result if piece.text]


def _part(piece: _EditPiece, start: int, end: int) -> _EditPiece:
    return _EditPiece(piece.text[start:end], None if piece.start is None else piece.start + start)
