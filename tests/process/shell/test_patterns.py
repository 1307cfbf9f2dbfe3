"""Patterns in lines as they come."""

from __future__ import annotations

import asyncio

import pytest

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.process.shell.patterns import LineSearch


def search(pattern: str, *pieces: str, regex: bool = False, seconds: float = 20.0) -> str | None:
    async def main() -> str | None:
        looking = LineSearch(pattern, regex=regex)
        try:
            for piece in pieces:
                if (found := await looking.feed(piece, seconds)) is not None:
                    return found
            return await looking.rest(seconds)
        finally:
            looking.close()

    return asyncio.run(main())


def test_plain_words_across_pieces() -> None:
    assert search("a.b", "axb\nxx a.", "b yy\n") == "xx a.b yy"
    assert search("ready", "rea", "dy") == "ready"
    assert search("none", "a\nb\n") is None


def test_a_regular_expression() -> None:
    assert search(r"port \d+$", "port x\n", "on port 80\n", regex=True) == "on port 80"
    assert search(r"^b$", "a\n", "b", regex=True) == "b"


def test_one_that_would_never_end_is_given_up() -> None:
    with pytest.raises(ToolError) as caught:
        search(r"(a+)+$", "a" * 60 + "!\n", regex=True, seconds=0.5)
    assert caught.value.kind == ErrorKind.TIMEOUT


def test_one_that_is_none() -> None:
    with pytest.raises(ToolError, match="not a regular expression"):
        search("(", regex=True)
