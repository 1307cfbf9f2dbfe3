"""pydantic-ai: a runtime as a toolset, whose approvals are deferred calls; and its tools in Ferrule."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_ai import (
    AbstractToolset,
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    CustomEvent,
    DocumentUrl,
    ImageUrl,
    ModelRetry,
    RunContext,
    RunUsage,
    ToolDefinition,
    ToolReturn,
    ToolsetTool,
)
from pydantic_ai import Tool as PydanticTool
from pydantic_ai.exceptions import ToolFailed
from pydantic_core import SchemaValidator, core_schema, to_json

from ferrule import Attachment, ErrorKind, Output, Progress, ToolContext, ToolError, raw_tool
from ferrule.adapters.bridge import Bridge, approve, awaits_approval, invalid_arguments, is_about
from ferrule.extension import phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from typing_extensions import Unpack

    from ferrule import Answer, PartialOutput, Question, RawTool, Runtime, Session, ToolResult
    from ferrule.core.tool import ToolOptions

DepsT = TypeVar("DepsT")

_AN_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))  # the runtime checks what is in it


# Ferrule's tools in pydantic-ai


@dataclass(kw_only=True)
class ToolProgressEvent(CustomEvent, name="tool_progress"):
    """How far a running call is, in an agent's event stream."""

    done: float
    total: float | None = None
    message: str = ""


@dataclass(kw_only=True)
class ToolOutputEvent(CustomEvent, name="tool_output"):
    """A piece of output from a call that is still running."""

    content: Any


class _Toolset(AbstractToolset[DepsT]):
    def __init__(self, bridge: Bridge[RunContext[DepsT]], name: str | None) -> None:
        self._bridge = bridge
        self._id = name

    @property
    def id(self) -> str | None:
        return self._id

    @property
    def label(self) -> str:
        return "Ferrule runtime"

    async def get_tools(self, ctx: RunContext[DepsT]) -> dict[str, ToolsetTool[DepsT]]:
        tools: dict[str, ToolsetTool[DepsT]] = {}
        for tool, definition in self._bridge.definitions(self._bridge.session_of(ctx)):
            shown = ToolDefinition(
                name=definition["name"],
                description=definition["description"],
                parameters_json_schema=definition["parameters"],
                strict=definition["strict"],
                sequential=not tool.read_only,  # calls of one answer that change something run in order
            )
            tools[shown.name] = ToolsetTool(
                toolset=self, tool_def=shown, max_retries=ctx.max_retries, args_validator=_AN_OBJECT
            )
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[DepsT], tool: ToolsetTool[DepsT]
    ) -> Any:
        asked: dict[str, Any] = {}

        def ask(question: Question) -> Answer | str:
            shown = question.to_dict()
            known: Any = ctx.tool_call_metadata
            if ctx.tool_call_approved and (not isinstance(known, dict) or is_about(cast("Any", known), shown)):
                return approve(question)
            asked.update(shown)
            raise awaits_approval(question)

        async def report(event: Progress | PartialOutput) -> None:
            if isinstance(event, Progress):
                await ctx.emit(ToolProgressEvent(done=event.done, total=event.total, message=event.message))
            else:
                await ctx.emit(ToolOutputEvent(content=event.content))

        call = self._bridge.read(name, tool_args, ctx.tool_call_id)
        result = await self._bridge.run(call, self._bridge.session_of(ctx), ask=ask, report=report)
        if asked:
            raise ApprovalRequired(metadata=asked)
        if not result.success:
            raise ToolFailed(result.llm_content)
        return ToolReturn(_content(result), metadata=result.to_dict()["data"])


def _content(result: ToolResult) -> Any:
    """What the model reads, with the attachments that pydantic-ai has a form for."""
    if not result.attachments:
        return result.llm_content
    parts: list[Any] = [result.llm_content] if result.llm_content else []
    for one in result.attachments:
        if one.data is not None:
            parts.append(BinaryContent(one.data, media_type=one.media_type, identifier=one.name))
        elif one.uri is not None and one.uri.startswith(("http://", "https://")):
            kind = ImageUrl if one.media_type.startswith("image/") else DocumentUrl
            parts.append(kind(one.uri, media_type=one.media_type))
    return parts


