"""Many calls at once: together where they are independent, in the order asked where not (P5); composite tools (P8)."""

from __future__ import annotations

import asyncio
import heapq
import logging
import re
from posixpath import normpath
from typing import TYPE_CHECKING, Any, Protocol, Unpack, cast

from ferrule.core.access import NOTHING, READS_ANYTHING, WRITES_ANYTHING, Touch, Touches
from ferrule.core.call import RawCall, new_call_id
from ferrule.core.errors import DefinitionError, ErrorKind, Stage, StoppedError, ToolError
from ferrule.core.nearest import nearest
from ferrule.core.phrases import phrase
from ferrule.core.result import Output, plainly
from ferrule.core.schemas import schema_at
from ferrule.core.tool import Invocation, Style, Tool, ToolOptions, output_schema_of
from ferrule.pipeline.cleaning import clean_exception
from ferrule.pipeline.stages import attempt
from ferrule.pipeline.validate import as_json, lookup, readable, validate, validate_around

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence

    from pydantic import BaseModel

    from ferrule.core.call import Limits
    from ferrule.core.context import Session, ToolContext
    from ferrule.core.params import Params
    from ferrule.core.problems import PathPart
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.hooks import Hooks
    from ferrule.registry.registry import ToolSource


# Chains (P8): an argument may be another call's result, `{"$ref": "call_1.path[0]"}`.


_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")


class Reference:
    """One reference: where it stands in the arguments, whose result it means, and which part of it."""

    __slots__ = ("path", "place", "source", "text")

    def __init__(self, place: tuple[PathPart, ...], text: str, source: str, path: tuple[PathPart, ...]) -> None:
        self.place = place
        self.text = text
        self.source = source
        self.path = path


def find_references(arguments: Any, known: Iterable[str]) -> list[Reference]:
    """Every reference in the arguments; raises `StoppedError` for one that names no earlier call.

    What looks like a JSON Schema's own `$ref` (`#/…`, a URL) is left alone.
    """
    names = sorted(known, key=len, reverse=True)
    found: list[Reference] = []
    _walk(arguments, (), names, found)
    return found


def _walk(value: Any, place: tuple[PathPart, ...], names: list[str], found: list[Reference]) -> None:
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        target = mapping.get("$ref")
        if len(mapping) == 1 and isinstance(target, str) and "/" not in target and "#" not in target:
            found.append(_read(target, place, names))
            return
        for key, item in mapping.items():
            _walk(item, (*place, key), names, found)
    elif isinstance(value, list):
        for position, item in enumerate(cast("list[Any]", value)):
            _walk(item, (*place, position), names, found)


def _read(text: str, place: tuple[PathPart, ...], names: list[str]) -> Reference:
    for name in names:
        rest = text[len(name) :]
        if text.startswith(name) and (not rest or rest[0] in ".["):
            steps = list(_STEP.finditer(rest))
            if "".join(step[0] for step in steps) != rest:
                raise _broken(text, phrase("`{rest}` is not a path like `.field[0]`", rest=rest))
            path = tuple(step[1] if step[1] is not None else int(step[2]) for step in steps)
            return Reference(place, text, name, path)
    wanted = re.split(r"[.\[]", text, maxsplit=1)[0]
    close = nearest(wanted, names)
    hint = (
        phrase("Did you mean `{other}`?", other=close[0])
        if close
        else phrase("A call can use only the results of calls before it.")
    )
    raise _broken(text, phrase("no earlier call has the id `{wanted}`", wanted=wanted), hint)


