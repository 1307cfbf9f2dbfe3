"""Many calls: in parallel where they are independent, otherwise in the order given (P5). Composite tools (P8).

`run_batch` first plans every call: looks it up, validates it, and finds which earlier calls it must wait for, because
of what they touch (`Schedule`) or because it uses their results (`Reference`). Then each call runs as soon as it can.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
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
from ferrule.pipeline.validate import lookup, read_values, validate, validate_around

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Coroutine, Iterable, Sequence

    from pydantic import BaseModel

    from ferrule.core.call import Limits
    from ferrule.core.context import Session, ToolContext
    from ferrule.core.params import Params
    from ferrule.core.problems import PathPart
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.confirm import CallKeeper
    from ferrule.pipeline.hooks import Hooks
    from ferrule.registry.registry import ToolSource

    Result = Coroutine[Any, Any, ToolResult]


# References (P8): an argument may be an earlier call's result, `{"$ref": "call_1.path[0]"}`.


_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,15})\]")
_STEP_BEGINS = re.compile(r"[.\[]")
_LONGEST_REFERENCE, _MOST_COMPARED = 10_000, 500


@dataclass(slots=True, frozen=True)
class Reference:
    """A reference: its place in the arguments, the call whose result it means, and which part of the result."""

    place: tuple[PathPart, ...]
    text: str
    source: str
    path: tuple[PathPart, ...]


def find_references(arguments: Any, known: Collection[str]) -> list[Reference]:
    """Every reference in the arguments; raises `StoppedError` for one that names no earlier call.

    A JSON Schema's own `$ref` (`#/…`, a URL) is not a reference. What this takes does not grow with what is `known`.
    """
    found: list[Reference] = []
    _walk(arguments, (), known, found)
    return found


def _walk(value: Any, place: tuple[PathPart, ...], known: Collection[str], found: list[Reference]) -> None:
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        target = mapping.get("$ref")
        if len(mapping) == 1 and isinstance(target, str) and (reference := _read(target, place, known)) is not None:
            found.append(reference)
            return
        for key, item in mapping.items():
            _walk(item, (*place, key), known, found)
    elif isinstance(value, list):
        for position, item in enumerate(cast("list[Any]", value)):
            _walk(item, (*place, position), known, found)


def _split(text: str, known: Container[str]) -> tuple[str, str] | None:
    """The longest known name that a reference begins with, and the path behind it."""
    ends = [len(text), *(step.start() for step in _STEP_BEGINS.finditer(text, 0, _LONGEST_REFERENCE))]
    return next(((text[:end], text[end:]) for end in sorted(ends, reverse=True) if text[:end] in known), None)


def _read(text: str, place: tuple[PathPart, ...], known: Collection[str]) -> Reference | None:
    if (split := _split(text, known)) is not None:
        name, rest = split
        steps = list(_STEP.finditer(rest))
        if "".join(step[0] for step in steps) != rest:
            raise _broken(text, phrase("`{rest}` is not a path like `.field[0]`", rest=rest))
        path = tuple(step[1] if step[1] is not None else int(step[2]) for step in steps)
        return Reference(place, text, name, path)
    if "/" in text or "#" in text:
        return None
    wanted = re.split(r"[.\[]", text, maxsplit=1)[0]
    close = nearest(wanted, islice(known, _MOST_COMPARED))
    hint = (
        phrase("Did you mean `{other}`?", other=close[0])
        if close
        else phrase("A call can use only the results of calls before it.")
    )
    raise _broken(text, phrase("no earlier call has the id `{wanted}`", wanted=wanted), hint)


def check_against_output(reference: Reference, tool: Tool[Any]) -> None:
    """Raise `StoppedError` for a reference to a field that the earlier tool's typed result does not have."""
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
    """The arguments with every reference replaced by its value."""
    from pydantic_core import to_jsonable_python

    result = arguments
    for reference in references:
        value = to_jsonable_python(values[reference.source], fallback=plainly)
        for part in reference.path:
            if isinstance(value, str):
                raise _broken(reference.text, phrase("the result is a plain {kind} there", kind="string"))
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


def _broken(text: str, why: str, hint: str | None = None) -> StoppedError:
    return StoppedError(
        Stage.VALIDATE,
        ErrorKind.VALIDATION,
        phrase('The reference {{"$ref": "{text}"}} cannot be used: {why}.', text=text, why=why),
        hint,
    )