def pydantic_ai_toolset(
    runtime: Runtime,
    *,
    session: Session | Callable[[RunContext[DepsT]], Session] | None = None,
    id: str | None = None,  # noqa: A002 - the framework's word
) -> AbstractToolset[DepsT]:
    """A runtime's tools for pydantic-ai: `Agent(…, toolsets=[pydantic_ai_toolset(runtime)])`.

    Without an asker in the runtime, a call that asks becomes a deferred one (`DeferredToolRequests.approvals`), and its
    metadata is the question. `session` is that of all runs, or a function that gives one for a run's context.
    """
    return _Toolset(Bridge(runtime, session), id)


# pydantic-ai's tools in Ferrule


def from_pydantic_ai(
    tool: PydanticTool[Any] | Callable[..., Any],
    *,
    deps: Callable[[ToolContext], Any] | None = None,
    **options: Unpack[ToolOptions],
) -> RawTool:
    """A pydantic-ai tool, or a function that could be one, as a tool of Ferrule. A `FunctionToolset` has them in
    `tools.values()`.

    Its `RunContext` has the call's id and no model; its `deps` are those of the call, or what the function `deps`
    returns. One with `requires_approval` asks first; a tool that raises `ApprovalRequired` by itself needs the option
    `requires_permission=True`. The other options are those of any tool.
    """
    inner = cast("PydanticTool[Any]", tool if isinstance(tool, PydanticTool) else PydanticTool(tool))
    schema = inner.function_schema
    merged: Any = {
        "description": inner.description or "",
        "requires_permission": inner.requires_approval,
        "concurrency_safe": not inner.sequential,
        "timeout": inner.timeout,
        "strict": bool(inner.strict),
        **options,
    }

    def prepared(arguments: dict[str, Any], context: ToolContext) -> tuple[dict[str, Any], RunContext[Any]]:
        run = RunContext[Any](
            deps=deps(context) if deps is not None else context.deps,
            model=cast("Any", None),
            usage=RunUsage(),
            tool_name=inner.name,
            tool_call_id=context.call_id,
            tool_call_approved=bool(merged["requires_permission"]),
        )
        try:
            return dict(schema.validator.validate_python(arguments)), run
        except ValidationError as error:
            raise invalid_arguments(inner.name, error) from None

    async def call(arguments: dict[str, Any], context: ToolContext) -> Any:
        with _worded(inner.name):
            return _output(await schema.call(*prepared(arguments, context)))

    def call_in_thread(arguments: dict[str, Any], context: ToolContext) -> Any:
        # Called here and not by `schema.call`, which would use a thread of its own that no time limit ends.
        with _worded(inner.name):
            named, run = prepared(arguments, context)
            given: list[Any] = [run] if schema.takes_ctx else []
            given += [named.pop(name) for name in schema.positional_fields]
            if schema.var_positional_field is not None:
                given += named.pop(schema.var_positional_field)
            return _output(schema.function(*given, **named))

    return raw_tool(inner.name, schema.json_schema, call if schema.is_async else call_in_thread, **merged)


@contextmanager
def _worded(name: str) -> Generator[None]:
    """What a tool raises for the model keeps its text. Anything else fails the call as in any tool."""
    try:
        yield
    except (ModelRetry, ToolFailed) as error:
        raise ToolError(error.message) from error
    except (ApprovalRequired, CallDeferred) as error:
        said = phrase("`{name}` was not run: approval in the middle of a call isn't available here.", name=name)
        raise ToolError(said, kind=ErrorKind.PERMISSION) from error


def _output(returned: Any) -> Any:
    """A tool's return value as Ferrule's: files apart from text and data."""
    extra: Any = []
    if isinstance(returned, ToolReturn):
        found = cast("ToolReturn[Any]", returned)
        extra = [found.content] if isinstance(found.content, str) else list(found.content or ())
        returned = found.return_value
    is_list = isinstance(returned, (list, tuple))
    parts: list[Any] = list(cast("Any", returned)) if is_list else [returned]
    files = [one for one in [*parts, *extra] if isinstance(one, (BinaryContent, ImageUrl, DocumentUrl))]
    if not files and not extra:
        return returned
    attachments = [
        Attachment(one.media_type, data=one.data)
        if isinstance(one, BinaryContent)
        else Attachment(one.media_type, uri=one.url)
        for one in files
    ]
    kept = [one for one in parts if one not in files]
    data: Any = kept if is_list and len(kept) != 1 else (kept[0] if kept else None)
    texts = [data if isinstance(data, str) else to_json(data).decode()] if data is not None else []
    texts += [one for one in extra if isinstance(one, str)]
    return Output(data, llm_content="\n\n".join(texts), attachments=attachments)
