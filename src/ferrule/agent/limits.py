"""The bounds of a turn, and what it has used so far. What a sub-agent uses counts for the turns above it too."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ferrule.core.context import runtime_of
from ferrule.core.model import ModelError, ModelFault, Usage
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from ferrule.agent.agent_events import Limit, WaitingCall
    from ferrule.agent.conversation import Conversation
    from ferrule.core.context import ToolContext
    from ferrule.core.model import Model
    from ferrule.pipeline.run import Runtime


@dataclass(slots=True, frozen=True)
class AgentLimits:
    """Bounds on one turn, its sub-agents included; None is no bound.

    `tokens` counts what the model reads and writes, `cost` is in US dollars, `seconds` is the time of the whole turn
    with its calls. `steps` counts the agent's own answers, not those of its sub-agents. `result_chars` bounds each
    result as the model reads it. `context_tokens` is taken for the size of a model's context where the model does not
    know it. A limit is checked before each request, so the last answer may exceed it. With a limit of tokens or cost,
    the first request of each sub-agent tool is alone, because what it takes is not known yet, and near the limit they
    ask one after the other.

    A turn ends as `loop` when the same call came to the same result `repeats` times, with nothing changed in between,
    and fails when the model gave no valid output in `output_attempts` attempts.
    """

    steps: int | None = 100
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    result_chars: int = 40_000
    context_tokens: int = 100_000
    repeats: int | None = 5
    output_attempts: int | None = 3

    def __post_init__(self) -> None:
        for one in fields(self):
            _require_above_0("AgentLimits", one.name, getattr(self, one.name))


GO_ON = phrase("Nothing is lost: say how to continue, or raise the limit.")


class Reached(NamedTuple):
    """Why a turn may not go on, what the user can do, and which limit it reached, if it did."""

    problem: str
    suggestion: str
    limit: Limit


_SPREAD = 4
"""How many times larger than the first answer the next may be; the more there were, the less they surprise."""
_admitting = Lock()  # sub-agents may work on other loops, in other threads


class Meter:
    """Counts the steps, tokens and money of one turn, and has the meters above it count them too.

    Use `async with meter.request(kind)` around a request to the model. It waits as long as the requests under way could
    reach a limit of tokens or money, and gives the limit that is reached, if any. What a request may take is known from
    others of its kind: the first of a kind is alone.
    """

    def __init__(self, limits: AgentLimits, *above: Meter | None) -> None:
        self.limits = limits
        self.usage = Usage()
        self.steps = 0
        self._began = monotonic()
        self.under_way: Counter[str] = Counter()
        self._answers: dict[str, tuple[int, int, float]] = {}
        """How many there were of each kind, and the most that one took."""
        self._unpriced = False
        self.waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self.counting: tuple[Meter, ...] = (self,)
        self.bounded = limits.tokens is not None or limits.cost is not None
        for one in above:
            self.include(one)

    def include(self, above: Meter | None) -> None:
        """From now on have another meter count too, and those above it; their limits then hold as well."""
        if above is not None:
            self.counting = tuple(dict.fromkeys((*self.counting, *above.counting)))
            self.bounded = self.bounded or above.bounded

    def add(self, usage: Usage, kind: str = "") -> None:
        """Count an answer."""
        with _admitting:
            for one in self.counting:
                one.count(usage, kind)

    def count(self, usage: Usage, kind: str) -> None:
        """Count an answer here alone."""
        self.usage += usage
        answers, tokens, cost = self._answers.get(kind, (0, 0, 0.0))
        self._answers[kind] = answers + 1, max(tokens, usage.total_tokens), max(cost, usage.cost or 0.0)
        self._unpriced = self._unpriced or (usage.cost is None and usage.total_tokens > 0)

    @property
    def seconds(self) -> float:
        """How long the turn has worked."""
        return monotonic() - self._began

    def restore(self, usage: Usage, steps: int, seconds: float) -> None:
        """Go on from what the turn had used before; the turns above it have counted that already."""
        self.usage, self.steps, self._began = usage, steps, monotonic() - seconds

    @property
    def seconds_left(self) -> float | None:
        """How long the turn may still go on; None for as long as it likes."""
        limit = self.limits.seconds
        return None if limit is None else max(0.0, self._began + limit - monotonic())

    def require_price(self, model: Model) -> None:
        """Raise `ModelError` if the cost of a turn is limited and the model's price is unknown."""
        if any(one.limits.cost is not None for one in self.counting) and not getattr(model, "is_priced", False):
            raise ModelError(
                ModelFault.REFUSED,
                phrase("The price of `{name}` is unknown, so its cost cannot be limited.", name=model.name),
                suggestion=phrase(
                    "Pass its price to `open_model`: price=ModelPrice(input=…, output=…), in US dollars for a million "
                    "tokens. Or limit tokens instead."
                ),
            )

    def problem(self) -> Reached | None:
        """Which limit is reached; None while the turn may go on."""
        return next(filter(None, (one.reached() for one in self.counting)), None)

    def reached(self) -> Reached | None:
        """Which of its own limits is reached."""
        limits, used = self.limits, self.usage
        if limits.steps is not None and self.steps >= limits.steps:
            return Reached(_steps(limits.steps), GO_ON, "steps")
        if limits.tokens is not None and used.total_tokens >= limits.tokens:
            return Reached(self._used_up("tokens", f"{used.total_tokens:,}", f"{limits.tokens:,}"), GO_ON, "tokens")
        if limits.cost is not None and used.cost is not None and used.cost >= limits.cost:
            return Reached(self._used_up("cost", f"{used.cost:.4f}", f"{limits.cost:.4f}"), GO_ON, "cost")
        if limits.cost is not None and self._unpriced:
            said = phrase("An answer came without its cost, so the limit of ${most} cannot hold.", most=limits.cost)
            return Reached(said, phrase("Limit tokens instead, or choose a model whose price is known."), "")
        if (left := self.seconds_left) is not None and left <= 0:
            return self.out_of_time
        return None

    def _used_up(self, limit: Limit, used: str, most: str) -> str:
        if limit == "cost":
            return phrase("The turn cost ${cost}; its limit is ${most}.", cost=used, most=most)
        return phrase("The turn used {count} tokens; its limit is {most}.", count=used, most=most)

    @property
    def out_of_time(self) -> Reached:
        seconds = f"{self.limits.seconds or 0:g}"
        return Reached(phrase("The turn took {seconds} s, which is its limit.", seconds=seconds), GO_ON, "seconds")

    @asynccontextmanager
    async def request(self, kind: str = "") -> AsyncGenerator[Reached | None]:
        """Wait until a request of this kind fits; gives the limit that is reached instead, if one is."""
        if not self.bounded:
            yield self.problem()
            return
        while True:
            with _admitting:
                problem = self.problem()
                full = None if problem else next((one for one in self.counting if not one.has_room(kind)), None)
                if full is None:
                    for one in self.counting:
                        one.under_way[kind] += 1
                    break
                loop = asyncio.get_running_loop()
                full.waiting.append((loop, woken := loop.create_future()))
            await woken
        try:
            yield problem
        finally:
            with _admitting:
                for one in self.counting:
                    one.under_way[kind] -= 1
                    waiting, one.waiting = one.waiting, []
                    for loop, woken in waiting:
                        if not loop.is_closed():
                            loop.call_soon_threadsafe(_wake, woken)

    def has_room(self, kind: str) -> bool:
        """Whether one more request fits beside those under way. A single one always does."""
        limits = self.limits
        requests = [*self.under_way.elements(), kind]
        if len(requests) == 1 or (limits.tokens is None and limits.cost is None):
            return True
        tokens, cost = float(self.usage.total_tokens), self.usage.cost or 0.0
        for one in requests:
            if one not in self._answers:
                return False
            answers, most_tokens, most_cost = self._answers[one]
            times = 1 + _SPREAD / answers
            tokens, cost = tokens + times * most_tokens, cost + times * most_cost
        return (limits.tokens is None or tokens <= limits.tokens) and (limits.cost is None or cost <= limits.cost)