# Which calls of a batch must wait for earlier ones, because they touch the same thing (P5).


@dataclass(slots=True)
class _Users:
    """The last call that writes a resource, and those that read it since."""

    writer: int | None = None
    readers: list[int] = field(default_factory=list[int])


class Schedule:
    """Takes calls in order, and finds for each the earlier ones that it must wait for."""

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
            # The new writer waits for these readers, and later calls wait for the writer.
            users.writer, users.readers = call, []
        else:
            users.readers.append(call)


def _plain(resource: str) -> str:
    """One spelling for each path: `/a//b/./c/` is `/a/b/c`."""
    if not resource.startswith("path:"):
        return resource
    name = normpath(resource.removeprefix("path:"))
    return f"path:/{name.lstrip('/')}" if name.startswith("/") else f"path:{name}"


def _ancestors(resource: str) -> list[str]:
    """The folders that a path lies in, nearest first; none for other resources."""
    if not resource.startswith("path:"):
        return []
    folders: list[str] = []
    end = len(resource)
    while (end := resource.rfind("/", 0, end)) > len("path:"):
        folders.append(resource[:end])
    if resource.startswith("path:/") and resource != "path:/":
        folders.append("path:/")
    return folders


logger = logging.getLogger("ferrule.calls")


@dataclass(slots=True)
class _Planned:
    """A call of the batch, and what was found out about it before anything runs."""

    call: RawCall
    ahead: Invocation | StoppedError | RawCall
    """The validated call, or why it cannot run. The call itself if only running it can tell."""
    tool: Tool[Any] | None = None
    references: Sequence[Reference] = ()
    arguments: Any = None
    """The arguments of a call with references, checked except for those."""
    touches: Touches = NOTHING
    repairs: list[str] = field(default_factory=list[str])
    """What was repaired in the arguments of a call with references."""


class CallRunner(Protocol):
    """What runs the single calls of a batch: a runtime, whose module imports this one."""

    tools: ToolSource
    limits: Limits
    repair: bool
    hooks: Hooks
    keeper: CallKeeper | None

    def build(self, call: RawCall) -> Invocation: ...
    def run(self, call: RawCall, *, session: Session, parent: ToolContext | None) -> Result: ...
    def execute(
        self, invocation: Invocation, *, call: RawCall, session: Session, parent: ToolContext | None
    ) -> Result: ...
    def refuse(self, call: RawCall, why: StoppedError, *, session: Session, parent: ToolContext | None) -> Result: ...


async def run_batch(
    runtime: CallRunner,
    calls: Sequence[RawCall | Mapping[str, Any]],
    session: Session,
    parent: ToolContext | None,
    given: Mapping[str, Any],
    concurrency: int | None,
) -> list[ToolResult]:
    """Plan every call, then run them as their touches and references allow."""
    if isinstance(calls, (RawCall, str, Mapping)):
        raise TypeError("Calls come in a list, even a single one: write [RawCall(…)].")
    listed = as_calls("batch", calls)
    # A generated id must not equal a given one, or a reference could mean the wrong call.
    own_ids = {call.id for call in listed if call.has_own_id}
    for call in listed:
        while not call.has_own_id and call.id in own_ids:
            call.id = new_call_id()
    batch = _Batch(runtime, session, parent, given, max(1, concurrency or runtime.limits.concurrency))
    batch.plan(listed)
    return await batch.run()


def as_calls(what: str, given: Iterable[RawCall | Mapping[str, Any]]) -> list[RawCall]:
    """Calls as they are, and those in a provider's form read; raises `TypeError` for anything else."""
    calls: list[RawCall] = []
    for call in given:
        if isinstance(call, RawCall):
            calls.append(call)
        elif isinstance(call, Mapping) or hasattr(call, "model_dump"):  # pyright: ignore[reportUnnecessaryIsInstance]
            from ferrule.dialects.dialect import read_call

            calls.append(read_call(call))
        else:
            raise TypeError(f"A {what} takes calls, not {call!r}. Write RawCall(name, arguments).")
    return calls


def may_refer(call: RawCall) -> bool:
    """Whether the arguments may hold a reference; JSON may also write the `$` as an escape."""
    arguments = call.arguments
    if isinstance(arguments, str):
        return "ref" in arguments and ("$" in arguments or "\\u" in arguments)
    if isinstance(arguments, bytes):
        return b"ref" in arguments and (b"$" in arguments or b"\\u" in arguments)
    return bool(arguments) and "$ref" in repr(arguments)


