"""Hooks: code that a user or a program runs before and after calls.

A hook can refuse a call, change its input, or add text that the model reads. It can never allow anything: changed input
is validated and authorised like any other. A hook that fails, hangs or returns nonsense refuses the call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from ferrule.core.call import RawCall
from ferrule.core.context import refuse_single
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.nearest import is_named
from ferrule.core.phrases import advice, glued, phrase, said_by
from ferrule.core.shown_text import cut_counted, visible
from ferrule.pipeline.cleaning import ends_from_outside

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.core.context import Session
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Invocation, Tool
    from ferrule.pipeline.stages import Call

logger = logging.getLogger("ferrule.calls")
NO_REASON = phrase("it gave no reason")

_MOST_CONTEXT = 10_000


@dataclass(slots=True, frozen=True)
class HookReply:
    """A hook's answer about a call. Without any of these the call continues unchanged."""

    deny: str | None = None
    """Why the call must not run; the model reads it."""
    arguments: Mapping[str, Any] | None = None
    """The whole input to run with instead."""
    context: str | None = None
    """Text for the model, added after the result."""

    def __post_init__(self) -> None:
        for name, kind, wanted in (
            ("deny", str, "text"),
            ("arguments", Mapping, "a mapping"),
            ("context", str, "text"),
        ):
            if not isinstance(given := getattr(self, name), (kind, type(None))):
                raise TypeError(f"HookReply: `{name}` must be {wanted}, not {given!r}.")


@dataclass(slots=True, frozen=True)
class Hook:
    """A function to run before a call, one to run after it, or both. `tools` are names, optionally with `*`."""

    name: str
    before: Callable[[Invocation, Session], Awaitable[HookReply | None] | HookReply | None] | None = None
    after: Callable[[Invocation, ToolResult, Session], Awaitable[HookReply | None] | HookReply | None] | None = None
    tools: tuple[str, ...] = ("*",)
    timeout: float = 10.0

    def __post_init__(self) -> None:
        refuse_single("Hook", tools=self.tools)

    def is_for(self, tool: str) -> bool:
        return is_named(tool, self.tools)


def hooks_of(kind: type[Any], hooks: Iterable[Any], elsewhere: str) -> tuple[Any, ...]:
    """The hooks as they were given. Raises `TypeError` for one of another type, and one without a function."""
    listed = tuple(hooks)
    for one in listed:
        if type(one) is not kind:
            raise TypeError(f"Hooks are of the type {kind.__name__} here, not {one!r}. {elsewhere}")
        if not (callable(one.before) or callable(one.after)):
            raise TypeError(f"The hook `{one.name}` has no function `before` and no function `after`.")
    return listed