def check_against_output(reference: Reference, tool: Tool[Any]) -> None:
    """Stop a reference to a field that the earlier tool's typed result does not have."""
    schema = output_schema_of(tool)
    if schema is None:
        return
    for depth in range(len(reference.path)):
        parent = schema_at(reference.path[:depth], schema)
        part = reference.path[depth]
        properties = parent.get("properties")
        if isinstance(part, str) and properties and part not in properties and not parent.get("additionalProperties"):
            close = nearest(part, properties)
            fields = ", ".join(f"`{name}`" for name in properties)
            hint = (
                phrase("Did you mean `{other}`?", other=close[0])
                if close
                else phrase("It has: {fields}.", fields=fields)
            )
            raise _broken(
                reference.text, phrase("the result of `{name}` has no `{part}`", name=tool.name, part=part), hint
            )
        if parent.get("type") in ("string", "integer", "number", "boolean", "null"):
            raise _broken(
                reference.text,
                phrase("the result of `{name}` is a plain {kind} there", name=tool.name, kind=parent["type"]),
            )


def resolve(arguments: Any, references: Iterable[Reference], values: Mapping[str, Any]) -> Any:
    """The arguments with every reference replaced by what it means."""
    from pydantic_core import to_jsonable_python

    result = arguments
    for reference in references:
        value = to_jsonable_python(values[reference.source], fallback=plainly)
        for part in reference.path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                raise _broken(reference.text, phrase("the result has no `{part}` there", part=part)) from None
        result = _replaced(result, reference.place, value)
    return result


def _replaced(value: Any, place: tuple[PathPart, ...], new: Any) -> Any:
    if not place:
        return new
    copied: Any = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else list(value)
    copied[place[0]] = _replaced(copied[place[0]], place[1:], new)
    return copied


def ambiguous(reference: Reference) -> StoppedError:
    """The early exit of a call that refers to an id which two earlier calls have."""
    return _broken(
        reference.text,
        phrase("two earlier calls have the id `{source}`", source=reference.source),
        phrase("Give every call its own id."),
    )


def _broken(text: str, why: str, hint: str | None = None) -> StoppedError:
    return StoppedError(
        Stage.VALIDATE,
        ErrorKind.VALIDATION,
        phrase('The reference {{"$ref": "{text}"}} cannot be used: {why}.', text=text, why=why),
        hint,
    )


# Which calls of a batch must wait for which: those that touch the same thing, in the order asked (P5).


class _Users:
    """Who touched one resource since its last writer, and that writer."""

    __slots__ = ("readers", "writer")

    def __init__(self) -> None:
        self.writer: int | None = None
        self.readers: list[int] = []


class Schedule:
    """Takes calls in order and tells, for each, the earlier ones it must wait for."""

    def __init__(self) -> None:
        self._barrier: int | None = None  # the last call that may write anything
        self._since: list[int] = []  # every call since then
        self._writers: list[int] = []  # those of them that write something
        self._readers_of_all: list[int] = []  # those of them that may read anything
        self._exact: dict[str, _Users] = {}
        self._below: dict[str, list[str]] = {}  # folder -> touched paths somewhere inside it

    def add(self, call: int, touches: Touches) -> set[int]:
        """The calls that `call` waits for."""
        touches = tuple(Touch(_plain(touch.resource), touch.write) for touch in touches)
        everything = [touch for touch in touches if touch.resource == "*"]
        if any(touch.write for touch in everything):
            waits = {*self._since}
            if self._barrier is not None:
                waits.add(self._barrier)
            self.__init__()
            self._barrier = call
            return waits
        waits = set[int]()
        if self._barrier is not None and touches:
            waits.add(self._barrier)
        if everything:
            waits.update(self._writers)
        writes = False
        for touch in touches:
            if touch.resource != "*":
                writes = writes or touch.write
                waits.update(self._collisions(touch.resource, write=touch.write))
        if writes:
            waits.update(self._readers_of_all)
        waits.discard(call)
        for touch in touches:
            if touch.resource != "*":
                self._enter(call, touch.resource, write=touch.write)
        if touches:
            self._since.append(call)
        if writes:
            self._writers.append(call)
        if everything:
            self._readers_of_all.append(call)
        return waits

    def _collisions(self, resource: str, *, write: bool) -> Iterable[int]:
        for name in (resource, *_ancestors(resource), *self._below.get(resource, ())):
            users = self._exact.get(name)
            if users is None:
                continue
            if users.writer is not None:
                yield users.writer
            if write:
                yield from users.readers

    def _enter(self, call: int, resource: str, *, write: bool) -> None:
        users = self._exact.get(resource)
        if users is None:
            users = self._exact[resource] = _Users()
            for folder in _ancestors(resource):
                self._below.setdefault(folder, []).append(resource)
        if write:
            # The new writer waits for these readers, so whoever waits for it waits for them too.
            users.writer, users.readers = call, []
        else:
            users.readers.append(call)


