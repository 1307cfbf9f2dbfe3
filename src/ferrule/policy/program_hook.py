"""A hook that is a program: it gets a call as JSON on its standard input, and answers with JSON or its exit code.

Exit code 0 lets the call go on; 2 refuses it, with standard error as the reason; anything else is a hook that does not
work, and refuses too. On 0, standard output may hold `{"deny": "why", "arguments": {…}, "context": "words"}`; empty
output says nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.phrases import phrase
from ferrule.pipeline.hooks import Hook, HookReply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.core.context import Session
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Invocation

_MOST_OUTPUT = 1_000_000
_KEYS = {"deny", "arguments", "context"}
_REFUSES = 2


class HookFailed(Exception):  # noqa: N818 - reads as what it says
    """A hook's program did not do what a hook does; the message goes on "the hook `x` failed (…)"."""


def program_hook(
    command: Sequence[str], *, event: str, tools: Sequence[str] = ("*",), timeout: float = 10.0, name: str | None = None
) -> Hook:
    """A program to ask `before` or `after` calls. It is started as it is given, without a shell."""
    arguments = tuple(command)
    if not arguments or not arguments[0]:
        raise ValueError("A hook needs a command: the program, then its arguments.")

    async def before(invocation: Invocation, session: Session) -> HookReply | None:
        return _understood(await _ask(arguments, _document("before", invocation, session), session))

    async def after(invocation: Invocation, result: ToolResult, session: Session) -> HookReply | None:
        document = {**_document("after", invocation, session), "result": result.to_dict()}
        said = _understood(await _ask(arguments, document, session))
        if said is not None and said.arguments is not None:
            raise HookFailed(phrase("it changes the input of a call that has run already"))
        return said

    shown = name or os.path.basename(arguments[0])  # noqa: PTH119 - a name, not a path
    if event == "before":
        return Hook(shown, before=before, tools=tuple(tools), timeout=timeout)
    if event == "after":
        return Hook(shown, after=after, tools=tuple(tools), timeout=timeout)
    raise ValueError(f"A hook's event is `before` or `after`, not {event!r}.")


def _document(event: str, invocation: Invocation, session: Session) -> dict[str, Any]:
    return {
        "event": event,
        "tool": invocation.tool.name,
        "kind": str(invocation.tool.kind),
        "arguments": json.loads(invocation.tool.params.dump(invocation.params)),
        "call_id": invocation.call_id,
        "session_id": session.id,
        "workspace": str(session.workspace),
        "directory": str(session.directory),
    }


class _Conversation(asyncio.SubprocessProtocol):
    """What a program says on its two pipes, until it has ended or said too much."""

    def __init__(self) -> None:
        self.said = {1: bytearray(), 2: bytearray()}
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open: set[int | str] = {1, 2, "process"}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.said[fd] += data
        if len(self.said[fd]) > _MOST_OUTPUT and not self.over.done():
            self.over.set_exception(HookFailed(phrase("it wrote more than {most} bytes", most=f"{_MOST_OUTPUT:,}")))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._ended(fd)

    def process_exited(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        self._ended("process")

    def _ended(self, what: int | str) -> None:
        self._open.discard(what)
        if not self._open and not self.over.done():
            self.over.set_result(None)

    def text(self, fd: int) -> str:
        return self.said[fd].decode("utf-8", "replace")


async def _ask(arguments: Sequence[str], document: Mapping[str, Any], session: Session) -> str:
    text = json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "replace")
    try:
        transport, talk = await asyncio.get_running_loop().subprocess_exec(
            _Conversation, *arguments, cwd=session.workspace, process_group=0
        )
    except (OSError, ValueError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise HookFailed(
            phrase("{program} could not be started: {why}", program=arguments[0], why=why.lower())
        ) from None
    try:
        given = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        given.write(text)
        given.close()  # once all is written; it need not read what it is given
        await talk.over
    finally:
        # Also what it started: as long as it has not been waited for, its number is its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        try:
            await asyncio.shield(talk.gone)
        finally:  # also when cancelled again: what left its group may hold the pipes for long
            transport.close()
    code, complaint = transport.get_returncode(), talk.text(2).strip()
    if code == _REFUSES:
        return json.dumps({"deny": complaint[:2000] or "it gave no reason"})
    if code:
        raise HookFailed(
            phrase(
                "it ended with code {code}: {complaint}",
                code=code,
                complaint=complaint[:500] or phrase("nothing on standard error"),
            )
        )
    return talk.text(1)


def _understood(output: str) -> HookReply | None:
    if not output.strip():
        return None
    try:
        said: Any = json.loads(output)
    except ValueError:
        raise HookFailed(phrase("its output is not JSON: {output}", output=f"{output.strip()[:200]!r}")) from None
    if not isinstance(said, dict):
        raise HookFailed(phrase("its output is {kind}, where an object is expected", kind=type(said).__name__))
    answer = cast("dict[str, Any]", said)
    if unknown := sorted(set(answer) - _KEYS):
        raise HookFailed(
            phrase("its output has `{key}`; the known keys are `deny`, `arguments` and `context`", key=unknown[0])
        )
    if answer.get("arguments") is not None and not isinstance(answer["arguments"], dict):
        raise HookFailed(phrase("`arguments` is not an object"))
    for key in ("deny", "context"):
        if answer.get(key) is not None and not isinstance(answer[key], str):
            raise HookFailed(phrase("`{key}` is not text", key=key))
    return HookReply(answer.get("deny"), answer.get("arguments"), answer.get("context"))
