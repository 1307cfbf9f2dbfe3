"""What the adapters share: tools in a form that every framework takes, calls through the runtime, and approval by a
framework where the runtime has no asker of its own.
"""

from __future__ import annotations

from contextlib import aclosing
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ferrule import Choice, Done, ErrorKind, PartialOutput, Progress, RawCall, Session, StoppedError, ToolError
from ferrule.core.errors import Stage
from ferrule.dialects import Exporter
from ferrule.extension import phrase

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

    from pydantic import ValidationError

    from ferrule import Answer, Pending, Question, Runtime, Tool, ToolResult

    CallEvent = Done | PartialOutput | Pending | Progress | Question

C = TypeVar("C")


class Bridge(Generic[C]):
    """A runtime's tools, and calls of them. `C` is what a framework tells of a run, which chooses the session."""

    def __init__(
        self,
        runtime: Runtime,
        session: Session | Callable[[C], Session] | None,
        dialect: str = "openai-responses",
    ) -> None:
        if not hasattr(runtime, "usable_tools"):
            raise TypeError(f"`runtime` is a Runtime, not {type(runtime).__name__}.")
        if not (session is None or isinstance(session, Session) or callable(session)):
            raise TypeError(f"`session` is a Session, or a function that gives one for a run, not {session!r}.")
        self.runtime = runtime
        self._session = session
        self._exporter = Exporter(dialect)

    def session_of(self, run: C) -> Session:
        """The session in which the calls of a run are made."""
        if self._session is None:
            return self.runtime.session
        return self._session if isinstance(self._session, Session) else self._session(run)

    def definitions(self, session: Session | None = None) -> Iterator[tuple[Tool[Any], dict[str, Any]]]:
        """The tools that a session can use, each with its definition. Where no run has chosen the session yet, all."""
        if session is None and not callable(self._session):
            session = self._session or self.runtime.session
        tools = self.runtime.tools if session is None else self.runtime.usable_tools(session)
        for definition in self._exporter.definitions(tools):
            tool = tools.get(self._exporter.resolve(definition["name"]))
            if tool is not None:
                yield tool, deepcopy(definition)

    def read(self, name: str, arguments: Any, call_id: str | None = None) -> RawCall:
        """A call under the tool's own name."""
        return RawCall(self._exporter.resolve(name), arguments, id=call_id)

    def asking(self, call: RawCall, ask: Callable[[Question], Answer | str] | None) -> Runtime:
        """The runtime, where it has no asker with one that asks through the framework: about this call alone, because
        a framework approves the calls that its model makes, and not those that tools make.
        """
        if ask is None or self.runtime.asker is not None:
            return self.runtime

        def asker(question: Question) -> Answer | str:
            if question.call_id == call.id:
                return ask(question)
            raise _not_run(
                "`{tool}` was not run: {reason}, and approval isn't available here.", question, reason=question.reason
            )

        return self.runtime.with_tools(self.runtime.tools, ask=asker)

    async def run(
        self,
        call: RawCall,
        session: Session,
        *,
        ask: Callable[[Question], Answer | str] | None = None,
        report: Callable[[Progress | PartialOutput], Awaitable[None]] | None = None,
    ) -> ToolResult:
        """Run a call to its result; while it runs, `report` gets what the tool reports."""
        runtime = self.asking(call, ask)
        if report is None:
            return await runtime.run(call, session=session)
        async with aclosing(cast("AsyncGenerator[CallEvent]", runtime.stream(call, session=session))) as events:
            async for event in events:
                if isinstance(event, Done):
                    return event.result
                if isinstance(event, Progress | PartialOutput):
                    await report(event)
        raise AssertionError("a call ended without `Done`")


def _not_run(template: str, question: Question, **values: str) -> StoppedError:
    said = phrase(template, tool=question.invocation.tool.name, **values)
    return StoppedError(Stage.CONFIRM, ErrorKind.PERMISSION, said)


def awaits_approval(question: Question) -> StoppedError:
    """What an asker raises whose answer comes later, when the framework makes the call once more."""
    said = phrase("`{tool}` was not run yet: it waits for approval.", tool=question.invocation.tool.name)
    return StoppedError(Stage.CONFIRM, ErrorKind.PERMISSION, said, display=phrase("it waits for approval"))


def has_run(question: Question) -> StoppedError:
    """What an asker raises where a framework makes an approved call once more, without being asked to."""
    said = phrase("`{tool}` was not run again: it has run with this approval.", tool=question.invocation.tool.name)
    return StoppedError(Stage.CONFIRM, ErrorKind.PERMISSION, said, display=phrase("it has run already"))


def approve(_question: Question) -> Answer | str:
    """The asker of a call that was approved in the framework."""
    return Choice.ONCE


def is_about(answer: Mapping[str, Any], question: Mapping[str, Any]) -> bool:
    """Whether what was approved is what would be done now."""
    return all(answer.get(key) == question[key] for key in ("call_id", "summary", "warning", "preview"))


def invalid_arguments(name: str, error: ValidationError) -> ToolError:
    """What a framework's own check of the arguments found, which its schema could not say."""
    problems = "; ".join(
        f"`{'.'.join(map(str, one['loc'])) or 'arguments'}`: {one['msg']}"
        for one in error.errors(include_url=False, include_context=False, include_input=False)
    )
    said = phrase("The arguments of `{name}` are not valid: {problems}.", name=name, problems=problems)
    return ToolError(said, kind=ErrorKind.VALIDATION)