def _plain(resource: str) -> str:
    """One name for each path, however it is written: `/a//b/./c/` is `/a/b/c`."""
    if not resource.startswith("path:"):
        return resource
    name = normpath(resource.removeprefix("path:"))
    return f"path:/{name.lstrip('/')}" if name.startswith("/") else f"path:{name}"


def _ancestors(resource: str) -> list[str]:
    """The folders a path lies in, nearest first; nothing for what is not a path."""
    if not resource.startswith("path:"):
        return []
    folders: list[str] = []
    end = len(resource)
    while (end := resource.rfind("/", 0, end)) > len("path:"):
        folders.append(resource[:end])
    if resource.startswith("path:/") and resource != "path:/":
        folders.append("path:/")
    return folders


def schedule(touches: Sequence[Touches]) -> list[set[int]]:
    """For each of many calls, the earlier ones it waits for."""
    plan = Schedule()
    return [plan.add(call, touched) for call, touched in enumerate(touches)]


logger = logging.getLogger("ferrule.calls")


class _Chained:
    """Arguments that wait for the results of earlier calls, checked as far as they are known."""

    __slots__ = ("arguments",)

    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments


class _Planned:
    """A call of the batch, looked at before anything runs.

    `ahead` is what was found: a sound call, one that waits for others' results, or why it stops. Where planning itself
    failed it is the call as it came in, for the stages to find out.
    """

    __slots__ = ("ahead", "call", "references", "tool", "touches")

    def __init__(self, call: RawCall) -> None:
        self.call = call
        self.tool: Tool[Any] | None = None
        self.ahead: Invocation | _Chained | StoppedError | RawCall = call
        self.references: Sequence[Reference] = ()
        self.touches: Touches = NOTHING


class CallRunner(Protocol):
    """What runs the single calls of a batch: a runtime."""

    tools: ToolSource
    limits: Limits
    hooks: Hooks

    def build(self, call: RawCall) -> Invocation: ...

    def run(
        self, call: RawCall, *, session: Session, parent: ToolContext | None
    ) -> Coroutine[Any, Any, ToolResult]: ...

    def execute(
        self, invocation: Invocation, *, call: RawCall, session: Session, parent: ToolContext | None
    ) -> Coroutine[Any, Any, ToolResult]: ...

    def refuse(
        self, call: RawCall, why: StoppedError, *, session: Session, parent: ToolContext | None
    ) -> Coroutine[Any, Any, ToolResult]: ...


async def run_batch(
    runtime: CallRunner,
    calls: Sequence[RawCall],
    session: Session,
    parent: ToolContext | None,
    given: Mapping[str, Any],
    concurrency: int | None,
) -> list[ToolResult]:
    """Plan every call before anything runs, then run them as their touches and references allow."""
    schedule = Schedule()
    planned: list[_Planned] = []
    waits: list[set[int]] = []
    by_id: dict[str, int] = {}
    doubled: set[str] = set()
    if isinstance(calls, (RawCall, str)):
        raise TypeError("Calls come in a list, also where there is one: write [RawCall(…)].")
    _keep_apart(calls)
    for position, call in enumerate(calls):
        if not isinstance(call, RawCall):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise TypeError(f"A batch takes calls, not {call!r}. Write RawCall(name, arguments).")
        plan = _plan(runtime, call, session, planned, by_id, given)
        planned.append(plan)
        for reference in plan.references:
            if reference.source in doubled:
                plan.ahead, plan.references, plan.touches = ambiguous(reference), (), NOTHING
                break
        waiting = schedule.add(position, plan.touches)
        if plan.references:
            waiting.update(by_id[reference.source] for reference in plan.references if reference.source in by_id)
        waits.append(waiting)
        if call.id in by_id:
            doubled.add(call.id)
        by_id[call.id] = position
    limit = concurrency or runtime.limits.concurrency
    return await _Run(runtime, planned, waits, by_id, session, parent, given, max(1, limit)).finish()


