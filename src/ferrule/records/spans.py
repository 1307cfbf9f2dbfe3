"""Spans for OpenTelemetry: an agent's turns, its requests to models, and the tools that run.

They follow the conventions for generative AI, which are still in development
(github.com/open-telemetry/semantic-conventions-genai), so their names are spelled out here and not imported from a
package that renames them. OpenTelemetry is imported when a `SpanTracer` is made.
"""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

from ferrule.core.errors import ErrorKind, MissingExtraError, StoppedError, ToolError
from ferrule.core.model import AssistantMessage, Finished, ModelError, Preparing, Retrying, UserMessage
from ferrule.core.tool import description_of
from ferrule.pipeline.execute import ToolFailed
from ferrule.records.redact import keep_arguments, keep_text, redact_value

if TYPE_CHECKING:
    from ferrule.core.context import Session
    from ferrule.core.model import Message, ModelEvent, ModelRequest, Usage
    from ferrule.core.tool import Invocation

SCOPE = "ferrule"
TOOL_TYPE = "function"
_MAX_TEXT = 16_384
_MAX_MESSAGES = 65_536
"""Characters of a conversation that a span has at most, the newest messages first."""
_PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "moonshot": "moonshot_ai", "xai": "x_ai"}
"""Providers that the conventions call by another name."""
_SETTINGS = {
    "max_output_tokens": "gen_ai.request.max_tokens", "temperature": "gen_ai.request.temperature",
    "seed": "gen_ai.request.seed", "stop": "gen_ai.request.stop_sequences", "effort": "ferrule.request.effort",
    "tool_choice": "ferrule.request.tool_choice",
}  # fmt: skip
_FINISH_REASONS = {"end": "stop", "calls": "tool_call", "refused": "content_filter"}


class SpanTracer:
    """Spans for what a runtime and its agents do.

    `invoke_agent` is an agent's turn, `chat MODEL` a request to its model, and `execute_tool NAME` a tool that runs.
    They nest: a tool is below the turn that called it, and what it calls is below the tool. `content=True` adds
    messages, arguments and results, redacted and bounded; they may be private, so it is off.
    """

    def __init__(self, tracer_provider: Any = None, *, content: bool = False) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise MissingExtraError("OpenTelemetry", "telemetry") from None
        self.trace = trace
        self.tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self.content = content

    def span(self, invocation: Invocation, session: Session) -> ToolSpan:
        """The span around a tool that runs."""
        tool = invocation.tool
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool.name,
            "gen_ai.tool.type": TOOL_TYPE,
            "gen_ai.tool.call.id": invocation.call_id,
            **_of_session(session),
        }
        if described := description_of(tool).short:
            attributes["gen_ai.tool.description"] = described
        if self.content:
            arguments = keep_arguments(tool.params.dump(invocation.params).decode())
            attributes["gen_ai.tool.call.arguments"] = arguments.text
        return ToolSpan(self, f"execute_tool {tool.name}", attributes)

    def turn(self, model: str, session: Session, text: str, agent: str = "") -> TurnSpan:
        """The span around a turn of an agent, which begins with the user's `text`."""
        attributes = {"gen_ai.operation.name": "invoke_agent", **_of_model(model), **_of_session(session)}
        if agent:
            attributes["gen_ai.agent.name"] = agent
        if self.content:
            attributes["gen_ai.input.messages"] = _messages([UserMessage(text)])
        return TurnSpan(self, f"invoke_agent {agent}".rstrip(), attributes)


def _of_session(session: Session) -> dict[str, Any]:
    attributes = {"gen_ai.conversation.id": session.id}
    if session.caller.tenant is not None:
        attributes["ferrule.tenant"] = session.caller.tenant
    if session.caller.user is not None:
        attributes["user.id"] = session.caller.user
    return attributes


def _of_model(name: str) -> dict[str, Any]:
    provider, _, model = name.partition("/")
    return {"gen_ai.provider.name": _PROVIDERS.get(provider, provider), "gen_ai.request.model": model or name}


class _Span:
    """A span that is the current one inside a `with` block."""

    __slots__ = ("_attributes", "_manager", "_name", "_source", "_span")

    def __init__(self, source: SpanTracer, name: str, attributes: dict[str, Any]) -> None:
        self._source = source
        self._name = name
        self._attributes = attributes

    def __enter__(self) -> Self:
        kinds = self._source.trace.SpanKind
        # An exception is reported by its kind alone: its message and stack may hold secrets and paths.
        self._manager = self._source.tracer.start_as_current_span(
            self._name,
            kind=kinds.CLIENT if isinstance(self, ChatSpan) else kinds.INTERNAL,
            attributes=self._attributes,
            record_exception=False,
            set_status_on_exception=False,
        )
        self._span = self._manager.__enter__()
        return self

    def _fail(self, kind: str) -> None:
        self._span.set_attribute("error.type", kind)
        self._span.set_status(self._source.trace.Status(self._source.trace.StatusCode.ERROR))

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is not None:
            self._fail(_error_type(error))
        self._manager.__exit__(kind, error, traceback)

    def _used(self, usage: Usage) -> None:
        self._span.set_attributes(
            {
                "gen_ai.usage.input_tokens": usage.input_tokens,
                "gen_ai.usage.output_tokens": usage.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
                "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
            }
        )
        if usage.cost is not None:
            self._span.set_attribute("ferrule.usage.cost", usage.cost)


