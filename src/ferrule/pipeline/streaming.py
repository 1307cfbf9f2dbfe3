"""Collects what a streaming tool yields: each piece is shown at once, and the whole stays bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.result import Output

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from ferrule.pipeline.limits import Limits

_PIECES_PER_TURN = 64


class Collected:
    """The pieces of one stream. Text keeps its head and its tail, other items the first so many."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._items: list[Any] = []
        self._chars = 0
        self._only_text = True
        self._left_out = 0
        self.final: Output | None = None

    def add(self, piece: Any) -> None:
        if isinstance(piece, Output):
            self.final = piece
            return
        self._only_text = self._only_text and isinstance(piece, str)
        if isinstance(piece, str):
            self._chars += len(piece)
        self._items.append(piece)
        if len(self._items) > self._limits.stream_items or self._chars > 2 * self._limits.result_chars:
            self._shrink()

    def _shrink(self) -> None:
        if self._only_text:
            text = "".join(self._items)
            half = self._limits.result_chars // 2
            if len(text) > 2 * half:
                self._left_out += len(text) - 2 * half
                text = text[:half] + text[-half:]
            self._items = [text]
            self._chars = len(text)
        else:
            self._left_out += len(self._items) - self._limits.stream_items
            del self._items[self._limits.stream_items :]

    def result(self) -> Any:
        """The last `Output` if there was one, else the joined text, else the list of items."""
        if self.final is not None:
            return self.final
        if not self._only_text:
            metadata = {"items_left_out": self._left_out} if self._left_out else {}
            return Output(data=self._items, metadata=metadata)
        text = "".join(self._items)
        if not self._left_out:
            return text
        half = self._limits.result_chars // 2
        note = f"\n[… {self._left_out:,} characters left out …]\n"
        return Output(
            data=None,
            llm_content=text[:half] + note + text[half:],
            metadata={"characters_left_out": self._left_out},
        )


async def drain(pieces: AsyncIterator[Any], show: Callable[[Any], None], limits: Limits) -> Any:
    """Take an async generator to its end, giving the loop a turn now and then so that time limits hold."""
    from asyncio import sleep

    collected = Collected(limits)
    count = 0
    async for piece in pieces:
        if not isinstance(piece, Output):
            show(piece)
        collected.add(piece)
        count += 1
        if count % _PIECES_PER_TURN == 0:
            await sleep(0)
    return collected.result()


def drain_sync(pieces: Iterator[Any], show: Callable[[Any], None], limits: Limits) -> Any:
    """Take a sync generator to its end, in the thread that runs it."""
    collected = Collected(limits)
    for piece in pieces:
        if not isinstance(piece, Output):
            show(piece)
        collected.add(piece)
    return collected.result()
