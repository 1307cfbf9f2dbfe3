"""Which tools an agent shows: by caller, by permission mode, and step by step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ferrule.core.nearest import nearest
from ferrule.core.phrases import phrase
from ferrule.core.tool import Tool
from ferrule.registry.registry import Filtered, Registry, ToolSource

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from ferrule.core.context import Session
    from ferrule.core.model import Message

    DepsT = DefaultTypeVar("DepsT", default=Any, covariant=True)
else:
    DepsT = TypeVar("DepsT", covariant=True)

Toolset = ToolSource | Iterable[Tool[Any]]


@dataclass(slots=True, frozen=True)
class StepContext(Generic[DepsT]):
    """One step of a turn, before the model is asked: for the function `prepare` of an agent."""

    number: int
    """1 for the first request of the turn."""
    session: Session
    messages: Sequence[Message]
    tools: Sequence[Tool[Any]]
    """Those that the step can show."""
    deps: DepsT
    """What the program passed with the turn."""


Prepare = Callable[[StepContext[DepsT]], Awaitable[Iterable[str | Tool[Any]] | None] | Iterable[str | Tool[Any]] | None]


HistoryProcessor = Callable[[Sequence["Message"]], Awaitable[Iterable["Message"]] | Iterable["Message"]]


async def processed(process: HistoryProcessor, messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages as a function of the program has the model read them; raises `ValueError` if no model could."""
    made = process(messages)
    made = tuple(await made if isinstance(made, Awaitable) else made)
    from ferrule.agent.conversation import well_formed

    if problem := well_formed(made) or ("" if made else phrase("it is empty")):
        name = getattr(process, "__name__", repr(process))
        raise ValueError(f"The history processor `{name}` returned a conversation that no model takes: {problem}.")
    return made


def toolset(tools: Toolset) -> ToolSource:
    """Tools as a source of them."""
    return tools if isinstance(tools, ToolSource) else Registry(tools)


class ShownTools:
    """The tools of an agent as its callers may see them. Views are kept, so that a step costs a lookup."""

    def __init__(self, source: ToolSource, denies: Callable[[Tool[Any]], bool] | None = None) -> None:
        """`denies` says of a tool whether every call of it is denied: a tool that shows others leaves it out."""
        self.source = source
        self._denies = denies
        self._views: dict[tuple[bool, str | None, frozenset[str] | None], ToolSource] = {}

    def seen_by(self, session: Session, mode: str, names: frozenset[str] | None = None) -> ToolSource:
        """Those that the session's caller may use, in plan mode only the ones that read, of these the named ones."""
        plan, role = mode == "plan", session.caller.role
        view = self._views.get((plan, role, names))
        if view is None:
            if names is not None:
                view = Filtered(
                    self.seen_by(session, mode),
                    lambda tool: tool.name in names,
                    phrase("is not available in this step"),
                    lambda tool: True,
                )
            else:
                view = self.source.for_mode(mode) if plan else self.source
                view, denies = view.for_role(role), self._denies
                if denies is not None:
                    view = Filtered(view, lambda tool: True, within=lambda tool: not denies(tool))
            self._views[plan, role, names] = view
        return view

    async def for_step(self, prepare: Prepare[DepsT], step: StepContext[DepsT], mode: str) -> ToolSource:
        """Those that `prepare` chooses of the step's. Raises `ValueError` for a name that no tool has."""
        chosen = prepare(step)
        chosen = await chosen if isinstance(chosen, Awaitable) else chosen
        if chosen is None:
            return self.seen_by(step.session, mode)
        if isinstance(chosen, str) or not isinstance(chosen, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`prepare` returns a list of tools, or None for all of them, not {chosen!r}.")
        names = frozenset(one.name if isinstance(one, Tool) else one for one in chosen)
        known = self.source.known_names()
        if unknown := sorted(names.difference(known)):
            close = nearest(unknown[0], known, most=1)
            meant = f" Did you mean `{close[0]}`?" if close else ""
            raise ValueError(f"`prepare` chose `{unknown[0]}`, which is not a tool of this agent.{meant}")
        return self.seen_by(step.session, mode, names)