class Budget(Meter):
    """What several agents, or many turns of one, may use together: `tokens` read and written, and `cost` in US dollars.

    Give the same one to each: `Agent(…, budget=budget)`. What their sub-agents use counts too. `usage` is what was used
    so far. Once a bound is reached, turns end as `limit`. As with `AgentLimits`, the last answer may exceed it, and
    near it requests wait for each other.
    """

    def __init__(self, *, tokens: int | None = None, cost: float | None = None) -> None:
        for name, value in (("tokens", tokens), ("cost", cost)):
            _require_above_0("Budget", name, value)
        super().__init__(AgentLimits(steps=None, tokens=tokens, cost=cost))

    def _used_up(self, limit: Limit, used: str, most: str) -> str:
        if limit == "cost":
            return phrase("The budget of ${most} is used up: ${cost} were spent.", cost=used, most=most)
        return phrase("The budget of {most} tokens is used up: {count} were used.", count=used, most=most)


class AnswerCalls(Protocol):
    """The calls of an answer, for the sub-agents among them."""

    ids: set[str]

    def wait_inside(self, call_id: str, waiting: Sequence[WaitingCall]) -> None:
        """A sub-agent's turn waits, and so does the call that it works for."""
        ...


@dataclass(slots=True)
class RunningTurn:
    """A turn, as the tools that run in it know it. `hand_over` has another agent answer after this step."""

    meter: Meter
    runtime: Runtime
    hand_over: Callable[[str, Any], None]
    conversation: Conversation
    calling: AnswerCalls | None = None
    """The calls of its last answer."""
    is_over: bool = False


running: ContextVar[RunningTurn | None] = ContextVar("ferrule.turn", default=None)
"""The turn whose tools, hooks and functions run here."""


def runtime_above(parent: ToolContext) -> Runtime | None:
    """The runtime that a call runs in: that of the turn that made it, or else the one that was called."""
    from ferrule.pipeline.run import Runtime

    turn = running.get()
    found = turn.runtime if turn is not None else runtime_of(parent)
    return found if isinstance(found, Runtime) else None


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _require_above_0(owner: str, name: str, value: object) -> None:
    if value is not None and not (isinstance(value, (int, float)) and 0 < value < float("inf")):
        raise ValueError(f"{owner}: {name} must be a number above 0, not {value!r}.")


def _steps(most: int) -> str:
    if most == 1:
        return phrase("The turn had 1 step, which is its limit.")
    return phrase("The turn had {count} steps, which is its limit.", count=f"{most:,}")