def _keep_apart(calls: Sequence[RawCall]) -> None:
    """An id that was made up gives way to one that was given, so that a reference means what it says."""
    given = {call.id for call in calls if getattr(call, "has_own_id", False)}
    for call in calls:
        while not getattr(call, "has_own_id", True) and call.id in given:
            call.id = new_call_id()


def _plan(
    runtime: CallRunner,
    call: RawCall,
    session: Session,
    earlier: list[_Planned],
    by_id: Mapping[str, int],
    given: Mapping[str, Any],
) -> _Planned:
    plan = _Planned(call)
    try:
        ahead = attempt(_look_ahead, runtime, plan, session, earlier, by_id, given)
    except Exception:
        # What breaks here breaks again when the call is run, and becomes its result; the others go on.
        logger.exception("Call %s of %s could not be planned", call.id, call.name)
        plan.touches = WRITES_ANYTHING
        return plan
    plan.ahead = ahead
    if isinstance(ahead, StoppedError):
        # An earlier call may yet bring the tool, or what its own check asks for; so this one keeps its turn.
        if plan.tool is None:
            plan.touches = READS_ANYTHING
        elif plan.tool.has_check:
            plan.touches = WRITES_ANYTHING
    return plan


def _look_ahead(
    runtime: CallRunner,
    plan: _Planned,
    session: Session,
    earlier: list[_Planned],
    by_id: Mapping[str, int],
    given: Mapping[str, Any],
) -> Invocation | _Chained:
    call = plan.call
    tool = plan.tool = lookup(runtime.tools, call)
    if _may_refer(call):
        is_text = isinstance(call.arguments, (str, bytes))
        arguments = readable(call.arguments if is_text else as_json(tool, call.arguments))
        if references := find_references(arguments, [*by_id, *given]):
            for reference in references:
                source = earlier[by_id[reference.source]].tool if reference.source in by_id else None
                if source is not None:
                    check_against_output(reference, source)
            places = [reference.place for reference in references]
            arguments = validate_around(tool, arguments, places, runtime.limits)
            # What it touches is known only with its arguments; until then it may be anything its kind allows.
            only_reads = tool.read_only and tool.concurrency_safe
            plan.touches = READS_ANYTHING if only_reads else WRITES_ANYTHING
            plan.references = references
            return _Chained(arguments)
    invocation = validate(tool, call, runtime.limits)
    plan.touches = _touches(invocation, session, runtime)
    return invocation


def _may_refer(call: RawCall) -> bool:
    """Whether the arguments may hold a reference; a `$` may also be written as an escape."""
    arguments = call.arguments
    if isinstance(arguments, str):
        return "ref" in arguments and ("$" in arguments or "\\u" in arguments)
    if isinstance(arguments, bytes):
        return b"ref" in arguments and (b"$" in arguments or b"\\u" in arguments)
    return "$ref" in repr(arguments) if arguments else False


def _touches(invocation: Invocation, session: Session, runtime: CallRunner) -> Touches:
    invocation.session = session
    try:
        if invocation.runs_alone:
            return WRITES_ANYTHING
        if runtime.hooks.may_change(invocation.tool.name):
            return READS_ANYTHING if invocation.tool.read_only else WRITES_ANYTHING
        touches = invocation.touches
    except Exception:
        logger.exception("Tool %s could not say what it touches", invocation.tool.name)
        touches = WRITES_ANYTHING
    return touches


