"""Lines of input: each that is no message is one clear error, and none is an exception."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from mcp import types

from ferrule.mcp_server.stdio import RefusedMessage, read_message, too_long


def refused(line: str) -> tuple[object, int, str]:
    found = read_message(line.encode())
    assert isinstance(found, RefusedMessage)
    return found.id, found.error.code, found.error.message


def test_messages_are_read() -> None:
    request = read_message(b'{"jsonrpc":"2.0","id":"a","method":"ping"}')
    assert isinstance(request, types.JSONRPCRequest)
    note = read_message(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert isinstance(note, types.JSONRPCNotification)
    answer = read_message(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert isinstance(answer, types.JSONRPCResponse)
    error = read_message(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}')
    assert isinstance(error, types.JSONRPCError)
    assert not isinstance(error, RefusedMessage)


def test_what_is_no_message_is_told_why() -> None:
    lines = [
        "garbage",
        '{"jsonrpc":"2.0","id":1,"method":"ping"',
        "[]",
        '[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
        "7",
        '{"id":1,"method":"ping"}',
        '{"jsonrpc":"2.0","id":1,"method":5}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}',
        '{"jsonrpc":"2.0","id":null,"method":"ping"}',
        '{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        '{"jsonrpc":"2.0","id":[1],"method":"ping"}',
        '{"jsonrpc":"2.0","id":3}',
        "[" * 100_000,
        r'{"jsonrpc":"2.0","id":4,"method":"ping","params":{"text":"\ud800"}}',
        r'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}',
    ]
    assert [refused(line) for line in lines] == snapshot(
        [
            (None, -32700, "This line is not valid JSON: Expecting value: line 1 column 1 (char 0)."),
            (
                None,
                -32700,
                "This line is not valid JSON: Expecting ',' delimiter: line 1 column 40 (char 39).",
            ),
            (None, -32600, "Batches are not accepted. Send each message by itself."),
            (None, -32600, "Batches are not accepted. Send each message by itself."),
            (None, -32600, "A message is a JSON object."),
            (1, -32600, '`jsonrpc` must be "2.0".'),
            (1, -32600, "`method` must be a string."),
            (1, -32600, "`params` must be an object."),
            (None, -32600, "`id` must be a string or an integer."),
            (None, -32600, "`id` must be a string or an integer."),
            (None, -32600, "`id` must be a string or an integer."),
            (3, -32600, "This is neither a request, nor a notification, nor a response."),
            (None, -32700, "This line is not valid JSON: it is nested too deeply."),
            (4, -32700, "It contains half a character (a lone surrogate such as `\\ud800`), which no text may."),
            (None, -32700, "It contains half a character (a lone surrogate such as `\\ud800`), which no text may."),
        ]
    )
    assert too_long(10).error.message == snapshot("A message may have at most 10 bytes. This one was skipped.")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ENVELOPES = st.fixed_dictionaries(
    {}, optional={"jsonrpc": st.just("2.0") | JSON, "id": JSON, "method": JSON, "params": JSON, "result": JSON}
)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_anything_is_read_or_refused(line: bytes) -> None:
    read_message(line)


@given(st.text(st.characters(), max_size=3) | JSON, st.text(st.characters(), max_size=3) | JSON)
def test_every_refusal_can_be_written(request_id: object, method: object) -> None:
    """One that cannot would end the server, with all that its client does."""
    found = read_message(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method}).encode())
    found.model_dump_json(by_alias=True, exclude_unset=True)


@given(ENVELOPES)
def test_a_message_with_an_id_that_is_none_is_never_taken_for_a_notification(message: dict[str, object]) -> None:
    found = read_message(json.dumps(message).encode())
    if "id" in message:
        assert not isinstance(found, types.JSONRPCNotification)


@pytest.mark.parametrize("line", [b"\xff\xfe{}", b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}'])
def test_text_that_is_none_is_refused(line: bytes) -> None:
    assert isinstance(read_message(line), RefusedMessage)


def test_millions_of_values_are_not_made() -> None:
    many = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[' + "[]," * 600_000 + "[]]}}"
    assert refused(many) == (None, -32600, "A message may hold at most 500,000 values. This one was skipped.")


@pytest.mark.parametrize(
    "told",
    [
        '"result":null',
        '"result":[]',
        '"error":"no"',
        '"error":null',
        '"jsonrpc":1,"result":5',
        r'"result":{"action":"accept","content":{"a":"\ud83d"}}',
    ],
)
def test_an_answer_that_is_none_goes_to_whoever_asked_and_is_not_answered(told: str) -> None:
    """Under its id a request of the client's own may run, which an error of ours would seem to be about."""
    found = read_message(f'{{"jsonrpc":"2.0","id":3,{told}}}'.encode())
    assert isinstance(found, types.JSONRPCError)
    assert not isinstance(found, RefusedMessage)
    assert (found.id, found.error.message) == (3, "its answer does not fit the protocol")
