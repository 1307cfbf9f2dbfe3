"""What a model is to Ferrule: a conversation and tools go in, a stream of words, calls and usage comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

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


@dataclass(slots=True, frozen=True, kw_only=True)
class ModelPrice:
    """What a model costs, in US dollars for a million tokens: those it reads, those it writes, those it reads from a
    cache and those that are put into one. Tokens of a cache cost as much as others unless their price is given.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """What an answer cost, in US dollars."""
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
        cached = usage.cache_read_tokens * read + usage.cache_write_tokens * written
        return (plain * self.input + cached + usage.output_tokens * self.output) / 1_000_000


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

    @property
    def total_tokens(self) -> int:
        """All that was read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        known = [one for one in (self.cost, other.cost) if one is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            sum(known) if known else None,
        )


PromptCache = Literal["off", "5m", "1h", "24h"]
"""Whether a provider keeps what it has read for the next request, and for how long."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ModelSettings:
    """How a model is to answer. A setting that isn't given is left to its provider.

    A model whose provider lacks one of the given settings refuses them before it is asked anything.
    """

    temperature: float | None = None
    max_output_tokens: int | None = None
    """The most tokens that one answer may have."""
    seed: int | None = None
    stop: Sequence[str] = ()
    """Texts that end an answer."""
    effort: Effort | None = None
    tool_choice: str | None = None
    """`auto`, `none`, `required`, or the name of the tool to call. All but `none` hold for the first answer of a turn;
    after that the model chooses."""
    parallel_calls: bool | None = None
    """Whether one answer may ask for several calls."""
    prompt_cache: PromptCache | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields that are sent as they are, by the provider's own names."""

    def __post_init__(self) -> None:
        for name, kind, wanted in _SETTING_TYPES:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
                raise TypeError(f"ModelSettings: `{name}` must be {wanted}, not {value!r}.")
        if isinstance(self.stop, str) or not all(isinstance(one, str) and one for one in self.stop):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"ModelSettings: `stop` must be a list of texts, not {self.stop!r}.")
        if self.temperature is not None and not 0 <= self.temperature < float("inf"):
            raise ValueError(f"ModelSettings: `temperature` must be 0 or more, not {self.temperature!r}.")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise ValueError(f"ModelSettings: `max_output_tokens` must be 1 or more, not {self.max_output_tokens!r}.")
        for name, values in (("effort", get_args(Effort)), ("prompt_cache", get_args(PromptCache))):
            if (value := getattr(self, name)) is not None and value not in values:
                raise ValueError(f"ModelSettings: `{name}` must be one of {', '.join(values)}, not {value!r}.")

    def given(self) -> dict[str, Any]:
        """The settings that were given, by name."""
        values = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: value for name, value in values if value is not None and value not in ((), [], {})}

    def __or__(self, other: ModelSettings) -> ModelSettings:
        """These settings with those given in `other` in place of their own; `extra` has the fields of both."""
        if not isinstance(other, ModelSettings):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        if other is NO_SETTINGS or self is NO_SETTINGS:
            return self if other is NO_SETTINGS else other
        values = self.given() | other.given()
        values["extra"] = {**self.extra, **other.extra}
        return ModelSettings(**values)


_SETTING_TYPES: tuple[tuple[str, Any, str], ...] = (
    ("temperature", (int, float), "a number"),
    ("max_output_tokens", int, "a whole number"),
    ("seed", int, "a whole number"),
    ("tool_choice", str, "`auto`, `none`, `required` or a tool's name"),
    ("parallel_calls", bool, "True or False"),
    ("extra", Mapping, "a mapping"),
)
NO_SETTINGS = ModelSettings()


@dataclass(slots=True, frozen=True)
class ModelRequest:
    """One question to a model: everything it is to know.

    With `output`, its words must be the arguments of that tool as a JSON object, and nothing else. Only a model that
    `WritesOutput` is asked for that.
    """

    messages: Sequence[Message]
    system: str = ""
    tools: Sequence[Tool[Any]] = ()
    settings: ModelSettings = NO_SETTINGS
    output: Tool[Any] | None = None


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
class CallDelta:
    """A piece of a call's arguments, as JSON text: all pieces of a `call_id`, put together, are the arguments."""

    call_id: str
    tool: str
    text: str


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


ModelEvent = TextDelta | ThinkingDelta | CallStarted | CallDelta | Retrying | Preparing | Finished


class Model(Protocol):
    """Anything that answers. Closing the stream early stops the request.

    A model may also have `check_settings(settings)`, which raises `ModelError` for settings that it lacks, and
    `is_priced`, whether its answers come with their cost. A cost limit needs a model that is priced.
    """

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


def check_settings(model: Model, settings: ModelSettings) -> None:
    """Raise `ModelError` for a setting that the model lacks, if it can tell."""
    if not isinstance(settings, ModelSettings):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"Settings are written ModelSettings(temperature=0.2), not {settings!r}.")
    if settings is not NO_SETTINGS and (check := getattr(model, "check_settings", None)) is not None:
        check(settings)


@runtime_checkable
class Prepares(Protocol):
    """A model that takes long before its first answer, and can begin with that earlier."""

    async def prepare(self, say: Callable[[str], None]) -> None:
        """Get ready; `say` hears what takes long. Raises `ModelError` where it cannot be."""
        ...


@runtime_checkable
class WritesOutput(Protocol):
    """A model whose provider can hold its words to a JSON Schema."""

    def writes_output(self, output: Tool[Any], tools: Sequence[Tool[Any]]) -> bool:
        """Whether it can be held to the parameters of `output` while it may call `tools`."""
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
    STOPPED = "stopped"  # the turn ended before it had an output: a limit, a loop, a hook, the user


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
