"""How many tokens a conversation is, near enough: what the model itself last counted, and an estimate of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.conversation import ToolResults, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.conversation import Message
    from ferrule.core.model import Usage

# A token is about four letters of English and a little more than one Chinese character, which is three bytes.
_BYTES_A_TOKEN = 3.5
_MESSAGE = 8
_ATTACHMENT = 1500


def tokens_of(text: str) -> int:
    """An estimate that is rather too high than too low."""
    return int((len(text) if text.isascii() else len(text.encode("utf-8", "replace"))) / _BYTES_A_TOKEN) + 1


def size_of(message: Message) -> int:
    """An estimate of one message."""
    if isinstance(message, UserMessage):
        return _MESSAGE + tokens_of(message.text) + _ATTACHMENT * len(message.attachments)
    if isinstance(message, ToolResults):
        return sum(
            _MESSAGE + tokens_of(one.llm_content) + _ATTACHMENT * len(one.attachments) for one in message.results
        )
    calls = sum(_MESSAGE + tokens_of(f"{one.name}{one.arguments}") for one in message.calls)
    return _MESSAGE + tokens_of(message.text) + tokens_of(message.thinking) + calls


def sizes_of(messages: Sequence[Message]) -> int:
    return sum(map(size_of, messages))


class Sizes:
    """The size of one conversation as it grows. Each message is measured once."""

    def __init__(self) -> None:
        self._counted = 0
        self._known = 0
        self._estimated = 0

    def tokens(self, messages: Sequence[Message], system: str = "") -> int:
        """How much the model would read now."""
        for message in messages[self._counted :]:
            self._estimated += size_of(message)
        self._counted = len(messages)
        return self._estimated + (self._known or tokens_of(system))

    def told(self, messages: Sequence[Message], usage: Usage) -> None:
        """The model counted what it read and wrote: `messages` with its answer, and all that stands around them."""
        if usage.input_tokens <= 0:  # it does not count
            return
        self._counted = len(messages)
        self._known = usage.input_tokens + usage.output_tokens
        self._estimated = 0

    def shrunk(self, messages: Sequence[Message], around: int) -> None:
        """The conversation is another one now; `around` is what stands around the messages."""
        self._counted = len(messages)
        self._known = around
        self._estimated = sizes_of(messages)