class Hooks:
    """All hooks of a runtime, which run one after the other in the order given."""

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        listed: tuple[Hook, ...] = hooks_of(Hook, hooks, "Hooks of a model go to an Agent.")
        self._before = [hook for hook in listed if hook.before]
        self._after = [hook for hook in listed if hook.after]
        self.any = bool(self._before or self._after)

    def may_change(self, tool: str) -> bool:
        """Whether a hook may change the input of this tool's calls, so that nothing can be planned by it."""
        return any(hook.is_for(tool) for hook in self._before)

    async def before(self, call: Call, read: Callable[[Tool[Any], RawCall], Invocation]) -> list[str]:
        """Run the hooks before a call, which may replace its input, and `read` that. Returns text for the model."""
        words: list[str] = []
        for hook in self._before:
            invocation = call.invocation
            if not hook.is_for(invocation.tool.name):
                continue
            ask = partial(cast("_Ask", hook.before), invocation, call.session)
            said = await ask_hook(hook, ask, partial(_broken, invocation, hook))
            if said.deny is not None:
                message = phrase(
                    "`{name}` was not run: the hook `{hook}` refused it: {why}.",
                    name=invocation.tool.name,
                    hook=hook.name,
                    why=said.deny.strip().rstrip(".") or NO_REASON,
                )
                what_helps = advice(
                    "Do not try the same call again; try another approach, or ask the user.", "Your hook decides this."
                )
                raise StoppedError(Stage.AUTHORISE, ErrorKind.PERMISSION, message, what_helps)
            words += _bounded(said.context)
            if said.arguments is not None:
                tool = invocation.tool
                raw = RawCall(tool.name, dict(said.arguments), id=invocation.call_id, version=tool.version)
                try:
                    call.invocation = read(tool, raw)
                except StoppedError as stopped:
                    why = phrase("changed the input to one that is not valid: {why}", why=stopped.message)
                    raise _broken(invocation, hook, why) from None
                call.invocation.session = call.session
        return words

    async def after(self, call: Call, result: ToolResult, words: list[str]) -> ToolResult:
        """Run the hooks after a call. Returns the result with their text added, unless one withholds it."""
        invocation, added = call.invocation, list(words)
        for hook in self._after:
            if not hook.is_for(invocation.tool.name):
                continue
            ask = partial(cast("_Ask", hook.after), invocation, result, call.session)
            said = await ask_hook(
                hook, ask, lambda what, one=hook: _held_back(invocation, one, phrase("it {did}", did=what))
            )
            if said.deny is not None:
                raise _held_back(invocation, hook, said.deny or NO_REASON)
            added += _bounded(said.context)
        if not added:
            return result
        content = "\n\n".join([result.llm_content, *added])
        return replace(result, llm_content=content, metadata={**result.metadata, "hooks": added})


_Ask = Callable[..., Awaitable[HookReply | None] | HookReply | None]


class _Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def timeout(self) -> float: ...


async def ask_hook(
    hook: _Named, ask: Callable[[], Any], broken: Callable[[str], StoppedError], other: Any = HookReply
) -> Any:
    """A hook's reply: a `HookReply`, or an object of the `other` type. If the hook fails, raises what `broken` makes of
    the reason.
    """
    limit = asyncio.timeout(hook.timeout)
    try:
        async with limit:
            said: Any = ask()
            if isinstance(said, Awaitable):
                said = await cast("Awaitable[Any]", said)
    except BaseException as error:
        if ends_from_outside(error):
            raise
        if limit.expired():
            raise broken(phrase("gave no answer within {seconds} s", seconds=f"{hook.timeout:g}")) from None
        logger.info("Hook %s failed", hook.name, exc_info=error)
        what = glued(f"{type(error).__name__}: ", said_by(error))
        raise broken(phrase("failed ({error})", error=what)) from None
    if said is None:
        return HookReply()
    if not isinstance(said, (HookReply, other)):
        kind = type(said).__name__
        raise broken(phrase("answered with {kind}, where `HookReply` or nothing was expected", kind=kind))
    return said


def _bounded(words: str | None) -> list[str]:
    return [visible(cut_counted(words, _MOST_CONTEXT))] if words else []


def _held_back(invocation: Invocation, hook: Hook, why: str) -> StoppedError:
    """The early exit of a call that ran, and whose hook afterwards refused or failed."""
    return StoppedError(
        Stage.FORMAT,
        ErrorKind.PERMISSION,
        phrase(
            "`{name}` ran, but the hook `{hook}` held its result back: {why}.",
            name=invocation.tool.name,
            hook=hook.name,
            why=why,
        ),
        advice(
            "Do not run it again to see the result; go on without it, or ask the user.",
            "It has already run. Look at the hook before you run it again.",
        ),
    )


def _broken(invocation: Invocation, hook: Hook, what: str) -> StoppedError:
    return StoppedError(
        Stage.AUTHORISE,
        ErrorKind.PERMISSION,
        phrase(
            "`{name}` was not run: the hook `{hook}` {what}, and a failing hook refuses the call.",
            name=invocation.tool.name,
            hook=hook.name,
            what=what,
        ),
        advice(
            "The user must fix or remove the hook; another call will not help.",
            "Fix or remove the hook; another call will not help.",
        ),
    )
