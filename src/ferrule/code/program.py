"""One run of a program: its interpreter, the calls that it makes, and where it goes on after a pause or a kill.

The program runs in a worker process without files, network or environment, and stops at each call. What it calls is
kept in the turn's log like the calls of a sub-agent. To go on, it runs again from its beginning, with the same clock
and the same random numbers, and calls that had ended give what they gave.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields, replace
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json, to_jsonable_python

from ferrule.agent.agent_events import plain
from ferrule.agent.calling import Calling
from ferrule.agent.limits import running
from ferrule.code.signatures import HEADER, SIGNATURES, shown_functions
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind, MissingExtraError, ToolError
from ferrule.core.model import UserMessage
from ferrule.core.phrases import joined, phrase
from ferrule.core.shown_text import head_and_tail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.agent.conversation import Conversation
    from ferrule.code.signatures import ToolFunction
    from ferrule.core.context import ToolContext
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.run import Runtime

_MEGABYTE = 1_000_000
_MOST_VALUE = 10 * _MEGABYTE
"""Bytes of one result as JSON that a program can take."""
_MOST_PRINTED = 200_000
_KEPT_CHARS = 2_000
_SHOWN_ERROR = 4_000
_GRACE = 1.0
_OUTLIVES = 30
"""Seconds of CPU that a worker may use beyond the program's time, to check types and to read results."""
_FOUND = 12
_QUERY = 1_000
_FRAMES = 5

_UNAWAITED = "<coroutine external_future("
"""How the interpreter passes on a call that was not awaited, which is not what anybody meant to pass."""
_SCALARS = frozenset({str, int, bool, type(None)})
_RAISED = {
    ErrorKind.PERMISSION: "PermissionError",
    ErrorKind.VALIDATION: "ValueError",
    ErrorKind.NOT_FOUND: "LookupError",
    ErrorKind.TIMEOUT: "TimeoutError",
}
"""The exception that a failed call raises in the program; `RuntimeError` for any other kind."""


@dataclass(slots=True, frozen=True)
class CodeLimits:
    """What one program may use. The time is its own: calls and waiting for the user don't count."""

    seconds: float = 10.0
    memory: int = 128 * _MEGABYTE
    """Bytes."""
    calls: int = 1_000
    recursion: int = 500

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 < value < math.inf or (one.name != "seconds" and not isinstance(value, int)):
                raise ValueError(f"CodeLimits: {one.name} must be a number above 0, not {value!r}.")


def _interpreter() -> Any:
    try:
        return import_module("pydantic_monty")
    except ImportError:
        missing = MissingExtraError(phrase("Running a program"), "code")
        raise ToolError(str(missing), suggestion=phrase("Call the tools one by one instead.")) from None


