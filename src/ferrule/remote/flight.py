"""A call that was handed to other machines: what travels with it, what its tool asks for, and what it came to."""

from __future__ import annotations

import sys
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_json

from ferrule.core.call import RawCall
from ferrule.core.elicitation import current_elicitor
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.phrases import phrase
from ferrule.remote.wire import RemoteCall, RemoteError, pack_result, plain, read_result

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from ferrule.core.context import ToolContext
    from ferrule.pipeline.stages import Call

_MOST_STATE = 65_536
_UNSURE = phrase("It may have run. Check whether it is done before you do it again.")
_NOT_RUN = phrase("It was not run; the same call may work later.")


class Flight:
    """A call that was handed over and has no result yet."""

    def __init__(self, call: RemoteCall, context: ToolContext | None, loop: asyncio.AbstractEventLoop) -> None:
        self.call = call
        self.context = context
        self.done: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.told: dict[str, Any] | None = None
        """What it came to."""
        self.worker: str | None = None
        self.heard = self.sent = monotonic()
        self.checked = 0.0
        self.deferred = 0
        self.revision = 0
        """Of the claim that was seen last."""
        self.asked: dict[int, asyncio.Task[dict[str, Any]]] = {}
        """What the tool asked for, by number: other calls, an approval, the model."""
        self.seen_events = 0
        self.around = copy_context()
        """What the tool asks for is done in the caller's surroundings: its trace, and whoever it can ask."""

    def end(self, told: dict[str, Any]) -> None:
        if self.told is None:
            self.told = told
            if not self.done.done():
                self.done.set_result(told)


async def granted(flight: Flight, what: str, given: Any) -> Any:
    """Do what a tool on another machine asks of the machine where its call was made."""
    context = flight.context
    if context is None:
        raise RemoteError("the call has no context")
    match what:
        case "call":
            raw = RawCall(given["name"], given["arguments"], version=given["version"])
            # Through its port, which keeps the version; `call` lacks that.
            port: Any = context._calls()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            return pack_result(await port.run(raw, session=context.session, parent=context))
        case "batch":
            calls = [
                RawCall(one["name"], one["arguments"], id=one["id"], version=one["version"]) for one in given["calls"]
            ]
            results = await context.batch(calls, given=given["given"])
            return [{"id": one.call_id, "tool": one.tool, **pack_result(one)} for one in results]
        case "approve":
            from pydantic import TypeAdapter

            from ferrule.core.call import Effects

            return plain(await context.approve(TypeAdapter(Effects).validate_python(given)))
        case "complete":
            return await context.model_adapter.complete(given)
        case "elicit":
            elicitor = current_elicitor()
            if elicitor is None:
                return {"action": "decline", "content": {}, "why": "approval isn't available here"}
            with context.asking_person():
                return plain(await elicitor.elicit(given["message"], given["schema"], url=given["url"]))
        case _:
            raise RemoteError(f"this version cannot answer {what!r}")


def value_of(call: Call, flight: Flight, told: dict[str, Any]) -> Any:
    """The value of a call that succeeded; raises `StoppedError` for any other end."""
    invocation = call.invocation
    name, details = invocation.tool.name, {"worker": flight.worker, "pool": flight.call.pool}
    if "result" in told:
        if changed := told.get("state"):
            call.session.state.update(changed["set"])
            for key in changed["removed"]:
                call.session.state.pop(key, None)
        result = read_result(told["result"], invocation.call_id, name)
        stage = result.metadata.get("stage")
        if result.error is None or stage is None:
            return result
        error = result.error
        raise StoppedError(Stage(stage), error.kind, error.message, error.suggestion, error.details)
    if "refused" in told:
        raise not_run(name, told["refused"])
    if "unstarted" in told:
        waited = phrase("No worker of the pool `{pool}` took it within {seconds} s.", pool=flight.call.pool,
                        seconds=f"{flight.call.valid:g}")  # fmt: skip
        gone = phrase("The worker that has its workspace has left.")
        raise not_run(name, gone if told["unstarted"] == "gone" else waited)
    raise StoppedError(
        Stage.EXECUTE,
        ErrorKind.EXECUTION,
        phrase("`{name}` is lost: {why}", name=name, why=told.get("lost", "")),
        None if invocation.tool.read_only else _UNSURE,
        {"lost": True, **details},
    )


def not_run(name: str, why: str) -> StoppedError:
    return StoppedError(
        Stage.EXECUTE, ErrorKind.EXECUTION, phrase("`{name}` was not run: {why}", name=name, why=why), _NOT_RUN
    )


def fell_silent(flight: Flight) -> str:
    return phrase("its worker `{worker}` stopped answering.", worker=flight.worker or "?")


def small_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """What of a session can travel: plain values, and not many."""
    if not values:
        return {}
    kept: dict[str, Any] = {}
    for name, value in values.items():
        with suppress(PydanticSerializationError, ValueError, RecursionError):
            if len(to_json(value)) <= _MOST_STATE:
                kept[name] = value
    return kept if len(to_json(kept)) <= _MOST_STATE else {}


def names_left(values: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str] | None:
    """What of a session stays where it is, by name; None where these are too many to tell."""
    left = [name for name in values if name not in kept]
    return left if sum(len(name) for name in left) <= _MOST_STATE // 16 else None


def trace_context() -> dict[str, str]:
    """Where the call stands in a trace, for the spans of the worker."""
    carrier: dict[str, str] = {}
    if "opentelemetry" in sys.modules:
        from opentelemetry import propagate

        propagate.inject(carrier)
    return carrier
