"""Lines of messages, however they come in pieces, and none too long."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_lines import LineReader, TooLong, parse_line
from ferrule.mcp_client.stdio_transport import answered_id, looks_like_answer


class Pieces:
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    async def read(self, n: int = -1) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def read(pieces: list[bytes], most: int = 1000) -> list[bytes | TooLong | None]:
    async def gather() -> list[bytes | TooLong | None]:
        reader, found = LineReader(Pieces(pieces), most), list[bytes | TooLong | None]()
        while (line := await reader.read()) is not None:
            found.append(line)
        return found + [None] * reader.is_inside_line

    return asyncio.run(gather())


@given(st.lists(st.binary(max_size=20).map(lambda one: one.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_are_the_same_however_they_are_cut(wanted: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in wanted)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(pieces) == wanted


@given(st.integers(1, 40), st.integers(1, 100), st.integers(1, 30))
def test_a_line_that_is_too_long_is_passed_over_and_told(most: int, size: int, piece: int) -> None:
    stream = b"x" * size + b"\nnext\n"
    found = read([stream[at : at + piece] for at in range(0, len(stream), piece)], most=max(most, 4))
    first, second = found
    assert second == b"next"
    if size <= max(most, 4):
        assert first == b"x" * size
    else:
        assert isinstance(first, TooLong)
        assert first.size == size


def test_what_is_cut_off_is_told() -> None:
    assert read([b"one\ntw"]) == [b"one", None]
    assert read([b"x" * 50], most=10) == [None]


def test_the_id_is_found_at_either_end_and_nowhere_else() -> None:
    assert answered_id(b'{"jsonrpc":"2.0","id":7,"result":{', b"") == 7
    assert answered_id(b'{"result":{"content":[', b'"}]},"jsonrpc":"2.0","id": 12}') == 12
    assert answered_id(b"x" * 600 + b'"id":5,', b"") is None
    assert answered_id(b"", b'{"id":1},"id":2}') == 2


def test_a_long_answer_still_says_what_it_answers() -> None:
    (found,) = read([b'{"id":3,"result":"' + b"x" * 2000 + b'"}\n'], most=100)
    assert isinstance(found, TooLong)
    assert answered_id(found.head, found.tail) == 3


@given(st.text(st.characters(), max_size=8))
def test_half_a_character_costs_itself_alone(text: str) -> None:
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert parse_line(json.dumps({"text": text}).encode()) == {"text": whole}


@pytest.mark.parametrize("line", [b"", b"{", b'{"a": "\\ud800"', b"[" * 100_000 + b'"\\ud800"'])
def test_what_is_no_json_stays_none(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"EOF|Expecting|nested|recursion"):
        parse_line(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","result":{"content":[{"ty',
        b'{"jsonrpc":"2.0","id":7,"result":oops}',
        b"{'jsonrpc': '2.0', 'id': 7, 'result': {}}",
        b'  {"result":{"method": "GET',
        b'{"id": 7, "result": {"method": "GET',
    ],
)
def test_an_answer_is_told_by_how_it_begins(line: bytes) -> None:
    assert looks_like_answer(line)


@pytest.mark.parametrize(
    "line",
    [
        b"Welcome to my server!",
        b'INFO got {"jsonrpc":"2.0","id":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"cut',
        b'{"level":"error","error":"disk full","result":"none"}',
        b'{"got":{"jsonrpc":"2.0","id":7}}',
        b"{not json",
    ],
)
def test_what_programs_write_besides_is_no_answer(line: bytes) -> None:
    assert not looks_like_answer(line)


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.data())
def test_a_request_is_never_taken_for_an_answer_wherever_it_is_cut(params: dict[str, Any], data: st.DataObject) -> None:
    whole = json.dumps({"jsonrpc": "2.0", "method": "tools/call", "id": 7, "params": params}).encode()
    start = whole.index(b'"method"')
    at = data.draw(st.integers(start + len(b'"method":'), len(whole)))
    assert not looks_like_answer(whole[:at])