class _Run:
    """A batch while it runs."""

    def __init__(
        self,
        runtime: CallRunner,
        planned: list[_Planned],
        waits: list[set[int]],
        by_id: Mapping[str, int],
        session: Session,
        parent: ToolContext | None,
        given: Mapping[str, Any],
        limit: int,
    ) -> None:
        self._runtime = runtime
        self._planned = planned
        self._by_id = by_id
        self._session = session
        self._parent = parent
        self._given = given
        self._limit = limit
        self._results: list[ToolResult | None] = [None] * len(planned)
        self._missing = [len(waiting) for waiting in waits]
        self._waited = [bool(waiting) for waiting in waits]
        self._followers: list[list[int]] = [[] for _ in planned]
        for position, waiting in enumerate(waits):
            for other in waiting:
                self._followers[other].append(position)
        self._ready = [position for position, count in enumerate(self._missing) if not count]
        self._running: dict[asyncio.Task[None], int] = {}
        self._begun = set[int]()
        self._left = len(planned)
        self._failure: BaseException | None = None
        self._all_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def finish(self) -> list[ToolResult]:
        if not self._planned:
            return []
        self._start_ready()
        for position in self._ready:  # kept back by the limit alone
            self._waited[position] = True
        try:
            await self._all_done
        except asyncio.CancelledError:
            await self._cancel()
            raise
        if self._failure is not None:
            raise self._failure
        return [result for result in self._results if result is not None]

    def _start_ready(self) -> None:
        loop = asyncio.get_running_loop()
        while self._ready and len(self._running) < self._limit:
            position = heapq.heappop(self._ready)
            task = loop.create_task(self._one(position))
            self._running[task] = position
            task.add_done_callback(self._ended)

    async def _one(self, position: int) -> None:
        self._begun.add(position)
        plan = self._planned[position]
        call, ahead = plan.call, plan.ahead
        if isinstance(ahead, _Chained):
            call, ahead = self._resolved(call, ahead.arguments, plan.references)
        elif self._waited[position]:
            ahead = call  # what ran before may have changed what there is to call: look again, as in turn
        runtime, session, parent = self._runtime, self._session, self._parent
        if isinstance(ahead, RawCall):
            result = await runtime.run(call, session=session, parent=parent)
        elif isinstance(ahead, StoppedError):
            result = await runtime.refuse(call, ahead, session=session, parent=parent)
        else:
            result = await runtime.execute(ahead, call=call, session=session, parent=parent)
        self._results[position] = result

    def _resolved(
        self, call: RawCall, known: Any, references: Sequence[Reference]
    ) -> tuple[RawCall, Invocation | StoppedError]:
        """A chained call once the results it uses are there, with the arguments it really runs with."""
        values = dict(self._given)
        for reference in references:
            if reference.source not in self._by_id:
                continue
            result = self._results[self._by_id[reference.source]]
            if result is None or not result.success:
                return call, StoppedError(
                    Stage.VALIDATE,
                    ErrorKind.VALIDATION,
                    phrase(
                        "`{name}` was not run: it uses the result of `{source}`, which failed.",
                        name=call.name,
                        source=reference.source,
                    ),
                    phrase("Fix that call first, then make both calls again."),
                )
            values[reference.source] = result.data
        try:
            arguments = attempt(resolve, known, references, values)
            if isinstance(arguments, StoppedError):
                return call, arguments
            call = RawCall(call.name, arguments, id=call.id, version=call.version)
            return call, attempt(self._runtime.build, call)
        except Exception as error:
            logger.exception("Call %s of %s could not be given its arguments", call.id, call.name)
            return call, StoppedError(
                Stage.VALIDATE,
                ErrorKind.VALIDATION,
                phrase(
                    "`{name}` was not run: a result it uses cannot be an argument. {error}",
                    name=call.name,
                    error=clean_exception(error),
                ),
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        position = self._running.pop(task)
        if task.cancelled():
            self._failure = self._failure or asyncio.CancelledError()
        elif (error := task.exception()) is not None:
            self._failure = self._failure or error
        self._left -= 1
        for follower in self._followers[position]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                heapq.heappush(self._ready, follower)
        if self._left == 0:
            if not self._all_done.done():
                self._all_done.set_result(None)
        elif not self._all_done.done():
            self._start_ready()

    async def _cancel(self) -> None:
        """Stop what runs, and record what never started: every call leaves its record."""
        running = list(self._running)
        for task in running:
            task.cancel()
        # First those that never began, in one step: a second cancelling must not lose them.
        never_began = [
            asyncio.ensure_future(self._never(plan.call))
            for position, plan in enumerate(self._planned)
            if position not in self._begun
        ]
        waiting = [*running, *never_began]
        while pending := [task for task in waiting if not task.done()]:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError:
                continue  # cancelled already; each call ends within its grace, and leaves its record

    async def _never(self, call: RawCall) -> None:
        never = StoppedError(
            Stage.LOOKUP, ErrorKind.CANCELLED, phrase("`{name}` was cancelled before it ran.", name=call.name)
        )
        await self._runtime.refuse(call, never, session=self._session, parent=self._parent)


# Composite tools (P8): several calls behind one name, each of them looked up, authorised and recorded as ever.


INPUT = "input"


class CompositeTool(Tool[Any]):
    """Runs its steps as one batch. A step's arguments may use the tool's own (`input`) and earlier steps' results."""

    def __init__(
        self,
        name: str,
        steps: Sequence[tuple[str, str, Mapping[str, Any]]],
        params: type[BaseModel],
        **options: Unpack[ToolOptions],
    ) -> None:
        if not steps:
            raise DefinitionError(f"`{name}` has no steps.")
        ids = [step[0] for step in steps]
        if len(set(ids)) < len(ids) or INPUT in ids:
            raise DefinitionError(f"`{name}`: every step needs a name of its own, other than `{INPUT}`.")
        self.steps = tuple(steps)
        self._model = params
        self._settle(name, {"may_block": False, **options}, Style.ASYNC)

    def _compile(self) -> Params[Any]:
        from ferrule.core.params import ModelParams

        return ModelParams(self._model)

    async def run(self, params: Any, context: ToolContext) -> Any:
        """The last step's data; the first step that fails ends the whole, and says which it was."""
        arguments = cast("BaseModel", params).model_dump(mode="json", by_alias=True)
        prefix = context.call_id
        names = {step: f"{prefix}_{step}" for step, _, _ in self.steps}
        calls = [RawCall(tool, _renamed(given, names), id=names[step]) for step, tool, given in self.steps]
        results = await context.batch(calls, given={INPUT: arguments})
        for (step, tool, _), result in zip(self.steps, results, strict=True):
            if result.error is not None:
                raise ToolError(
                    f"Step `{step}` ({tool}) failed: {result.error.message}",
                    kind=result.error.kind,
                    suggestion=result.error.suggestion,
                )
        last = results[-1]
        return Output(last.data, last.llm_content, last.display_content, last.attachments)


def composite(
    name: str,
    *,
    steps: Sequence[tuple[str, str, Mapping[str, Any]]],
    params: type[BaseModel],
    **options: Unpack[ToolOptions],
) -> CompositeTool:
    """Make one tool of several: each step is `(step name, tool, arguments)`.

    Arguments may hold `{"$ref": "input.city"}` and `{"$ref": "find.items[0].id"}`, where `find` is an earlier step.
    Steps that touch different things run together.
    """
    return CompositeTool(name, steps, params, **options)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """References to steps, as references to this run's calls."""
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        target = mapping.get("$ref")
        if len(mapping) == 1 and isinstance(target, str):
            for step, call in names.items():
                rest = target[len(step) :]
                if target.startswith(step) and (not rest or rest[0] in ".["):
                    return {"$ref": call + rest}
        return {key: _renamed(item, names) for key, item in mapping.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in cast("list[Any]", value)]
    return value
