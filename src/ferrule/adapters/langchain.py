"""LangChain and LangGraph: a runtime's tools, whose approvals are interrupts of a graph; and LangChain's in Ferrule."""

from __future__ import annotations

import asyncio
import base64
import json
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.callbacks import adispatch_custom_event
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig  # noqa: TC002 - LangChain reads the annotation
from langchain_core.tools import BaseTool, ToolException
from langchain_core.tools import Tool as SingleInputTool
from pydantic import BaseModel, PrivateAttr, ValidationError

from ferrule import Answer, Attachment, Choice, Output, Progress, ToolContext, ToolError, ToolResult, raw_tool
from ferrule.adapters.bridge import Bridge, awaits_approval, has_run, invalid_arguments, is_about

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from typing_extensions import Unpack

    from ferrule import PartialOutput, Question, RawTool, Runtime, Session
    from ferrule.core.tool import ToolOptions

# Ferrule's tools in LangChain

_MOST_APPROVED = 1_000


class _RuntimeTool(BaseTool):
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = True  # a failure is a message of the status "error"
    _bridge: Bridge[RunnableConfig] = PrivateAttr()
    _approved: dict[Any, Future[ToolResult]] = PrivateAttr(default_factory=dict[Any, "Future[ToolResult]"])

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        """The arguments as they came: the runtime checks them, and says what is wrong in words for a model."""
        return (), {"arguments": tool_input, "call_id": tool_call_id}

    def _run(self, arguments: Any, call_id: str | None, config: RunnableConfig) -> tuple[Any, Any]:
        call = self._bridge.read(self.name, arguments, call_id)
        with self._interrupting(arguments, call_id, config) as interrupting:
            if interrupting.running is not None:
                return interrupting.finished(interrupting.running.result())
            runtime = self._bridge.asking(call, interrupting.ask if _can_interrupt(config) else None)
            result = runtime.run_sync(call, session=self._bridge.session_of(config))
            return interrupting.finished(result)

    async def _arun(self, arguments: Any, call_id: str | None, config: RunnableConfig) -> tuple[Any, Any]:
        async def report(event: Progress | PartialOutput) -> None:
            if isinstance(event, Progress):
                data = {"done": event.done, "total": event.total, "message": event.message}
            else:
                data = {"content": event.content}
            data = {"type": type(event).__name__, "call_id": event.call_id, "tool": event.tool, **data}
            if "langgraph_node" in config.get("metadata", {}):
                from langgraph.config import get_stream_writer

                get_stream_writer()(data)
            elif config.get("callbacks"):
                await adispatch_custom_event("ferrule", data)

        call, in_graph = self._bridge.read(self.name, arguments, call_id), _can_interrupt(config)
        with self._interrupting(arguments, call_id, config) as interrupting:
            if interrupting.running is not None:
                return interrupting.finished(await asyncio.shield(asyncio.wrap_future(interrupting.running)))
            result = await self._bridge.run(
                call, self._bridge.session_of(config), ask=interrupting.ask if in_graph else None, report=report
            )
            return interrupting.finished(result)

    @contextmanager
    def _interrupting(self, arguments: Any, call_id: str | None, config: RunnableConfig) -> Generator[_Interrupting]:
        task = config.get("configurable", {}).get("__pregel_task_id")
        made = _Interrupting(self._approved, (task, call_id, json.dumps(arguments, sort_keys=True, default=repr)))
        try:
            yield made
        finally:
            made.end()


def _can_interrupt(config: RunnableConfig) -> bool:
    """Whether a LangGraph graph runs this, and saves its state, so that it can be interrupted and resumed."""
    return config.get("configurable", {}).get("__pregel_checkpointer") is not None


class _Interrupting:
    """Asks by an interrupt of the graph. Its node starts again once the graph is resumed, and this call with it: where
    another call of the node asks then, also one that was approved and has run. It gets what it got before.
    """

    def __init__(self, approved: dict[Any, Future[ToolResult]], key: Any) -> None:
        self._approved, self._key = approved, key
        self._interrupt: Exception | None = None
        self._runs: Future[ToolResult] | None = None
        self._before: Future[ToolResult] | None = None
        known = approved.get(key)
        self.running = known if known is not None and not known.done() else None
        """The call as it was approved, while it has not ended."""

    def ask(self, question: Question) -> Answer | str:
        from langgraph.errors import GraphInterrupt
        from langgraph.types import interrupt

        shown, said = question.to_dict(), None
        try:
            # An answer to another question, such as that of a call beside this one, approves nothing here.
            while not (
                isinstance(said, dict)
                and is_about(cast("Any", said), shown)
                and cast("Any", said).get("answer", Choice.NO) in tuple(Choice)
            ):
                said = interrupt(shown)
        except GraphInterrupt as error:
            self._approved.pop(self._key, None)  # asked anew, it runs anew
            self._interrupt = error
            raise awaits_approval(question) from None
        answer = cast("Mapping[str, Any]", said)
        choice = Choice(answer.get("answer", Choice.NO))
        if choice != Choice.NO:
            self._before = self._approved.get(self._key)
            if self._before is not None:
                raise has_run(question)
            self._runs = self._approved[self._key] = Future()
            while len(self._approved) > _MOST_APPROVED:
                del self._approved[next(iter(self._approved))]
        return Answer(choice, str(answer.get("why", "")))

    def finished(self, result: ToolResult) -> tuple[Any, Any]:
        if self._interrupt is not None:
            raise self._interrupt
        if self._runs is not None:
            self._runs.set_result(result)
        elif self._before is not None and self._before.done() and not self._before.cancelled():
            result = self._before.result()
        if not result.success:
            raise ToolException(result.llm_content)
        return _content(result), result.to_dict()["data"]  # in plain JSON, for checkpoints

    def end(self) -> None:
        if self._runs is not None and not self._runs.done():
            self._runs.cancel()  # how far it came is unknown, and it does not start again by itself