class ToolSpan(_Span):
    """The span of one call."""

    __slots__ = ()

    def result(self, value: Any) -> None:
        """Add what the tool returned, if content is wanted."""
        if self._source.content:
            text = value if isinstance(value, str) else json.dumps(redact_value(value), ensure_ascii=False)
            self._span.set_attribute("gen_ai.tool.call.result", keep_text(text, _MAX_TEXT))

    def waited(self, user: float, turn: float) -> None:
        if user:
            self._span.set_attribute("ferrule.approval.duration", user)
        if turn:
            self._span.set_attribute("ferrule.queue.duration", turn)


class TurnSpan(_Span):
    """The span of one turn. Requests to models that are made in it are its `request`s."""

    __slots__ = ()

    def request(self, model: str, request: ModelRequest) -> ChatSpan:
        """The span around a request to a model."""
        kept = ("gen_ai.conversation.id", "ferrule.tenant", "user.id", "gen_ai.agent.name")
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            **_of_model(model),
            "gen_ai.request.stream": True,
            **{name: self._attributes[name] for name in kept if name in self._attributes},
        }
        given = request.settings.given()
        attributes |= {name: given[setting] for setting, name in _SETTINGS.items() if setting in given}
        if request.output is not None:
            attributes["gen_ai.output.type"] = "json"
        if self._source.content:
            attributes["gen_ai.input.messages"] = _messages(request.messages)
            if request.system:
                system = [{"type": "text", "content": keep_text(request.system, _MAX_TEXT)}]
                attributes["gen_ai.system_instructions"] = json.dumps(system, ensure_ascii=False)
        return ChatSpan(self._source, f"chat {attributes['gen_ai.request.model']}", attributes)

    def ended(self, ending: str, text: str, usage: Usage, failure: BaseException | None) -> None:
        """The turn is over. Every `ending` but `done` is an error, unless `failure` says more."""
        self._used(usage)
        self._span.set_attribute("ferrule.turn.ending", ending)
        if self._source.content:
            self._span.set_attribute("gen_ai.output.messages", _messages([AssistantMessage(text)]))
        if ending != "done":
            self._fail(_error_type(failure) if failure is not None else ending)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        super().__exit__(None, None, None)  # `ended` has said why


class ChatSpan(_Span):
    """The span of one request to a model, with all its tries."""

    __slots__ = ("_began", "_retries", "_seconds")

    def __enter__(self) -> Self:
        self._began = perf_counter()
        self._seconds = 0.0
        self._retries = 0
        return super().__enter__()

    def heard(self, event: ModelEvent) -> None:
        """Take note of what the model sends."""
        if isinstance(event, Finished):
            reason = _FINISH_REASONS.get(event.stop, event.stop)
            self._span.set_attribute("gen_ai.response.finish_reasons", [reason])
            self._span.set_attribute("gen_ai.response.time_to_first_chunk", self._seconds or self._so_far)
            self._used(event.usage)
            if self._source.content:
                self._span.set_attribute("gen_ai.output.messages", _messages([event.message], reason))
        elif isinstance(event, Retrying):
            self._retries += 1
            self._span.set_attribute("ferrule.request.retries", self._retries)
        elif not self._seconds and not isinstance(event, Preparing):
            self._seconds = self._so_far

    @property
    def _so_far(self) -> float:
        return perf_counter() - self._began


def _messages(messages: Any, finish_reason: str = "") -> str:
    """Messages in the conventions' JSON form, without secrets; the oldest are left out of what is too long."""
    shown: list[str] = []
    left = _MAX_MESSAGES
    for message in reversed(messages):
        form = _message(message)
        if finish_reason:
            form["finish_reason"] = finish_reason
        text = json.dumps(form, ensure_ascii=False, default=str)
        left -= len(text)
        if left < 0 and shown:
            break
        shown.append(text)
    return f"[{', '.join(reversed(shown))}]"


def _message(message: Message) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if isinstance(message, AssistantMessage):
        if message.thinking:
            parts.append({"type": "reasoning", "content": keep_text(message.thinking, _MAX_TEXT)})
        if message.text:
            parts.append({"type": "text", "content": keep_text(message.text, _MAX_TEXT)})
        parts += [
            {"type": "tool_call", "id": one.id, "name": one.name, "arguments": keep_arguments(one.arguments).text}
            for one in message.calls
        ]
        return {"role": "assistant", "parts": parts}
    if isinstance(message, UserMessage):
        parts.append({"type": "text", "content": keep_text(message.text, _MAX_TEXT)})
        parts += [{"type": "attachment", "mime_type": one.media_type} for one in message.attachments]
        return {"role": "user", "parts": parts}
    parts += [
        {"type": "tool_call_response", "id": one.call_id, "response": keep_text(one.llm_content, _MAX_TEXT)}
        for one in message.results
    ]
    return {"role": "tool", "parts": parts}


def _error_type(error: BaseException) -> str:
    if isinstance(error, ToolFailed):
        error = error.cause
    if isinstance(error, ModelError):
        return error.fault.value
    if isinstance(error, (ToolError, StoppedError)):
        return error.kind.value
    if isinstance(error, TimeoutError):
        return ErrorKind.TIMEOUT.value
    if isinstance(error, asyncio.CancelledError):
        return ErrorKind.CANCELLED.value
    return type(error).__qualname__
