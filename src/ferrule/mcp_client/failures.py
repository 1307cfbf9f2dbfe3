"""Why a server failed, in words: for the user, and for the model whose call it was."""

from __future__ import annotations

import re
from collections import deque
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import Phrase, advice, glued, phrase, said_by
from ferrule.core.secrets import redact_text
from ferrule.core.shown_text import flattened, shown_argument
from ferrule.mcp_client.bounds import NOT_READ, STDERR_KEPT

if TYPE_CHECKING:
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

    from ferrule.process.references import Variables

_LONGEST = 2_000
_LONGEST_REASON = 300
_PARSE_ERROR, _ADDRESS_FIRST = -32700, -32042
_KINDS = {-32602: ErrorKind.VALIDATION, -32601: ErrorKind.NOT_FOUND, -32800: ErrorKind.CANCELLED}
"""Of the protocol's codes for wrong parameters, for what is not there, and for what was cancelled."""
NO_MESSAGE = phrase("the answer is not a protocol message")
_CANNOT_ASK = "no back-channel"  # in the SDK's words
_HTTP_REFUSED = re.compile(r"HTTP (?:40[13]|429|5\d\d)\b|Redirect to ")
_SDK_COULD_NOT_PARSE = re.compile(r"Failed to parse [^:]+: \d+ validation error")
_NOT_READ = "are not read"
_TOO_MUCH = phrase("Ask for less at once, if the tool can; the same call would fail the same way.")
_BROKEN = phrase("Its author has to fix this. The call may have run: check what was done before you call it again.")
_SDK_ON_NO_ANSWER = re.compile(r"Unexpected content type:|server answered a request with 202")
_SDK_ON_A_FAILED_BODY = re.compile(r"(?:Failed to parse [^:]+|SSE stream failed): ")


class Trouble(Enum):
    """What kind of thing keeps a server from being used: what helps depends on it."""

    VALUE = "a variable or a secret that it needs is not there"
    PROGRAM = "its program cannot be started"
    ADDRESS = "its address cannot be reached"
    SIGN_IN = "it wants the user to sign in"
    EXTRA = "a part of Ferrule is not installed"
    OTHER = "it does not answer, or not as it should"


class Failed(Exception):  # noqa: N818 - reads as what it says
    """A server cannot be used; `reason` completes "the server failed: …"."""

    def __init__(self, reason: str, trouble: Trouble = Trouble.OTHER) -> None:
        super().__init__(reason)
        self.reason = reason
        self.trouble = trouble


# By name: what raises them is imported only where it is used.
_TROUBLES = {
    "MissingValueError": Trouble.VALUE,
    "CannotStart": Trouble.PROGRAM,
    "ConnectError": Trouble.ADDRESS,
    "ConnectTimeout": Trouble.ADDRESS,
    "OAuthFlowError": Trouble.SIGN_IN,
    "OAuthRegistrationError": Trouble.SIGN_IN,
    "OAuthTokenError": Trouble.SIGN_IN,
    "MissingExtraError": Trouble.EXTRA,
}


_OWN_WORDS = ("CannotStart", "MissingValueError", "MissingExtraError", "Malformed", "OAuthFlowError")


class NotYet(Failed):
    """A server that failed is not tried again before some seconds have passed."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Malformed(RuntimeError):  # noqa: N818 - reads as what it says
    """An answer that is none in the protocol's sense; completes "a result that does not fit the protocol: …"."""


# What a server writes beside the protocol: the last of it is kept, for whoever asks why it failed.


_LONGEST_LINE = 300
_LONGEST_SAMPLE = 120
_SAMPLES = 20


class ServerLog:
    """A bounded tail of a server's standard error, and of the lines on its output that were no messages."""

    def __init__(self, variables: Variables | None = None) -> None:
        self._variables = variables
        self._kept = bytearray()
        self.left_out = 0
        self.garbage_lines = 0
        self._garbage: deque[str] = deque(maxlen=_SAMPLES)

    def add(self, piece: bytes) -> None:
        self._kept += piece
        over = len(self._kept) - STDERR_KEPT
        if over > 0:
            del self._kept[:over]
            self.left_out += over

    def add_garbage(self, line: bytes) -> None:
        self.garbage_lines += 1
        self._garbage.append(line[: 4 * _LONGEST_SAMPLE].decode(errors="replace"))

    @property
    def text(self) -> str:
        """What is kept, without secrets."""
        return self.clean(self._kept.decode(errors="replace"))

    @property
    def last_line(self) -> str:
        """The last thing that it said, shortened."""
        return flattened(next((line for line in reversed(self.text.splitlines()) if line.strip()), ""), _LONGEST_LINE)

    def garbage(self, since: int = 0) -> str:
        """A sample of what it wrote that was no message, after so many lines; of many, from the last few."""
        fresh = min(self.garbage_lines - since, len(self._garbage))
        lines = list(self._garbage)[len(self._garbage) - fresh :]
        return flattened(self.clean("\n".join(dict.fromkeys(lines))), _LONGEST_SAMPLE)

    def clean(self, text: str) -> str:
        """Words about the server, or of it, without the secrets that it was given."""
        if isinstance(text, Phrase):
            return text.mapped(self.clean)
        if self._variables is not None:
            text = self._variables.masked(text)
        return redact_text(text)