def _content(result: ToolResult) -> Any:
    """What the model reads, with attachments in LangChain's content blocks."""
    if not result.attachments:
        return result.llm_content
    blocks: list[dict[str, Any]] = [{"type": "text", "text": result.llm_content}] if result.llm_content else []
    for one in result.attachments:
        kind = "image" if one.media_type.startswith("image/") else "file"
        block: dict[str, Any] = {"type": kind, "mime_type": one.media_type}
        if one.data is not None:
            blocks.append({**block, "base64": base64.b64encode(one.data).decode()})
        elif one.uri is not None:
            blocks.append({**block, "url": one.uri})
    return blocks


def langchain_tools(
    runtime: Runtime, *, session: Session | Callable[[RunnableConfig], Session] | None = None
) -> list[BaseTool]:
    """A runtime's tools for LangChain, and for LangGraph: `create_react_agent(model, tools)` takes them.

    Without an asker in the runtime, a call that asks interrupts a graph that has a checkpointer. The value of the
    interrupt is the question, and `Command(resume={**question, "answer": "once"})` answers it: `once`, `always` or
    `no`, with a reason in `why`. `session` is that of all runs, or a function that gives one for a run's config.
    """
    bridge = Bridge(runtime, session)
    tools: list[BaseTool] = []
    for _, definition in bridge.definitions():
        made = _RuntimeTool(
            name=definition["name"],
            description=definition["description"],
            args_schema={"properties": {}, **definition["parameters"]},
        )
        made._bridge = bridge  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        tools.append(made)
    return tools


# LangChain's tools in Ferrule


def from_langchain(tool: BaseTool, **options: Unpack[ToolOptions]) -> RawTool:
    """A LangChain tool as a tool of Ferrule. The options are those of any tool, such as its `kind`."""
    if not hasattr(tool, "tool_call_schema"):
        raise TypeError(f"`tool` is a tool of LangChain, not {tool!r}.")
    model: Any = tool.tool_call_schema
    if isinstance(tool, SingleInputTool) and tool.args_schema is None:  # whose schema is that of its own machinery
        model = {"type": "object", "properties": tool.args, "required": list(tool.args)}
    elif not isinstance(model, dict):
        model = model.model_json_schema() if issubclass(model, BaseModel) else model.schema()
    found = cast("dict[str, Any]", model)
    schema: dict[str, Any] = {key: value for key, value in found.items() if key not in ("title", "description")}
    description = {"description": tool.description}
    merged: Any = {**description, **options}

    def message(arguments: dict[str, Any], context: ToolContext) -> Any:
        return {"type": "tool_call", "name": tool.name, "args": arguments, "id": context.call_id}

    async def call(arguments: dict[str, Any], context: ToolContext) -> Any:
        try:
            return _output(await tool.ainvoke(message(arguments, context)))
        except (ToolException, ValidationError) as error:
            raise _failure(tool.name, error) from error

    def call_in_thread(arguments: dict[str, Any], context: ToolContext) -> Any:
        try:
            return _output(tool.invoke(message(arguments, context)))
        except (ToolException, ValidationError) as error:
            raise _failure(tool.name, error) from error

    # One without a coroutine of its own would run in a thread of LangChain's, which no time limit ends.
    own = type(tool)._arun is not BaseTool._arun  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    is_async = own and getattr(tool, "coroutine", True) is not None
    return raw_tool(tool.name, schema, call if is_async else call_in_thread, **merged)


def _failure(name: str, error: ToolException | ValidationError) -> ToolError:
    return invalid_arguments(name, error) if isinstance(error, ValidationError) else ToolError(str(error))


def _output(message: Any) -> Any:
    """What a LangChain tool gives, as Ferrule's: its artifact is the data."""
    if not isinstance(message, ToolMessage):
        return message
    texts: list[str] = []
    attachments: list[Attachment] = []
    content: Any = message.content
    for block in [content] if isinstance(content, str) else list(content):
        if isinstance(block, str):
            texts.append(block)
        elif block.get("base64") is not None or block.get("url") is not None:
            data = base64.b64decode(block["base64"]) if block.get("base64") is not None else None
            media_type = block.get("mime_type") or f"{block['type']}/*"
            attachments.append(Attachment(media_type, data, None if data is not None else block["url"]))
        else:
            texts.append(str(block.get("text", block)))
    text = "\n".join(texts)
    if message.status == "error":
        raise ToolException(text)
    artifact: Any = message.artifact
    return Output(text if artifact is None else artifact, llm_content=text, attachments=attachments)
