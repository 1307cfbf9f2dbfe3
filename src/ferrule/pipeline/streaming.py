"""Collects what a streaming tool yields. Each piece is shown at once, and the whole stays bounded.

Any other iterator in a result, such as `map(…)` or an open file, is read into a list here. It could be read only once
later, and an endless one would then escape the time limit.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from types import GeneratorType, NoneType
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.result import Output
from ferrule.pipeline.threads import Abandoned

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from ferrule.core.call import Limits

_PIECES_PER_TURN = 64
_NOTE = 80
SCALARS = frozenset({str, int, float, bool, NoneType})
_HOLDERS = frozenset({dict, list, tuple})
_LOOKED_AT = 16
_FINISHED = SCALARS | _HOLDERS
"""The types of nearly all results. Only the holders need a look inside."""


class Collected:
    """The pieces of one stream. Text keeps its head and its tail, other items the first so many."""

    def __init__(self, limits: Limits, most: int | None = None, empty: Callable[[], Any] = str) -> None:
        # Leaves room for the note about what was left out, so that the text is not cut a second time.
        self._half = max(0, (most or limits.result_chars) - _NOTE) // 2
        self._most_chars = 4 * self._half + _NOTE
        self._most_items = limits.stream_items
        self._items: list[Any] = []
        self._chars = 0
        self._only_text = True
        self._empty = empty
        self._chars_left_out = 0
        self._items_left_out = 0
        self.final: Output | None = None

    def keep_apart(self) -> None:
        """Collect a list, even if every piece is text."""
        self._only_text = False

    def add(self, piece: Any) -> None:
        if isinstance(piece, Output):
            self.final = piece
            return
        if not isinstance(piece, str):
            self._only_text = False
        elif self._only_text:
            self._items.append(piece)
            self._chars += len(piece)
            if len(self._items) > self._most_items or self._chars > self._most_chars:
                self._shrink()
            return
        if len(self._items) >= self._most_items or self._chars > self._most_chars:
            self._items_left_out += 1
            return
        self._items.append(piece)
        if isinstance(piece, (str, bytes)):
            self._chars += len(piece)

    def _shrink(self) -> None:
        text, half = "".join(self._items), self._half
        if len(text) > 2 * half:
            self._chars_left_out += len(text) - 2 * half
            text = text[:half] + text[len(text) - half :]
        self._items = [text]
        self._chars = len(text)

    def result(self) -> Any:
        """The last `Output` if there was one, else the joined text or the list of items."""
        if self.final is not None:
            return self.final
        if self._only_text and not self._items:
            return self._empty()
        metadata: dict[str, Any] = {}
        if self._only_text and self._chars_left_out:
            self._shrink()
        if self._chars_left_out:
            metadata["characters_left_out"] = self._chars_left_out
        if self._items_left_out:
            metadata["items_left_out"] = self._items_left_out
        if not self._only_text:
            return Output(data=self._items, metadata=metadata)
        text = "".join(self._items)
        if not metadata:
            return text
        note = f"\n[… {self._chars_left_out:,} characters left out …]\n"
        return Output(data=None, llm_content=text[: self._half] + note + text[self._half :], metadata=metadata)


async def drain(pieces: AsyncIterator[Any], show: Callable[[Any], None], collected: Collected) -> Any:
    """Read an async generator to its end. The loop gets a turn now and then, so that time limits work."""
    from asyncio import sleep

    count = 0
    try:
        async for piece in pieces:
            if not isinstance(piece, Output):
                show(piece)
            collected.add(piece)
            count += 1
            if count % _PIECES_PER_TURN == 0:
                await sleep(0)
    finally:  # it must clean up now, and not when it is garbage collected
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()
    return collected.result()


def drain_sync(
    pieces: Iterator[Any], show: Callable[[Any], None], collected: Collected, is_over: Callable[[], bool]
) -> Any:
    """Read a sync generator to its end, in the thread that runs it. Stop at the next piece once its call is over."""
    if not is_generator(pieces):
        collected.keep_apart()
    for piece in pieces:
        if is_over():
            if isinstance(pieces, GeneratorType):
                pieces.close()
            raise Abandoned
        if not isinstance(piece, Output):
            show(piece)
        collected.add(piece)
    return collected.result()


def is_generator(value: object) -> bool:
    return type(value) is GeneratorType


def is_iterator(value: object) -> bool:
    """Whether it can be read only once."""
    kind = type(value)
    return kind not in _FINISHED and hasattr(kind, "__next__")


def is_unfinished(value: object) -> bool:
    """Whether a function returned an awaitable or an iterator instead of a result."""
    kind = type(value)
    return kind not in _FINISHED and (
        hasattr(kind, "__next__") or hasattr(kind, "__await__") or hasattr(kind, "__anext__")
    )


def settled(value: Any) -> Any:
    """The same value with every iterator inside its dicts and lists read into a list."""
    if type(value) in _HOLDERS and _holds_iterator(value):
        return _read_out(value, {})
    if type(value) is Output and _holds_iterator((value.data,)):  # pyright: ignore[reportUnknownMemberType]
        return replace(value, data=_read_out(value.data, {}))
    return value


def _holds_iterator(value: Any, deepest: int = 2) -> bool:
    """Looks at the first items only, and not deep, so that long results cost no more: their rows are alike."""
    items: Iterable[object] = cast("Any", value).values() if type(value) is dict else value
    first: Iterable[object] = items if len(cast("Any", value)) <= _LOOKED_AT else islice(items, _LOOKED_AT)
    for item in first:
        kind = type(item)
        if kind in SCALARS:
            continue
        if kind in _HOLDERS:
            if deepest and _holds_iterator(item, deepest - 1):
                return True
        elif hasattr(kind, "__next__"):
            return True
    return False


def _read_out(value: object, known: dict[int, tuple[Any, Any]]) -> Any:
    """A copy without iterators. `known` maps the id of each original to it and its copy: a value may hold itself, and
    the original must live for its id to stay unique.
    """
    kind = type(value)
    if kind in SCALARS or not (kind in _HOLDERS or hasattr(kind, "__next__")):
        return value
    if id(value) in known:
        return known[id(value)][1]
    if kind is dict:
        whole: dict[Any, Any] = {}
        known[id(value)] = value, whole
        whole.update((key, _read_out(item, known)) for key, item in cast("dict[Any, Any]", value).items())
        return whole
    items: list[Any] = []
    known[id(value)] = value, items
    items.extend(_read_out(item, known) for item in cast("Iterable[Any]", value))
    return tuple(items) if kind is tuple else items


async def finish(value: Any, show: Callable[[Any], None], collected: Collected) -> Any:
    """Await or read what a function returned until there is a result."""
    while is_unfinished(value):
        if is_iterator(value):
            if not is_generator(value):
                collected.keep_apart()
            value = await drain(_in_turns(value), show, collected)
        elif hasattr(type(cast("object", value)), "__await__"):
            value = await value
        else:
            value = await drain(value, show, collected)
    return value


async def _in_turns(pieces: Iterator[Any]) -> AsyncIterator[Any]:
    for piece in pieces:
        yield piece
