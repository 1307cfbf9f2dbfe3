"""How far an agent may go in one turn, and how much of a result it reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from time import monotonic

from ferrule.core.model import Usage
from ferrule.core.phrases import phrase


@dataclass(slots=True, frozen=True)
class AgentLimits:
    """Bounds on one turn; None is no bound.

    `tokens` counts what the model reads and writes, `cost` is in US dollars, `seconds` is the time of the whole turn
    with its calls. `result_chars` bounds each result as the model reads it. `context_tokens` is taken for the size of
    a model's context where the model does not know it.
    """

    steps: int | None = 100
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    result_chars: int = 40_000
    context_tokens: int = 100_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"AgentLimits: {one.name} must be a number above 0, not {value!r}.")


# What a turn has used so far, against what it may use. A sub-agent's use counts for whoever started it too.


class Meter:
    """Counts the steps, tokens and money of one turn."""

    def __init__(self, limits: AgentLimits, above: Meter | None = None) -> None:
        self._limits = limits
        self._above = above
        self._began = monotonic()
        self.steps = 0
        self.usage = Usage()

    def add(self, usage: Usage) -> None:
        """Count an answer."""
        self.usage += usage
        if self._above is not None:
            self._above.add(usage)

    @property
    def seconds_left(self) -> float | None:
        """How long the turn may still go on; None for as long as it likes."""
        limit = self._limits.seconds
        return None if limit is None else max(0.0, self._began + limit - monotonic())

    def problem(self) -> tuple[str, str] | None:
        """Which limit is reached, and what the person can do; None while the turn may go on."""
        limits, used = self._limits, self.usage
        tokens = used.input_tokens + used.output_tokens
        if limits.steps is not None and self.steps >= limits.steps:
            return _steps(limits.steps), _go_on("--max-steps")
        if limits.tokens is not None and tokens >= limits.tokens:
            count, most = f"{tokens:,}", f"{limits.tokens:,}"
            said = phrase("The turn used {count} tokens; its limit is {most}.", count=count, most=most)
            return said, _go_on("--max-tokens")
        if limits.cost is not None and used.cost is not None and used.cost >= limits.cost:
            cost, most = f"{used.cost:.4f}", f"{limits.cost:.4f}"
            said = phrase("The turn cost ${cost}; its limit is ${most}.", cost=cost, most=most)
            return said, _go_on("--max-cost")
        if (left := self.seconds_left) is not None and left <= 0:
            return self.out_of_time
        return self._above.problem() if self._above is not None else None

    @property
    def out_of_time(self) -> tuple[str, str]:
        seconds = f"{self._limits.seconds or 0:g}"
        return phrase("The turn took {seconds} s, which is its limit.", seconds=seconds), _go_on("--timeout")


def _steps(most: int) -> str:
    if most == 1:
        return phrase("The turn had 1 step, which is its limit.")
    return phrase("The turn had {count} steps, which is its limit.", count=f"{most:,}")


def _go_on(option: str) -> str:
    return phrase("Nothing is lost: say how to go on, or raise the limit ({option}).", option=option)
