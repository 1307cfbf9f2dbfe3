"""What a turn ends with: words, or a value of a type. A model writes it held to a schema, or calls a final tool.

Which of the two it is, is decided for each request: where the provider can hold the model's words to a JSON Schema
(`WritesOutput`), it does. Otherwise, and wherever a function or plain words will do too, each type is a final tool
beside the others. Either way the value is checked, and what is wrong with it is for the model to put right.
"""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, Any, Protocol, Union, cast, get_args, get_origin, is_typeddict

from ferrule.agent.agent_events import OutputDelta
from ferrule.agent.calling import Calling, bounded
from ferrule.agent.conversation import NOT_ACCEPTED
from ferrule.core.call import RawCall
from ferrule.core.context import ToolContext
from ferrule.core.description import Description
from ferrule.core.errors import DefinitionError, ErrorKind, Stage, StoppedError, ToolError
from ferrule.core.function_tool import FunctionTool
from ferrule.core.model import (
    CallDelta,
    ModelError,
    ModelFault,
    Retrying,
    TextDelta,
    ToolResults,
    UserMessage,
    check_settings,
)
from ferrule.core.phrases import phrase
from ferrule.core.problems import InvalidParamsError
from ferrule.core.result import ToolResult
from ferrule.core.signatures import is_a
from ferrule.core.tool import Style, Tool
from ferrule.pipeline.format import format_stopped
from ferrule.registry.registry import Registry, ToolSource

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ferrule.agent.agent_events import AgentEvent, WaitingCall
    from ferrule.agent.conversation import Conversation
    from ferrule.core.context import Session
    from ferrule.core.model import AssistantMessage, Message, Model, ModelRequest
    from ferrule.core.params import Params
    from ferrule.pipeline.run import Runtime


# What models read


_FINAL = "final_answer"
_HOW = "Give your final answer. Call this once, when everything else is done; it ends your work."
_ACCEPTED = "Accepted."
_TOO_LONG = "it was cut off at its length limit, so it is incomplete. Give a shorter one."
_WRITE_AGAIN = "Write the whole answer again, as JSON alone."
_ONE_IS_ENOUGH = "Not needed: another call in this answer gave the final answer already."
_FAILED_BESIDE = "Not accepted: another call in the same answer failed."
_SAID_MORE = "Not accepted: the user said more in the meantime."
_READ_FIRST = "Read that first, then give your final answer again."


class FinalTool(Tool[Any]):
    """A tool that a model ends its turn with. It never runs: its arguments are the output.

    A strict one is not shown as a tool: the model's words are held to its parameters.
    """

    def __init__(self, name: str, types: Sequence[Any], *, strict: bool = False) -> None:
        self.wrapped = len(types) > 1 or not _has_fields(types[0])
        self._type = types[0]
        self._model = types[0] if _is_model(types[0]) and not self.wrapped else _model_of(types, wrapped=self.wrapped)
        about = "" if self.wrapped else _about(types[0])
        description = Description("\n\n".join(filter(None, [_HOW if not strict else "", about])) or "The final answer.")
        self._settle(name, {"kind": "readonly", "description": description, "strict": strict}, Style.ASYNC)

    def _compile(self) -> Params[Any]:
        from ferrule.core.params import ModelParams

        return ModelParams(self._model)

    async def run(self, params: Any, context: ToolContext) -> Any:
        return self.value(params)

    def value(self, params: Any) -> Any:
        if self.wrapped:
            return params.output
        return params if self._model is self._type else params.root


class OutputForm:
    """The types and functions that an agent's turns may end with."""

    def __init__(self, wanted: Any) -> None:
        self.tools: dict[str, Tool[Any]] = {}
        """Final tools, by name."""
        self.native: FinalTool | None = None
        """All types as one schema, unless only a final tool will do."""
        self.validators: list[Callable[..., Any]] = []
        alternatives = list(_alternatives(wanted))
        for one in alternatives or [wanted]:
            if wanted is None or isinstance(one, (str, list, tuple)) or _is_object(one):
                raise DefinitionError(f"An output is a type or a function, not {one!r}.")
        functions = [one for one in alternatives if _is_function(one)]
        types = [one for one in alternatives if not _is_function(one)]
        self.takes_words = str in types
        """Whether plain words will do."""
        self._types = types if not functions else [object]
        types = [one for one in types if one is not str]
        for function in functions:
            self._add(cast("Tool[Any]", function) if isinstance(function, FunctionTool) else FunctionTool(function))
        named = [one for one in types if _has_fields(one)]
        others = [one for one in types if not _has_fields(one)]
        several = len(named) + bool(others) > 1
        for one in named:
            name = re.sub(r"\W+", "_", f"{_FINAL}_{one.__name__}").strip("_") if several else _FINAL
            self._add(FinalTool(name, [one]))
        if others:
            self._add(FinalTool(_FINAL, others))
        if types and not functions and not self.takes_words:
            self.native = FinalTool(_FINAL, types, strict=True)

    def _add(self, tool: Tool[Any]) -> None:
        if tool.name in self.tools:
            raise DefinitionError(f"Two outputs are called `{tool.name}`. Rename one of them.")
        if (fault := tool.fault) is not None:
            raise DefinitionError(f"It cannot be an output: {fault}")
        self.tools[tool.name] = tool

    def may_be(self, value: object) -> bool:
        """Whether the output may be this value, as far as can be said without reading it."""
        return any(is_a(value, one) for one in self._types)

    def refuse_taken_names(self, tools: ToolSource) -> None:
        for name in self.tools:
            if tools.get(name) is not None:
                raise DefinitionError(f"`{name}` is a tool and an output of this agent. Rename one of them.")


