"""Where attachments stand among the words: as a provider's blocks of content say it, and as blocks again.

A picture belongs to the words before it. So an attachment knows after how many characters of the words it stands; one
that does not stands after all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferrule.dialects.wording import attachment_lost, details_lost

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferrule.core.result import Attachment, ToolResult
    from ferrule.dialects.dialect import Dialect
    from ferrule.dialects.losses import Loss


class Blocks:
    """Takes blocks one after the other. Their texts become one, with a line end between them."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._length = 0
        self._attachments: list[Attachment] = []

    def add_text(self, text: str) -> int:
        """Where in all the words these begin."""
        start = self._length + (1 if self._texts else 0)
        self._length = start + len(text)
        self._texts.append(text)
        return start

    def add(self, attachment: Attachment) -> None:
        self._attachments.append(replace(attachment, after=self._length))

    @property
    def text(self) -> str:
        return "\n".join(self._texts)

    @property
    def attachments(self) -> list[Attachment]:
        return [replace(one, after=None) if one.after == self._length else one for one in self._attachments]


def in_order(text: str, attachments: Sequence[Attachment]) -> Iterator[str | int]:
    """Pieces of the text, none of them empty, and the numbers of the attachments between them.

    A place that is not at the end of a line is not to be trusted: somebody changed the words since.
    """
    place, last = 0, 0  # where the rest of the words begins, and after how many the last attachment stood
    at = 0
    while at < len(attachments):
        after = attachments[at].after
        if after is None or after < last or not (after == 0 or text[after : after + 1] == "\n"):
            break
        if after > place:
            yield text[place:after]
        if after > 0:
            place = after + 1
        last = after
        yield at
        at += 1
    if rest := text[place:]:
        yield rest
    yield from range(at, len(attachments))


def written_blocks(
    dialect: Dialect, result: ToolResult, text: str, losses: list[Loss], *, text_kind: str, name_key: str
) -> list[dict[str, Any]]:
    """Words and attachments as a provider's blocks, with a line of words for an attachment that it cannot carry."""
    blocks: list[dict[str, Any]] = []
    for one in in_order(text, result.attachments):
        block = None if isinstance(one, str) else dialect.write_attachment(result.attachments[one])
        if block is None:
            words = one if isinstance(one, str) else attachment_lost(result, one, losses)
            block = {"type": text_kind, "text": words}
        elif isinstance(one, int):
            details_lost(result, one, losses, name=name_key not in block)
        blocks.append(block)
    return blocks


def out_of_order(attachments: Sequence[Attachment]) -> list[Attachment]:
    """The same attachments, all of them after the words."""
    return [one if one.after is None else replace(one, after=None) for one in attachments]
