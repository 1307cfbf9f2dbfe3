"""Bodies that should answer a request: each ends as an answer to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.mcp_client.http_transport import fitting

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: st.dictionaries(st.sampled_from(["id", "method", "result", "a"]), inner, max_size=3),
)


def written(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


@given(st.dictionaries(st.sampled_from(["id", "method", "a"]), VALUES), st.booleans())
def test_an_answer_to_the_request_stays_as_it_is_whatever_it_holds(result: dict[str, Any], id_first: bool) -> None:
    body = written(id=7, result=result) if id_first else written(result=result, id=7)
    assert fitting(body, 7) == body


@given(VALUES, VALUES)
def test_whatever_is_read_is_an_answer_to_the_request(given_id: Any, value: Any) -> None:
    """R6: of a message of its own, or one to another request, the call would never hear."""
    for body in (written(id=given_id, result=value), written(id=given_id, method="ping"), written(method="ping")):
        found = json.loads(fitting(body, 7))
        assert "method" not in found
        assert str(found["id"]) == "7"


@pytest.mark.parametrize("body", [b"", b"oops", b"[]", b"7", b'{"a": 1}'])
def test_what_is_no_message_is_left_to_whoever_reads_it(body: bytes) -> None:
    assert fitting(body, 7) == body


def test_an_error_of_one_that_could_not_read_the_request_is_its_answer() -> None:
    error = {"code": -32600, "message": "cannot read it"}
    assert json.loads(fitting(written(id=None, error=error), 7)) == {"jsonrpc": "2.0", "id": 7, "error": error}


def test_an_id_of_another_kind_is_shown_short() -> None:
    found = json.loads(fitting(written(id="x" * 1000, result={}), 7))
    assert found["error"]["message"].startswith("the answer is to another request (its id is ")
    assert len(found["error"]["message"]) < 120