def _alternatives(wanted: Any) -> Iterator[Any]:
    """The types and functions in a list, a union, or a name of one."""
    if isinstance(wanted, (list, tuple)):
        for one in cast("Sequence[Any]", wanted):
            yield from _alternatives(one)
    elif get_origin(wanted) in (Union, UnionType):
        for one in get_args(wanted):
            yield from _alternatives(one)
    elif type(wanted).__name__ == "TypeAliasType":
        yield from _alternatives(wanted.__value__)
    else:
        yield wanted


def _is_function(one: Any) -> bool:
    """Whether it is called, and not a type: those that `typing` makes, such as a NewType, can be called too."""
    is_object = callable(one) and not isinstance(one, type)
    return inspect.isroutine(one) or (
        is_object and type(one).__module__ not in ("typing", "typing_extensions", "types")
    )


def _is_object(one: Any) -> bool:
    """Whether it is an object of a pydantic model or a dataclass where its type is meant."""
    is_type = isinstance(one, type) or get_origin(one) is not None
    return not is_type and (hasattr(one, "model_fields_set") or hasattr(one, "__dataclass_fields__"))


def _is_model(one: Any) -> bool:
    from pydantic import BaseModel, RootModel

    return isinstance(one, type) and issubclass(one, BaseModel) and not issubclass(one, RootModel)


def _has_fields(one: Any) -> bool:
    """Whether its JSON is an object with the fields that it declares."""
    return isinstance(one, type) and (_is_model(one) or is_dataclass(one) or is_typeddict(cast("Any", one)))


def _about(one: type[Any]) -> str:
    """What its author wrote about it; a dataclass without words of its own has its signature there."""
    about = inspect.cleandoc(one.__doc__ or "")
    return "" if is_dataclass(one) and about.startswith(f"{one.__name__}(") else about


def _model_of(types: Sequence[Any], *, wrapped: bool) -> Any:
    """A model of one type's fields; or one whose only field is any of the types, because arguments are an object."""
    from pydantic import ConfigDict, RootModel, create_model
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    from ferrule.core.signatures import understood

    try:
        if not wrapped:
            return RootModel[understood(types[0])]
        config = ConfigDict(extra="forbid")
        union: Any = Union[tuple(map(understood, types))]  # noqa: UP007 - built from values
        return create_model(_FINAL, __config__=config, output=(union, ...))
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        named = ", ".join(getattr(one, "__name__", repr(one)) for one in types)
        reason = str(error).partition("\n")[0]
        raise DefinitionError(f"`{named}` cannot be an output: {reason}") from error


# One turn


@dataclass(slots=True)
class _OutputText:
    """The output as JSON text while a model writes it."""

    pieces: list[str]
    wrapped: bool

    def read(self, count: int) -> Any:
        from pydantic_core import from_json

        try:
            value = from_json("".join(self.pieces[:count]), allow_partial="trailing-strings")
        except ValueError:  # nothing yet, or it is no JSON
            return None
        return cast("dict[str, Any]", value).get("output") if self.wrapped and isinstance(value, dict) else value


class OutputAgent(Protocol):
    """What the output of a turn needs of the agent."""

    model: Model
    runtime: Runtime
    parent: ToolContext | None
    steering: deque[str]
    output_form: OutputForm

    @property
    def conversation(self) -> Conversation: ...

    @property
    def session(self) -> Session: ...

    def result_chars(self, calls: int) -> int: ...