# What is told of a failure


def reason_of(error: BaseException) -> str:
    """The innermost cause, in one short line."""
    reason = _reason(_innermost(error))
    short = reason.rstrip(".")[:_LONGEST_REASON]
    return reason if short == reason else short  # a phrase stays one


def trouble_of(error: BaseException) -> Trouble:
    error = _innermost(error)
    return error.trouble if isinstance(error, Failed) else _TROUBLES.get(type(error).__name__, Trouble.OTHER)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _reason(error: BaseException) -> str:
    name, words = type(error).__name__, " ".join(str(error).split())[:_LONGEST_REASON]
    if isinstance(error, Failed) or name in _OWN_WORDS:
        said = said_by(error)
        return said if said == words else words
    if name in ("OAuthRegistrationError", "OAuthTokenError"):
        return phrase(
            "signing in failed ({words}); a server that takes a token needs it in the header `Authorization`",
            words=words,
        )
    if name in ("ConnectError", "ConnectTimeout"):
        return phrase("{place} cannot be reached: {why}", place=_place(error), why=words or phrase("nothing answers"))
    if name == "ValidationError":
        return phrase(
            "it does not follow the protocol: {problem}", problem=first_problem(cast("ValidationError", error))
        )
    if name == "MCPError" and _SDK_COULD_NOT_PARSE.match(words):
        return phrase("its answer is not a protocol message")
    if name == "MCPError":
        return phrase("it answered: {words}", words=words)
    if name == "RemoteProtocolError":  # said by whoever reads HTTP
        return phrase("its answer could not be read: {words}", words=words)
    return f"{name}: {words}" if words else name


def _place(error: BaseException) -> str:
    """Where a request went, without what else its address may hold."""
    url = getattr(getattr(error, "_request", None), "url", None)
    if url is None:
        return phrase("its address")
    port = f":{url.port}" if url.port else ""
    return f"{url.host}{port}"


def _error(
    server: str, message: str, suggestion: str, kind: ErrorKind = ErrorKind.EXECUTION, **details: Any
) -> ToolError:
    return ToolError(message, kind=kind, suggestion=suggestion, details={"server": server, **details})


def cannot_be_used(server: str, failed: Failed, log: ServerLog, *, plugin: bool = False) -> ToolError:
    """For a call of a server that did not start."""
    message = phrase(
        "The MCP server `{server}` cannot be used: {reason}.{said}",
        server=server,
        reason=failed.reason,
        said=_last_said(log),
    )
    again = (
        phrase("It is tried again in {seconds} s.", seconds=ceil(failed.seconds))
        if isinstance(failed, NotYet)
        else phrase("The next call tries again.")
    )
    typed = shown_argument(server)
    more = (
        advice(
            "{again} The user can see more with `ferrule doctor`.", "{again} `ferrule doctor` shows more.", again=again
        )
        if plugin
        else advice(
            "{again} The user can see more with `ferrule mcp test {server}`.",
            "{again} `ferrule mcp test {server}` shows more.",
            again=again,
            server=typed,
        )
    )
    return _error(server, message, more)


def changed_meanwhile(server: str, tool: str, *, gone: bool) -> ToolError:
    """For a call of a tool that is not what it was when the call was allowed."""
    if gone:
        message = phrase(
            "The MCP server `{server}` no longer offers `{tool}`. Nothing was run.", server=server, tool=tool
        )
        return _error(
            server, message, phrase("Use another tool; its list of tools was refreshed."), ErrorKind.NOT_FOUND
        )
    message = phrase(
        "`{tool}` of the MCP server `{server}` has changed since this call was allowed. Nothing was run.",
        tool=tool,
        server=server,
    )
    look = phrase("Read the tool's current description and parameters, and call it again.")
    return _error(server, message, look, ErrorKind.PERMISSION)


def was_closed(server: str) -> ToolError:
    """For a call of a server that the program has closed for good."""
    message = phrase("The MCP server `{server}` is closed. Nothing was run.", server=server)
    return _error(server, message, phrase("Use another tool."), ErrorKind.NOT_FOUND)


class EndedInCall(ToolError):  # noqa: N818 - reads as what it says
    """A server that went away while a call ran: nobody knows whether the call took effect."""