class Program:
    """A program of a model, which is run once."""

    def __init__(
        self,
        code: str,
        functions: Mapping[str, ToolFunction],
        context: ToolContext,
        runtime: Runtime,
        limits: CodeLimits,
    ) -> None:
        self._monty = _interpreter()
        self._code = code
        self._functions = functions
        self._texts = {one.tool.name: one.returns_text for one in functions.values()}
        self._context = context
        self._runtime = runtime
        self._limits = limits
        self._pending: dict[int, RawCall] = {}
        self._printed: list[str] = []
        self._printed_chars = self._left_out = 0
        self.calls: Counter[str] = Counter()
        """The tools whose calls it waited for, and how often."""
        self._made = self._number = 0
        self._turn = running.get()
        self._conversation = self._own_conversation()
        self._known = self._kept_calls()
        self._began = self._start()

    # What is kept of it

    def _own_conversation(self) -> Conversation | None:
        """Where its calls are kept; None if it does not work for a call of an agent whose turn is kept."""
        turn, call_id = self._turn, self._context.call_id
        if turn is None or turn.calling is None or call_id not in turn.calling.ids:
            return None
        conversation = turn.conversation.inside(call_id)
        return conversation if conversation.journal is not None else None

    def _kept_calls(self) -> dict[str, str]:
        """The ids of calls from before, by the call's number."""
        open_turn = self._conversation.open if self._conversation is not None else None
        if open_turn is None:
            return {}
        ids = {*open_turn.began, *open_turn.done, *open_turn.answers, *open_turn.results, *open_turn.submitted}
        return {one.rpartition("-")[0]: one for one in (*ids, *open_turn.inside)}

    def _start(self) -> datetime:
        """The moment that its clock shows; a program that goes on has the one from before."""
        now, conversation = datetime.now().astimezone(), self._conversation
        if conversation is None:
            return now
        if conversation.open is None:
            conversation.begin_turn(UserMessage(now.isoformat(), turn=1))
            return now
        conversation.resume({}, {})
        return datetime.fromisoformat(cast("UserMessage", conversation.messages[0]).text)

    # Running

    async def run(self) -> Any:
        """Run it to its end: the value of its last line. Raises `ToolError` if it does not get there."""
        monty, limits = self._monty, self._limits
        stubs = HEADER + "".join(one.stub() for one in self._functions.values())
        stubs += f"def {SIGNATURES}(query: str) -> str: ...\n"
        try:
            async with AsyncExitStack() as stack:
                pool = await stack.enter_async_context(
                    monty.AsyncMonty(min_processes=1, max_processes=1, request_timeout=limits.seconds + 5 * _GRACE)
                )
                session = await stack.enter_async_context(
                    pool.checkout(
                        limits={
                            "max_feed_duration_secs": limits.seconds,
                            "max_memory": limits.memory,
                            "max_recursion_depth": limits.recursion,
                            "max_suspensions": 100_000_000,
                        },
                        type_check=True,
                        type_check_stubs=stubs,
                        type_check_format="concise",
                        os_policy={
                            "datetime": self._began,
                            "sleep": "zero",
                            "process_time": "zero",
                            "random_start": {"seed": self._began.isoformat()},
                        },
                    )
                )
                _end_by_itself(session.worker_pid, limits.seconds)
                step = await session.feed_start(
                    self._code, print_callback=self._print, skip_type_check=bool(self._known)
                )
                while not isinstance(step, monty.MontyComplete):
                    step = await self._answered(step)
                return _data(step.output)
        except monty.MontyError as error:
            raise self._failure(error) from None
        except FileNotFoundError as error:  # the worker's program is not there
            raise ToolError(phrase("Programs cannot run here: {error}", error=error)) from None

    async def _answered(self, step: Any) -> Any:
        """Give the interpreter what it waits for, until it stops again."""
        monty = self._monty
        if isinstance(step, monty.AsyncFutureSnapshot):
            numbers = sorted(step.pending_call_ids)
            results = await self._run_calls([self._pending.pop(number) for number in numbers])
            return await step.resume(dict(zip(numbers, results, strict=True)))
        if isinstance(step, monty.AsyncNameLookupSnapshot):
            name: str = step.variable_name
            if step.object_id is not None or (name not in self._functions and name != SIGNATURES):
                return await step.resume()

            def stands_for() -> None: ...

            stands_for.__name__ = name
            return await step.resume(value=stands_for)
        if step.is_os_function and step.function_name in ("import", "import_stubs"):
            return await step.resume_not_handled()
        return await step.resume(self._begun(step))

    def _begun(self, step: Any) -> dict[str, Any]:
        """The answer to a call that has only been made: a tool's is run once the program awaits this or another."""
        name: str = step.function_name
        if step.is_os_function:
            said = phrase("a program has no files, processes or environment of its own: call a function")
            return {"exc_type": "PermissionError", "message": said}
        if self._made >= self._limits.calls:
            raise ToolError(
                joined(
                    " ",
                    [
                        phrase("The program made {count} calls, which is its limit.", count=f"{self._limits.calls:,}"),
                        self._so_far(),
                    ],
                ),
                suggestion=phrase("Do less in one program."),
            )
        function = self._functions.get(name) if step.object_id is None else None
        try:
            if name == SIGNATURES:
                self._made += 1
                return {"return_value": self._signatures(*step.args, **step.kwargs)}
            if function is None:
                return {"exc_type": "NameError", "message": f"name '{name}' is not defined"}
            arguments = function.arguments(step.args, step.kwargs)
            if not all(type(one) in _SCALARS for one in arguments.values()):
                arguments = _data(arguments)
            if self._pending and _UNAWAITED in repr(arguments):
                raise TypeError(f"{name}() takes the result of a call: write `await` before it")
        except (TypeError, ValueError, RecursionError) as error:
            return {"exc_type": "TypeError", "message": str(error)}
        self._made += 1
        self._pending[step.call_id] = self._call(function.tool.name, arguments)
        return {"future": ...}

    def _call(self, tool: str, arguments: dict[str, Any]) -> RawCall:
        if self._conversation is None:
            return RawCall(tool, arguments)
        # The same call has the same id when the program runs again, and another call has another.
        number = f"{self._context.call_id}.{self._number}"
        self._number += 1
        made = hashlib.sha256(repr((tool, arguments)).encode("utf-8", "replace")).hexdigest()[:12]
        call = RawCall(tool, arguments, id=f"{number}-{made}")
        if self._known.get(number, call.id) != call.id:
            raise self._lost(phrase("it made another call than before the pause"))
        return call

    async def _run_calls(self, calls: list[RawCall]) -> list[dict[str, Any]]:
        runtime, context = self._runtime, self._context
        for call in calls:
            self.calls[call.name] += 1
        if self._conversation is not None:
            return await self._run_kept(calls, self._conversation)
        if len(calls) == 1:
            return [self._returned(await runtime.run(calls[0], session=context.session, parent=context))]
        return [self._returned(one) for one in await runtime.batch(calls, session=context.session, parent=context)]

    async def _run_kept(self, calls: list[RawCall], conversation: Conversation) -> list[dict[str, Any]]:
        """The same for calls that outlive their process. Raises `ToolError` if some have to wait."""
        assert self._turn is not None  # noqa: S101 - it is whose conversation it is
        context, most = self._context, _KEPT_CHARS
        calling = Calling(
            calls, self._runtime, context.session, context, lambda event: None, most, conversation,
            data_of=self._kept_value,
        )  # fmt: skip
        before = [calling.value_of(call) for call in calls]
        token = running.set(replace(self._turn, conversation=conversation, calling=calling, runtime=calling.runtime))
        try:
            results = await calling.run()
        finally:
            running.reset(token)
        waiting = [one for call in calls for one in calling.waiting.get(call.id, ())]
        if waiting:
            assert self._turn.calling is not None  # noqa: S101 - as above
            conversation.pause(waiting, 0.0)
            self._turn.calling.wait_inside(context.call_id, waiting)
            raise ToolError(phrase("The program waits for an approval or a result."), kind=ErrorKind.DEFERRED)
        answers: list[dict[str, Any]] = []
        for (was_done, value), result in zip(before, results, strict=True):
            if was_done and result.success:
                if value is None:
                    raise self._lost(phrase("the result of `{tool}` could not be kept whole", tool=result.tool))
                answers.append({"return_value": value[0]})
            else:
                answers.append(self._returned(result))
        return answers

    def _kept_value(self, result: ToolResult) -> Any:
        answer = self._returned(result)
        return [answer["return_value"]] if "return_value" in answer else None

    def _returned(self, result: ToolResult) -> dict[str, Any]:
        """What a call gives in the program, or raises there."""
        if result.error is not None:
            kind, said = result.error.kind, result.error
            words = joined(" ", filter(None, [said.message, said.suggestion]))
            return {"exc_type": _RAISED.get(kind, "RuntimeError"), "message": f"{kind.value}: {words}"}
        data, is_text = result.data, self._texts.get(result.tool, True)
        if type(data) in (int, bool) and not is_text:
            return {"return_value": data}
        try:
            value = plain(data) if not is_text else data if isinstance(data, str) else result.llm_content
            size = len(to_json(value))
        except (ValueError, RecursionError) as error:  # not everything that a tool returns has a form in JSON
            return {"exc_type": "RuntimeError", "message": f"{ErrorKind.EXECUTION.value}: {error}"}
        if size > _MOST_VALUE:
            said = phrase(
                "the result of `{tool}` has {size} MB, and a program takes {most} MB at most. Ask for less.",
                tool=result.tool,
                size=size // _MEGABYTE,
                most=_MOST_VALUE // _MEGABYTE,
            )
            return {"exc_type": "RuntimeError", "message": f"{ErrorKind.EXECUTION.value}: {said}"}
        return {"return_value": value}

    def _signatures(self, query: str) -> str:
        """The functions that fit a query."""
        names = {one.tool.name: name for name, one in self._functions.items()}
        found = self._runtime.tools.search(str(query)[:_QUERY], _FOUND)
        fits = {names[tool.name]: self._functions[names[tool.name]] for tool in found}
        return shown_functions(fits) or phrase("No function fits. Use other words, or fewer.")

    # Its end

    def _print(self, _stream: str, text: str) -> None:
        room = _MOST_PRINTED - self._printed_chars
        self._printed.append(text[:room])
        self._printed_chars += min(len(text), room)
        self._left_out += max(0, len(text) - room)

    @property
    def printed(self) -> str:
        text = "".join(self._printed)
        left_out = phrase("[{count} more characters were printed.]", count=f"{self._left_out:,}")
        return f"{text}\n{left_out}" if self._left_out else text

    @property
    def unawaited(self) -> list[str]:
        """The tools that it called without `await`, so that they did not run."""
        return sorted({call.name for call in self._pending.values()})

    def _so_far(self) -> str:
        """What it did and printed before it ended early, for the model."""
        made = ", ".join(f"{name} ×{count}" for name, count in sorted(self.calls.items()))
        said: list[str] = []
        if made:
            said.append(phrase("It had made these calls: {calls}.", calls=made))
        if self.printed:
            said.append(phrase("It had printed:\n{text}", text=_cut(self.printed)))
        return joined("\n", said)

    def _lost(self, why: str) -> ToolError:
        return ToolError(
            joined(" ", [phrase("The program cannot go on: {why}.", why=why), self._so_far()]),
            kind=ErrorKind.UNKNOWN,
            suggestion=phrase("Look at what its calls have changed before you write another."),
        )

    def _failure(self, error: Any) -> ToolError:
        """Why it did not come to its end, as a model can act on it."""
        monty = self._monty
        if isinstance(error, (monty.MontyTypingError, monty.MontySyntaxError)):
            said = phrase(
                "The program was not run, because of an error in it.\n{problem}", problem=_cut(error.display())
            )
            return ToolError(said, kind=ErrorKind.VALIDATION, suggestion=phrase("Correct it and run it again."))
        kind, seconds = ErrorKind.EXECUTION, f"{self._limits.seconds:g}"
        out_of_time = phrase("The program was stopped: it ran for {seconds} s, which is its limit.", seconds=seconds)
        if isinstance(error, monty.MontyCrashedError):
            if error.timed_out:
                kind, said = ErrorKind.TIMEOUT, out_of_time
            else:
                said = phrase("The program was stopped: its interpreter ended. {problem}", problem=_cut(str(error)))
        else:
            inner = error.exception()
            if isinstance(inner, TimeoutError) and "time limit exceeded" in str(error):
                kind, said = ErrorKind.TIMEOUT, out_of_time
            elif isinstance(inner, MemoryError):
                most = self._limits.memory // _MEGABYTE
                said = phrase("The program was stopped: it used more than {most} MB of memory.", most=most)
            else:
                frames: list[Any] = error.traceback() if isinstance(error, monty.MontyRuntimeError) else []
                lines = [f"line {one.line}: {(one.source_line or '').strip()}" for one in frames[-_FRAMES:]]
                name = error.display("type-msg") if frames else f"{type(inner).__name__}: {error}"
                said = phrase("The program failed.\n{problem}", problem=_cut("\n".join([*lines, name])))
        return ToolError(joined("\n", filter(None, [said, self._so_far()])), kind=kind)


def _data(value: Any) -> Any:
    """Plain JSON values; an instance of a class of the program becomes its fields."""
    return to_jsonable_python(
        value,
        fallback=lambda one: one.attributes if hasattr(one, "attributes") else str(one),
        bytes_mode="base64",
    )


def _end_by_itself(worker: int | None, seconds: float) -> None:
    """Have the kernel end a worker whose host was killed, at an operation in which it never looks at its clock."""
    if worker is not None and sys.platform == "linux":
        import resource

        most = math.ceil(seconds) + _OUTLIVES
        resource.prlimit(worker, resource.RLIMIT_CPU, (most, most))


def _cut(text: str) -> str:
    return head_and_tail(text, _SHOWN_ERROR)[0] if len(text) > _SHOWN_ERROR else text.rstrip()
