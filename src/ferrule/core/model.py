"""What a model is to Ferrule: a conversation and tools go in, a stream of words, calls and usage comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from ferrule.core.call import RawCall
    from ferrule.core.result import Attachment, ToolResult
    from ferrule.core.tool import Tool


# A conversation with a model, in nobody's form: what was said, what was asked for, what came back.


@dataclass(slots=True, frozen=True)
class UserMessage:
    """What the user said. `typed` is how they said it, where `text` has more for the model; `turn` is the turn that it
    began, and 0 for what came in the middle of one.
    """

    text: str
    attachments: tuple[Attachment, ...] = ()
    typed: str = field(default="", compare=False)
    turn: int = field(default=0, compare=False)


@dataclass(slots=True, frozen=True)
class AssistantMessage:
    """What the model said, and the calls it asked for.

    `kept` is what its provider wants to see again word for word (signed thinking, item ids), by the provider's name;
    nobody else looks into it, and another provider is never sent it.
    """

    text: str = ""
    calls: tuple[RawCall, ...] = ()
    thinking: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True, frozen=True)
class ToolResults:
    """What the calls of the message before gave, one result for each call, in the same order."""

    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ToolResults


StopReason = Literal["end", "calls", "length", "refused", "other"]
"""Why the model stopped: it was done, it waits for its calls, it ran out of room, or it would not go on."""


Effort = Literal["low", "medium", "high"]
"""How much a model should think before it answers, where it can be told."""


@dataclass(slots=True, frozen=True)
class Usage:
    """Tokens of one answer. `input_tokens` counts all that was read, also what came from a cache.

    `cost` is in US dollars, None if the price is unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        known = [one for one in (self.cost, other.cost) if one is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            sum(known) if known else None,
        )


@dataclass(slots=True, frozen=True)
class ModelRequest:
    """One question to a model: everything it is to know."""

    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[Tool[Any]] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    max_output_tokens: int | None = None
    temperature: float | None = None
    effort: Effort | None = None


# What comes out, in this order: `Preparing` where it must, any number of deltas, calls as they become whole, `Retrying`
# between two tries, and `Finished` exactly once at the end. After `Retrying(restarted=True)` what was shown of the
# answer so far is void.


@dataclass(slots=True, frozen=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(slots=True, frozen=True)
class ThinkingDelta:
    """A piece of what the model thinks before it answers, where its provider shows it."""

    text: str


@dataclass(slots=True, frozen=True)
class CallStarted:
    """The model has begun to ask for a tool; its arguments are still coming."""

    call_id: str
    tool: str


@dataclass(slots=True, frozen=True)
class Retrying:
    """A try failed in a way that allows another one, which starts after a while."""

    attempt: int
    seconds: float
    why: str
    restarted: bool = False


@dataclass(slots=True, frozen=True)
class Preparing:
    """Something that takes long before an answer can begin: weights are fetched. `text` says what, for the user."""

    text: str


@dataclass(slots=True, frozen=True)
class Finished:
    """The whole answer, also where deltas of it were given before."""

    message: AssistantMessage
    usage: Usage
    stop: StopReason


ModelEvent = TextDelta | ThinkingDelta | CallStarted | Retrying | Preparing | Finished


class Model(Protocol):
    """Anything that answers. Closing the stream early stops the request."""

    @property
    def name(self) -> str:
        """As `--model` takes it: `provider/name`."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """How much it can read and write in all; None if unknown."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask; raises `ModelError` where no answer can be had."""
        ...

    async def close(self) -> None:
        """Let go of connections and processes."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A model that takes long before its first answer, and can begin with that earlier."""

    async def prepare(self, say: Callable[[str], None]) -> None:
        """Get ready; `say` hears what takes long. Raises `ModelError` where it cannot be."""
        ...


class ModelFault(StrEnum):
    """What kind of failure it was; what to do follows from it."""

    KEY = "key"  # no key, or one that is not accepted
    NOT_FOUND = "not_found"  # no such model
    TOO_LONG = "too_long"  # the conversation does not fit
    REFUSED = "refused"  # the request is not accepted as it is
    BUSY = "busy"  # rate limits and overload, after all tries
    UNREACHABLE = "unreachable"  # no connection, time-out, a stream that broke, after all tries
    GARBLED = "garbled"  # an answer that cannot be read
    MONEY = "money"  # no credit left


class ModelError(Exception):
    """A model gave no answer. The message says what happened and what to do, without any key or full address."""

    def __init__(self, fault: ModelFault, message: str, *, suggestion: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message
        self.suggestion = suggestion
        self.status = status

    def __str__(self) -> str:
        return f"{self.message} {self.suggestion}".strip()