def ended_in_call(server: str, reason: str, log: ServerLog, *, garbage: str = "") -> EndedInCall:
    """For a call whose server went away while it ran, and perhaps wrote what is no message meanwhile."""
    message = phrase(
        "The MCP server `{server}` ended while the call ran: {reason}.{said} Whether the call took effect is unknown.",
        server=server,
        reason=reason,
        said=glued(" ", instead_of_answer(garbage)) if garbage else _last_said(log),
    )
    look = phrase("Check what was done before you call it again; the next call starts the server again.")
    return EndedInCall(message, suggestion=look, details={"server": server})


def was_undone(server: str, undone: tuple[str, ...]) -> ToolError:
    """For a call after which things were found that no program of strangers may leave behind."""
    message = phrase("The MCP server `{server}` was ended. {what}", server=server, what=" ".join(dict.fromkeys(undone)))
    look = advice(
        "Do without it, or ask the user to make this change; the next call starts the server again.",
        "Make this change yourself; the next call starts the server again.",
    )
    return _error(server, message, look, ErrorKind.PERMISSION)


def refused_call(server: str, tool: str, error: MCPError, log: ServerLog) -> ToolError:
    """For a call that the server answered with an error of the protocol."""
    said = log.clean(flattened(str(error), _LONGEST))
    words = said or phrase("no reason was given")
    if error.code == _PARSE_ERROR or was_not_read(error) or _SDK_ON_NO_ANSWER.match(words):
        if was_not_read(error):
            words = _SDK_ON_A_FAILED_BODY.sub("", words)
        elif _SDK_COULD_NOT_PARSE.match(words):
            words = NO_MESSAGE
        elif _SDK_ON_NO_ANSWER.match(words):
            words = phrase("{what} ({why})", what=NO_MESSAGE, why=words[0].lower() + words[1:].rstrip(":"))
        message = phrase(
            "The MCP server `{server}` gave no usable result for `{tool}`: {words}.",
            server=server,
            tool=tool,
            words=words,
        )
        return _error(server, message, _TOO_MUCH if words.endswith(_NOT_READ) else _BROKEN, code=error.code)
    if _CANNOT_ASK in words:
        message = phrase(
            "The MCP server `{server}` wanted to ask something for `{tool}` and could not: {words}",
            server=server,
            tool=tool,
            words=words,
        )
        older = advice(
            'The user can enable that with `protocol = "2025-11-25"` for this server in their settings.',
            'Enable that with `protocol = "2025-11-25"` for this server in your settings.',
        )
        return _error(server, message, older, code=error.code)
    suggestion = phrase("Change the arguments to what the message asks for, or try another approach.")
    if _HTTP_REFUSED.match(words):
        suggestion = phrase("The arguments are not at fault. Try again later, or try another approach.")
    if error.code == _ADDRESS_FIRST:
        suggestion = advice(
            "The arguments are not at fault. Tell the user what the server waits for, or try another approach.",
            "The arguments are not at fault: the server waits for what the message says.",
        )
    message = phrase("The MCP server `{server}` refused `{tool}`: {words}", server=server, tool=tool, words=words)
    return _error(server, message, suggestion, _KINDS.get(error.code, ErrorKind.EXECUTION), code=error.code)


def was_not_read(error: MCPError) -> bool:
    """Whether an answer came, and was too much: its server is as well as before."""
    return str(error).endswith(NOT_READ)


def malformed_result(server: str, tool: str, error: Any) -> ToolError:
    """For a result that is none in the protocol's sense."""
    message = phrase(
        "`{tool}` of the MCP server `{server}` gave a result that does not fit {why}",
        tool=tool,
        server=server,
        why=phrase("the protocol: {error}.", error=error),
    )
    done = phrase("It has already taken effect; calling it again would repeat it. Its author has to fix this.")
    return _error(server, message, done)


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"`{place}`: {first['msg']}" if place else first["msg"]


def with_garbage(reason: str, log: ServerLog) -> str:
    """Why a server cannot be used, and a sample of what it wrote where its messages belong."""
    garbage = log.garbage()
    if not garbage or NO_MESSAGE in reason:  # which has a sample already
        return reason
    return phrase(
        "{reason} (its output contains something that is not a protocol message: {garbage})",
        reason=reason,
        garbage=repr(garbage),
    )


def instead_of_answer(garbage: str) -> str:
    """A sentence on what a server wrote while a call waited for its answer."""
    return phrase(
        "Meanwhile the server wrote something that is not a protocol message: {garbage}.", garbage=repr(garbage)
    )


def _last_said(log: ServerLog) -> str:
    return phrase(" It last said: {line}.", line=repr(log.last_line)) if log.last_line else ""
