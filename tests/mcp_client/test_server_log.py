"""A server's own words: the last of them, without secrets."""

from __future__ import annotations

from ferrule.mcp_client.bounds import STDERR_KEPT
from ferrule.mcp_client.failures import ServerLog
from ferrule.process.references import Variables


def test_the_last_is_kept() -> None:
    log = ServerLog()
    for at in range(20_000):
        log.add(f"line {at}\n".encode())
    assert len(log.text) <= STDERR_KEPT
    assert log.last_line == "line 19999"
    assert log.left_out > 0


def test_secrets_are_taken_out() -> None:
    variables = Variables({"TOKEN": "hunter2hunter2"})
    variables.fill("${TOKEN}")
    log = ServerLog(variables)
    log.add(b"connecting with hunter2hunter2\nusing AKIAIOSFODNN7EXAMPLE\n")
    log.add_garbage(b"hello hunter2hunter2")
    assert "hunter2" not in log.text + log.garbage()
    assert "AKIAIOSFODNN7EXAMPLE" not in log.text
    assert log.garbage() == "hello [TOKEN]"


def test_a_line_is_short_and_plain() -> None:
    log = ServerLog()
    log.add(b"\x1b[31m" + b"x" * 1000 + b"\n\n  \n")
    assert len(log.last_line) == 300
    assert "\x1b" not in log.last_line


def test_garbage_is_shown_as_a_short_plain_sample() -> None:
    log = ServerLog()
    assert log.garbage() == ""
    for word in (b"first", b"\x1b[31msecond"):
        log.add_garbage(word)
    assert (log.garbage(), log.garbage_lines) == ("first \\x1b[31msecond", 2)
    log.add_garbage(b"x" * 1000)
    assert len(log.garbage()) == 120


def test_garbage_is_told_from_what_came_before() -> None:
    log = ServerLog()
    for at in range(50):
        log.add_garbage(f"greeting {at}".encode())
    heard = log.garbage_lines
    assert log.garbage(heard) == ""
    log.add_garbage(b"oops")
    assert log.garbage(heard) == "oops"
    assert log.garbage().startswith("greeting 31 greeting 32 ")