class _Batch:
    """The calls of one batch: planned in order, then each run once those that it waits for have ended."""

    def __init__(
        self, runtime: CallRunner, session: Session, parent: ToolContext | None, given: Mapping[str, Any], limit: int
    ) -> None:
        self._runtime = runtime
        self._session = session
        self._parent = parent
        self._given = given
        self._limit = limit
        self._planned: list[_Planned] = []
        self._by_id: dict[str, int] = {}
        self._known = dict.fromkeys(given)
        """The names that a reference may begin with."""
        self._missing: list[int] = []
        """How many calls each still waits for."""
        self._followers: dict[int, list[int]] = {}
        """The calls that wait for one."""
        self._ready: list[int] = []
        self._late = set[int]()
        """Calls that wait for others, and are looked up again when their turn comes."""
        self._running: dict[asyncio.Task[None], int] = {}
        self._begun = set[int]()
        self._results: dict[int, ToolResult] = {}
        self._after: dict[int, set[int]] = {}
        """The calls that one comes after, where some may wait for something outside the batch."""
        self._failure: BaseException | None = None
        self._all_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # Planning

    def plan(self, calls: Sequence[RawCall]) -> None:
        schedule, doubled = Schedule(), set[str]()
        for position, call in enumerate(calls):
            plan = self._plan(call)
            for reference in plan.references:
                if (source := reference.source) in doubled:
                    why = phrase("two earlier calls have the id `{source}`", source=source)
                    plan.ahead = _broken(reference.text, why, phrase("Give every call its own id."))
                    plan.references, plan.touches = (), NOTHING
                    break
            waits = schedule.add(position, plan.touches)
            waits.update(self._by_id[one.source] for one in plan.references if one.source in self._by_id)
            self._missing.append(len(waits))
            if waits and self._runtime.keeper is not None:
                self._after[position] = waits
            for earlier in waits:
                self._followers.setdefault(earlier, []).append(position)
            if waits:
                self._late.add(position)
            else:
                self._ready.append(position)
            self._planned.append(plan)
            if call.id in self._by_id:
                doubled.add(call.id)
            self._by_id[call.id] = position
            self._known[call.id] = None

    def _plan(self, call: RawCall) -> _Planned:
        plan = _Planned(call, call)
        try:
            plan.ahead = self._look_ahead(plan)
        except StoppedError as stopped:
            plan.ahead = stopped
            # An earlier call may still add the tool, or make its check pass, so this one must wait for its turn.
            if plan.tool is None:
                plan.touches = READS_ANYTHING
            elif plan.tool.has_check:
                plan.touches = WRITES_ANYTHING
        except KeyboardInterrupt:
            raise
        except BaseException:
            # It will fail again when the call is run, and become its result. The others continue.
            logger.exception("Call %s of %s could not be planned", call.id, call.name)
            plan.touches = WRITES_ANYTHING
        return plan

    def _look_ahead(self, plan: _Planned) -> Invocation | RawCall:
        call, runtime = plan.call, self._runtime
        tool = plan.tool = lookup(runtime.tools, call)
        if may_refer(call):
            arguments = read_values(tool, call, runtime.limits, plan.repairs, repairs=runtime.repair)
            if references := find_references(arguments, self._known):
                for reference in references:
                    at = self._by_id.get(reference.source)
                    source = self._planned[at].tool if at is not None else None
                    if source is not None:
                        check_against_output(reference, source)
                places = [reference.place for reference in references]
                plan.arguments = validate_around(
                    tool, arguments, places, runtime.limits, plan.repairs, repairs=runtime.repair
                )
                # What it touches is not known without its arguments, so it may be anything that its kind allows.
                only_reads = tool.read_only and tool.concurrency_safe
                plan.touches = READS_ANYTHING if only_reads else WRITES_ANYTHING
                plan.references = references
                return call
        invocation = validate(tool, call, runtime.limits, repairs=runtime.repair)
        invocation.session = self._session
        try:
            if invocation.runs_alone:
                plan.touches = WRITES_ANYTHING
            elif runtime.hooks.may_change(tool.name):
                plan.touches = READS_ANYTHING if tool.read_only else WRITES_ANYTHING
            else:
                plan.touches = invocation.touches
        except KeyboardInterrupt:
            raise
        except BaseException:
            logger.exception("Tool %s could not say what it touches", tool.name)
            plan.touches = WRITES_ANYTHING
        return invocation

    # Running

    async def run(self) -> list[ToolResult]:
        if not self._planned:
            return []
        self._start_ready()
        self._late.update(self._ready)  # these wait only because of the limit
        try:
            await self._all_done
        except asyncio.CancelledError:
            await self._cancel()
            raise
        if self._failure is not None:
            raise self._failure
        return [self._results[position] for position in range(len(self._planned))]

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
        if plan.references:
            call, ahead = self._resolved(plan)
        elif position in self._late:
            ahead = call  # earlier calls may have changed the tools, so look it up again
        runtime, session, parent = self._runtime, self._session, self._parent
        if (behind := self._behind(position)) is not None:
            if runtime.keeper is not None:
                runtime.keeper.hold(call.id, behind)
            if plan.references or isinstance(plan.ahead, StoppedError) or runtime.keeper is None:
                ahead = behind  # otherwise it may ask for its approval meanwhile
        if isinstance(ahead, RawCall):
            result = await runtime.run(call, session=session, parent=parent)
        elif isinstance(ahead, StoppedError):
            result = await runtime.refuse(call, ahead, session=session, parent=parent)
        else:
            result = await runtime.execute(ahead, call=call, session=session, parent=parent)
        self._results[position] = result

    def _behind(self, position: int) -> StoppedError | None:
        """Why a call cannot run yet: one that it comes after waits for an approval or a result."""
        keeper = self._runtime.keeper
        for earlier in sorted(self._after.get(position, ())):
            result, call = self._results.get(earlier), self._planned[earlier].call
            deferred = result is not None and result.error is not None and result.error.kind is ErrorKind.DEFERRED
            if deferred or (keeper is not None and keeper.is_waiting(call.id)):
                said = phrase(
                    "`{name}` has not run yet: it comes after `{other}`, which waits.",
                    name=self._planned[position].call.name,
                    other=call.name,
                )
                return StoppedError(Stage.EXECUTE, ErrorKind.DEFERRED, said)
        return None

    def _resolved(self, plan: _Planned) -> tuple[RawCall, Invocation | StoppedError]:
        """A call with references, now that the results are there: with its final arguments, validated."""
        call, values = plan.call, dict(self._given)
        for reference in plan.references:
            at = self._by_id.get(reference.source)
            if at is None:
                if isinstance(why := values.get(reference.source), StoppedError):
                    return call, why
                continue
            result = self._results.get(at)
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
            arguments = resolve(plan.arguments, plan.references, values)
            call = RawCall(call.name, arguments, id=call.id, version=call.version)
            invocation = self._runtime.build(call)
        except StoppedError as stopped:
            return call, stopped
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
        invocation.repairs = (*plan.repairs, *invocation.repairs)
        return call, invocation

    def _ended(self, task: asyncio.Task[None]) -> None:
        for position in self._followers.pop(self._running.pop(task), ()):
            self._missing[position] -= 1
            if not self._missing[position]:
                heapq.heappush(self._ready, position)
        if task.cancelled():
            self._failure = self._failure or asyncio.CancelledError()
        elif (error := task.exception()) is not None:
            self._failure = self._failure or error
        if self._all_done.done():
            return
        self._start_ready()
        if not self._running:
            self._all_done.set_result(None)

    async def _cancel(self) -> None:
        """Stop the running calls, and record those that never started: every call has a record."""
        running = list(self._running)
        for task in running:
            task.cancel()
        # All in one step, so that a second cancellation cannot lose them.
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
                continue  # cancelled already; each call ends within its grace period

    async def _never(self, call: RawCall) -> None:
        never = StoppedError(
            Stage.LOOKUP, ErrorKind.CANCELLED, phrase("`{name}` was cancelled before it ran.", name=call.name)
        )
        await self._runtime.refuse(call, never, session=self._session, parent=self._parent)


# Composite tools (P8): several calls behind one name, each looked up, authorised and recorded like any other.


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
        """The last step's result. The first step that failed is the error of the whole."""
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
        if len(mapping) == 1 and isinstance(target, str) and (split := _split(target, names)) is not None:
            return {"$ref": names[split[0]] + split[1]}
        return {key: _renamed(item, names) for key, item in mapping.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in cast("list[Any]", value)]
    return value
