"""Words that a server annotated, such as for whom they are: known by their place in a result, and blocks again later.

The words of a result are one text. Whoever changes it on the way knows nothing of these places, so a place counts only
while the very same words stand there.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from ferrule.dialects.mcp_blocks import said_of_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ANNOTATED = "annotated"
"""The key in a result's metadata."""


def place_of(text: str, start: int, block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Where a block's words stand and what is said of them; None where nothing is."""
    told = said_of_block(block)
    return {"start": start, "characters": len(text), "digest": _digest(text), **told} if told and text else None


def annotated_blocks(text: str, pieces: Iterable[str | int], places: Any) -> Iterator[str | int | dict[str, Any]]:
    """The pieces of a text, each annotated place in it as a block of its own."""
    marked = [one for one in _places(places) if _is_there(text, one)]
    end = -1  # of the piece before, where a line end stands
    for piece in pieces:
        if isinstance(piece, int):
            yield piece
            continue
        start, end = end + 1, end + 1 + len(piece)
        for one in marked:
            begins, stops = one["start"], one["start"] + one["characters"]
            if begins < start or stops > end:
                continue
            if before := text[start : max(start, begins - 1)]:
                yield before
            yield {"type": "text", "text": text[begins:stops], **said_of_block(one)}
            start = stops + 1
        if start < end:
            yield text[start:end]


def _is_there(text: str, place: Mapping[str, Any]) -> bool:
    start, end = place["start"], place["start"] + place["characters"]
    stands_alone = (start == 0 or text[start - 1 : start] == "\n") and text[end : end + 1] in ("", "\n")
    return stands_alone and _digest(text[start:end]) == place.get("digest")


def _places(given: Any) -> list[dict[str, Any]]:
    """Metadata is anybody's: whatever is no place is left out."""
    found = cast("list[Any]", given) if isinstance(given, list) else []
    places = [cast("dict[str, Any]", one) for one in found if isinstance(one, dict)]
    numbers = ("start", "characters")
    known = [one for one in places if all(type(one.get(key)) is int and one[key] >= 0 for key in numbers)]
    return sorted((one for one in known if one["characters"]), key=lambda one: one["start"])


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
