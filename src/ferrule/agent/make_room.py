"""When a conversation is made shorter, and how far: before the context is full, with the model's own summary if it can.

When the summary cannot be had the old messages are left out all the same: a shorter memory is better than none.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ferrule.agent.agent_events import Compacted
from ferrule.agent.compaction import (
    ASK_FOR_SUMMARY,
    can_be_summarised,
    shortened_results,
    summarised,
    tail_start,
    transcript,
)
from ferrule.agent.hearing import Hearing
from ferrule.agent.sizes import Sizes, sizes_of
from ferrule.core.conversation import UserMessage
from ferrule.core.model import ModelError, ModelRequest, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.agent.conversation import Conversation
    from ferrule.core.model import Model

logger = logging.getLogger("ferrule.agent")

_FULL = 0.8
_CHEAP_IS_ENOUGH = 0.6
_TAIL = 0.4
_OUTPUT = 8_000
_SUMMARY_TOKENS = 2_000


class Room:
    """How much of a model's context a conversation takes, and what to do about it."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.sizes = Sizes()
        self._learnt: int | None = None

    def tokens(self, system: str) -> int:
        return self.sizes.tokens(self._conversation.messages, system)

    def limit(self, model: Model, otherwise: int) -> int:
        """How many tokens the conversation may have: most of the context, less the room for an answer."""
        context = model.context_tokens or otherwise
        limit = int(_FULL * (context - min(_OUTPUT, context // 4)))
        return min(limit, self._learnt) if self._learnt else limit

    def too_long(self, system: str) -> int:
        """The model would not read all this: from now on four fifths of it are the limit."""
        self._learnt = max(1_000, int(_FULL * self.tokens(system)))
        return self._learnt

    async def make(
        self, model: Model, system: str, limit: int, count: Callable[[Usage], None], *, summarise: bool = False
    ) -> Compacted | None:
        """Shorten the conversation to well below `limit`; None when there is nothing that could be left out."""
        messages = self._conversation.messages
        before = self.tokens(system)
        around = max(0, before - sizes_of(messages))
        shorter = shortened_results(messages)
        summary = ""
        if summarise or around + sizes_of(shorter) > _CHEAP_IS_ENOUGH * limit:
            start = tail_start(messages, int(_TAIL * limit))
            if can_be_summarised(messages, start):
                summary = await self._summary(model, start, limit, count)
                shorter = summarised(messages, start, summary)
        after = around + sizes_of(shorter)
        if after >= before:
            return None
        self._conversation.replace(shorter)
        self.sizes.shrunk(shorter, around)
        return Compacted(before, after, summary)

    async def _summary(self, model: Model, start: int, limit: int, count: Callable[[Usage], None]) -> str:
        old = self._conversation.messages[:start]
        text = transcript(old, max(_SUMMARY_TOKENS, limit - 2 * _SUMMARY_TOKENS))
        request = ModelRequest(
            [UserMessage(ASK_FOR_SUMMARY.replace("{transcript}", text))], max_output_tokens=_SUMMARY_TOKENS
        )
        try:
            finished = await Hearing(lambda event: None).listen(model, request)
        except ModelError as error:
            logger.warning("No summary of %d messages could be had: %s", start, error)
            return ""
        count(finished.usage)
        return "" if finished.stop == "refused" else finished.message.text
