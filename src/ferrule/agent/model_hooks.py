"""Hooks around the model: they check a request before it is sent, and an answer before anyone sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.model import AssistantMessage, ModelRequest, UserMessage
from ferrule.core.phrases import phrase
from ferrule.pipeline.hooks import NO_REASON, HookReply, ask_hook, hooks_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ferrule.core.context import Session


@dataclass(slots=True, frozen=True)
class ModelHook:
    """A function to run before each request to the model, one to run on its answer, or both.

    Each may return a `HookReply`: `deny` ends the turn, with nothing of the request sent or of the answer kept.
    `context` is text for the model: `before` adds it to this request, `after` has the model answer again with it.
    `before` may also return another request, and `after` another message in place of the answer. A hook that fails
    denies. While an agent has an `after`, an answer is shown only once it has passed, and not piece by piece.
    """

    name: str
    before: (
        Callable[[ModelRequest, Session], Awaitable[ModelRequest | HookReply | None] | ModelRequest | HookReply | None]
        | None
    ) = None
    after: (
        Callable[
            [AssistantMessage, Session],
            Awaitable[AssistantMessage | HookReply | None] | AssistantMessage | HookReply | None,
        ]
        | None
    ) = None
    timeout: float = 10.0


class ModelHooks:
    """The model hooks of an agent, which run one after the other in the order given."""

    def __init__(self, hooks: Iterable[ModelHook] = ()) -> None:
        listed: tuple[ModelHook, ...] = hooks_of(ModelHook, hooks, "Hooks of calls go to a Runtime.")
        self._before = [hook for hook in listed if hook.before is not None]
        self._after = [hook for hook in listed if hook.after is not None]
        self.checks_requests, self.checks_answers = bool(self._before), bool(self._after)

    async def before(self, request: ModelRequest, session: Session) -> ModelRequest:
        """The request as the hooks leave it; raises `StoppedError` if one denies it."""
        for hook in self._before:
            reply = await _reply(hook, partial(hook.before or _nothing, request, session), ModelRequest)
            if isinstance(reply, ModelRequest):
                request = reply
                continue
            if reply.deny is not None:
                raise _stopped(phrase("The hook `{hook}` refused the request: {why}.", hook=hook.name, why=_why(reply)))
            if reply.context:
                request = replace(request, messages=(*request.messages, UserMessage(reply.context)))
        return request

    async def after(self, message: AssistantMessage, session: Session) -> AssistantMessage | str:
        """The message as the hooks leave it, or text that the model is to answer again with.

        Raises `StoppedError` if one denies it.
        """
        for hook in self._after:
            reply = await _reply(hook, partial(hook.after or _nothing, message, session), AssistantMessage)
            if isinstance(reply, AssistantMessage):
                message = reply
                continue
            if reply.deny is not None:
                raise _stopped(phrase("The hook `{hook}` refused the answer: {why}.", hook=hook.name, why=_why(reply)))
            if reply.context:
                return reply.context
        return message


def _nothing(*_: object) -> None: ...


async def _reply(hook: ModelHook, ask: Callable[[], Any], other: type) -> Any:
    def broken(what: str) -> StoppedError:
        said = phrase("The hook `{hook}` {what}, and a failing hook ends the turn.", hook=hook.name, what=what)
        return _stopped(said)

    reply = await ask_hook(hook, ask, broken, other)
    if isinstance(reply, HookReply) and reply.arguments is not None:
        raise broken(phrase("answered with `arguments`, which only a hook of calls can replace"))
    return reply


def _why(reply: HookReply) -> str:
    return (reply.deny or "").strip().rstrip(".") or NO_REASON


def _stopped(message: str) -> StoppedError:
    return StoppedError(Stage.AUTHORISE, ErrorKind.PERMISSION, message)
