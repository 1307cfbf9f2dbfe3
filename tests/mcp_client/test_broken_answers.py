"""Lines that cannot be read: which of them are answers, and to what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from ferrule.mcp_client.message_lines import OpenQuestions, looks_like_answer

CUT = b'{"jsonrpc":"2.0","result":{"content":[{"ty'


def asked(*ids: int, method: str = "tools/list") -> OpenQuestions:
    questions = OpenQuestions()
    for one in ids:
        questions.sent(JSONRPCRequest(jsonrpc="2.0", id=one, method=method))
    return questions


@pytest.mark.parametrize(
    "line",
    [
        CUT,
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
    assert asked(7).answered_by(line, line, ()) is None


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.data())
def test_a_request_is_never_taken_for_an_answer_wherever_it_is_cut(params: dict[str, Any], data: st.DataObject) -> None:
    whole = json.dumps({"jsonrpc": "2.0", "method": "tools/call", "id": 7, "params": params}).encode()
    start = whole.index(b'"method"')
    at = data.draw(st.integers(start + len(b'"method":'), len(whole)))
    assert not looks_like_answer(whole[:at])


def test_its_id_tells_which_of_many_it_answers() -> None:
    line = b'{"jsonrpc":"2.0","id":3,"result":oops}'
    assert asked(2, 3).answered_by(line, line, (1_000,)) == 3


def test_without_an_id_it_answers_the_only_one_there_is() -> None:
    assert asked(2).answered_by(CUT, CUT, ()) == 2
    assert asked().answered_by(CUT, CUT, (1_000,)) == 1_000
    assert asked(2).answered_by(CUT, CUT, (1_000,)) is None
    assert asked().answered_by(CUT, CUT, ()) is None


def test_an_id_of_what_the_answer_holds_is_not_mistaken_for_its_own() -> None:
    line = b'{"jsonrpc":"2.0","result":{"user":{"id":42,"na'
    assert asked(2).answered_by(line, line, ()) == 2


def test_what_was_answered_or_given_up_is_open_no_more() -> None:
    questions = asked(1, 2, 3)
    questions.came(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
    cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 2})
    questions.sent(cancelled)
    assert questions.answered_by(CUT, CUT, ()) == 3


def test_a_subscription_is_not_waited_for() -> None:
    assert asked(1, method="subscriptions/listen").answered_by(CUT, CUT, ()) is None
