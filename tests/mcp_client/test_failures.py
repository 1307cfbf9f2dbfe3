"""Why a server failed, in words that a model can act on."""

from __future__ import annotations

from inline_snapshot import snapshot
from mcp.shared.exceptions import MCPError

from ferrule.core.errors import MissingExtraError
from ferrule.mcp_client.failures import (
    Failed,
    NotYet,
    ServerLog,
    Trouble,
    cannot_be_used,
    reason_of,
    refused_call,
    trouble_of,
    with_garbage,
)
from ferrule.mcp_client.stdio_transport import CannotStart
from ferrule.process.references import MissingValueError


def test_the_innermost_cause_is_told() -> None:
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [ConnectionError("refused\nby  peer")])])
    assert reason_of(group) == "ConnectionError: refused by peer"
    assert reason_of(Failed("it ended")) == "it ended"
    assert reason_of(ValueError()) == "ValueError"
    assert reason_of(MCPError(code=-1, message="no")) == "it answered: no"
    assert len(reason_of(ValueError("x" * 10_000))) == 300


def test_what_kind_of_trouble_it_is_is_known_from_the_cause() -> None:
    group = ExceptionGroup("outer", [MissingValueError("the variable `A` is not set")])
    assert trouble_of(group) is Trouble.VALUE
    assert trouble_of(CannotStart("there is no program")) is Trouble.PROGRAM
    assert trouble_of(MissingExtraError("An MCP server", "mcp")) is Trouble.EXTRA
    assert trouble_of(Failed("it wants you to sign in", Trouble.SIGN_IN)) is Trouble.SIGN_IN
    assert trouble_of(ValueError()) is Trouble.OTHER


def test_what_was_said_instead_of_messages_is_shown() -> None:
    log = ServerLog()
    log.add(b"trouble\n")
    log.add_garbage(b"Usage: server [OPTIONS]")
    error = cannot_be_used("peer", NotYet(with_garbage("it ended", log), 6.2), log)
    assert (error.message, error.suggestion) == snapshot(
        (
            "The MCP server `peer` cannot be used: it ended (its output contains something that is not a protocol message: 'Usage: server [OPTIONS]'). It last said: 'trouble'.",  # noqa: E501
            "It is tried again in 7 s. The user can see more with `ferrule mcp test peer`.",
        )
    )


def test_codes_have_kinds() -> None:
    kinds = {code: refused_call("peer", "x", MCPError(code=code, message="no"), ServerLog()).kind.value for code in
             (-32602, -32601, -32700, -32800, -32603, 5)}  # fmt: skip
    assert kinds == snapshot(
        {
            -32602: "validation_error",
            -32601: "not_found_error",
            -32700: "execution_error",
            -32800: "cancelled_error",
            -32603: "execution_error",
            5: "execution_error",
        }
    )
    assert refused_call("peer", "x", MCPError(code=5, message=""), ServerLog()).message == snapshot(
        "The MCP server `peer` refused `x`: no reason was given"
    )


def test_a_server_that_cannot_ask_in_the_newest_revision_is_told_how_to() -> None:
    words = "Cannot send 'elicitation/create': this transport context has no back-channel."
    error = refused_call("demo", "book", MCPError(-32600, words), ServerLog())
    assert error.message.startswith("The MCP server `demo` wanted to ask something for `book` and could not: ")
    assert error.suggestion is not None
    assert 'protocol = "2025-11-25"' in error.suggestion