class TurnOutput:
    """Asks for the output of one turn, shows it while it is written, and checks it."""

    def __init__(self, agent: OutputAgent, deps: Any, attempts: int | None, show: Callable[[AgentEvent], None]) -> None:
        self._agent = agent
        self._form = agent.output_form
        self._deps = deps
        self._show = show
        self._most = attempts
        self._attempts = 0
        self._native = False
        self._writing: dict[str, _OutputText] = {}
        self._last_problem = ""
        self.value: Any = None
        self.taken = False
        self.waiting: Mapping[str, tuple[WaitingCall, ...]] = {}
        """What an output function waits for."""

    def recount(self, messages: Sequence[Message]) -> None:
        """Count the attempts of the turn before it was interrupted."""
        for message in messages:
            if isinstance(message, UserMessage) and message.text.startswith(NOT_ACCEPTED):
                self._attempts += 1
            elif isinstance(message, ToolResults):
                failed = [one for one in message.results if one.tool in self._form.tools and not one.success]
                self._attempts += len(failed)

    def take_again(self, kept: Any, answer: AssistantMessage) -> bool:
        """Take the output that an interrupted turn had taken, from its JSON; says whether it can be."""
        for call in answer.calls:
            tool = self._form.tools.get(call.name)
            try:
                if isinstance(tool, FinalTool):
                    self.value = tool.value(self._agent.runtime.build(call, tool).params)
                elif tool is not None:
                    self.value = tool.fit_output(kept)
                else:
                    continue
            except (StoppedError, InvalidParamsError):
                continue
            self.taken = True
        return self.taken

    def asked_for(self, request: ModelRequest, model: Model) -> ModelRequest:
        """The request with a schema that the answer is held to, or with the final tools."""
        form = self._form
        self._writing.clear()
        if not form.tools:
            return request
        writes = getattr(model, "writes_output", None)
        self._native = form.native is not None and writes is not None and writes(form.native, request.tools)
        if self._native:
            return replace(request, output=form.native)
        settings, tools = request.settings, request.tools
        if not form.takes_words and settings.tool_choice == "none":  # of the agent's tools: the output is none of them
            settings, tools = replace(settings, tool_choice=None), ()
        if not form.takes_words and settings.tool_choice is None and settings.effort is None:
            forced = replace(settings, tool_choice="required")  # some models cannot be forced while they think
            with suppress(ModelError):  # or at all
                check_settings(model, forced)
                settings = forced
        return replace(request, tools=(*tools, *form.tools.values()), settings=settings)

    def show(self, event: AgentEvent) -> None:
        """Pass on what a model does; what it writes of the output becomes `OutputDelta`."""
        if self._form.tools:
            if isinstance(event, Retrying) and event.restarted:
                self._writing.clear()
            elif isinstance(event, TextDelta) and self._native:
                self._written("", event.text, self._form.native)
                return
            elif isinstance(event, CallDelta) and event.tool in self._form.tools:
                self._written(event.call_id, event.text, self._form.tools[event.tool])
                return
        self._show(event)

    def _written(self, key: str, text: str, tool: Tool[Any] | None) -> None:
        writing = self._writing.get(key)
        if writing is None:
            wrapped = isinstance(tool, FinalTool) and tool.wrapped
            writing = self._writing[key] = _OutputText([], wrapped)
        writing.pieces.append(text)
        self._show(OutputDelta(text, partial(writing.read, len(writing.pieces))))

    @property
    def is_words(self) -> bool:
        """Whether plain words may be the output of the answer that came last."""
        return self._form.takes_words and not self._native

    def split(self, calls: Sequence[RawCall]) -> tuple[tuple[RawCall, ...], tuple[RawCall, ...]]:
        """The calls to run, and those that give the output."""
        if not self._form.tools or self._native:
            return tuple(calls), ()
        final = tuple(call for call in calls if call.name in self._form.tools)
        return tuple(call for call in calls if call.name not in self._form.tools), final

    async def take(self, call: RawCall, *, torn: StoppedError | None, failed: bool) -> ToolResult:
        """What comes of a call that gives the output. `failed` says that a call beside it did."""
        agent = self._agent
        if self.taken:
            return self._refused(call, _ONE_IS_ENOUGH, "")
        if agent.steering:
            return self._refused(call, _SAID_MORE, _READ_FIRST)
        if torn is not None:
            result = format_stopped(call.id, call.name, torn, agent.session.language)
        elif failed:
            result = self._refused(call, _FAILED_BESIDE, _READ_FIRST)
        else:
            result = await self._checked(call, self._form.tools[call.name])
        self._count(result)
        return result

    async def read(self, text: str, *, is_torn: bool) -> str | None:
        """What is wrong with the model's words as the output, for the model; None once they are taken."""
        form = self._form
        if not self._native and form.takes_words:
            self.value = text
            try:
                await self._validate(RawCall(_FINAL))
            except StoppedError as stopped:
                return self._again(stopped.message, str(stopped.suggestion or "Answer again."))
            self.taken = True
            return None
        if is_torn:
            return self._again("", _TOO_LONG)
        if not self._native or form.native is None:
            named = " or ".join(f"`{name}`" for name in form.tools)
            return self._again("", f"words alone do not end your work. Call {named}.")
        result = await self._checked(RawCall(_FINAL, text), form.native)
        if result.error is None:
            return None
        problems: Any = (result.error.details or {}).get("problems")
        if not problems:
            return self._again(result.error.message, result.error.suggestion or _WRITE_AGAIN)
        broken = any(one["code"] == "json" for one in problems)
        lines = ["it is not valid JSON."] if broken else [f"- `{one['path']}`: {one['message']}" for one in problems]
        return self._again("\n".join([*([] if broken else ["it does not fit."]), *lines, ""]), _WRITE_AGAIN)

    async def _checked(self, call: RawCall, tool: Tool[Any]) -> ToolResult:
        """The result of a call that gives the output; with it the output is taken, or it says why not."""
        agent = self._agent
        try:
            if isinstance(tool, FinalTool):
                self.value = tool.value(agent.runtime.build(call, tool).params)
                result = ToolResult(call.id, call.name, True, _ACCEPTED, _ACCEPTED)
            else:
                runtime = agent.runtime.with_tools(Registry([tool]), deps=self._deps)
                most = agent.result_chars(1)
                show, conversation = self._show, agent.conversation
                calling = Calling(
                    [call],
                    runtime,
                    agent.session,
                    agent.parent,
                    show,
                    most,
                    conversation,
                    data_of=lambda result: result.data,
                )
                was_done, before = calling.value_of(call)
                (result,) = await calling.run()
                self.waiting = calling.waiting
                if not result.success:
                    return bounded(result, most, tool)
                self.value = tool.fit_output(before) if was_done else result.data
                result = bounded(result, most, tool)
            await self._validate(call)
        except StoppedError as stopped:
            self.value = None
            return format_stopped(call.id, call.name, stopped, agent.session.language)
        self.taken = True
        return result

    async def _validate(self, call: RawCall) -> None:
        """Raise `StoppedError` where one of the agent's validators does not accept the value."""
        agent = self._agent
        for validator in self._form.validators:
            given: tuple[Any, ...] = (self.value,)
            if len(inspect.signature(validator).parameters) > 1:
                context = ToolContext[Any](agent.session, call.id, call.name, port=agent.runtime, parent=agent.parent)
                context.deps = self._deps
                given = (context, self.value)
            try:
                said = validator(*given)
                if inspect.isawaitable(said):
                    said = await said
            except ToolError as error:
                raise StoppedError(Stage.VALIDATE, ErrorKind.VALIDATION, error.message, error.suggestion) from None
            except ValueError as error:
                raise StoppedError(Stage.VALIDATE, ErrorKind.VALIDATION, str(error)) from None
            if said is None:
                continue
            if type(said) is not type(self.value) and (isinstance(said, bool) or not self._form.may_be(said)):
                name = getattr(validator, "__name__", repr(validator))
                raise TypeError(
                    f"The output validator `{name}` returned {said!r}, and what it returns replaces the output. "
                    "Return None to accept it, and raise ToolError to have the model try again."
                )
            self.value = said

    def _refused(self, call: RawCall, why: str, what_next: str) -> ToolResult:
        stopped = StoppedError(Stage.VALIDATE, ErrorKind.VALIDATION, why, what_next or None)
        return format_stopped(call.id, call.name, stopped)

    def _again(self, problem: str, what_next: str) -> str:
        self._attempts += 1
        self._last_problem = problem.rstrip() or what_next
        between = " " if problem and not problem.endswith("\n") else ""
        return f"{NOT_ACCEPTED}{problem}{between}{what_next}]"

    def _count(self, result: ToolResult) -> None:
        if result.error is not None:
            self._attempts += 1
            self._last_problem = result.error.message

    def require_more_attempts(self) -> None:
        """Raise `ModelError` once the model has tried as often as it may."""
        most = self._most
        if most is not None and self._attempts >= most and not self.taken:
            said = phrase(
                "`{name}` gave no valid output in {count} attempts. The last problem: {problem}",
                name=self._agent.model.name,
                count=most,
                problem=self._last_problem,
            )
            suggestion = phrase("Rephrase the request, or choose another model.")
            raise ModelError(ModelFault.GARBLED, said, suggestion=suggestion)
