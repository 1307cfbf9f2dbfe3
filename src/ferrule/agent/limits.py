"""How far an agent may go in one turn, and how much of a result it reads."""

from __future__ import annotations

from dataclasses import dataclass, fields


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
