"""When to try again, and after how long."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.models.faults import Tries, wait_asked

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


@given(st.integers(1, 50), st.floats(0, 1), st.none() | st.floats(0, 90))
def test_waits_are_bounded_and_never_shorter_than_asked(attempt: int, jitter: float, asked: float | None) -> None:
    tries = Tries(most=100)
    wait = tries.wait(attempt, asked, jitter)
    assert wait is not None
    assert 0 <= wait <= (tries.longest if asked is None else asked + 1)
    assert asked is None or wait >= asked


def test_the_back_off_doubles_up_to_its_longest() -> None:
    tries = Tries(most=10, first=1, longest=5)
    assert [tries.wait(attempt, None, 1.0) for attempt in range(1, 6)] == [1, 2, 4, 5, 5]
    assert tries.wait(3, None, 0.0) == 0


def test_there_is_a_last_try_and_a_longest_wait() -> None:
    assert Tries(most=3).wait(3, None) is None
    assert Tries(patience=60).wait(1, 61) is None
    assert Tries(most=1).wait(1, 0) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "20", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Sun, 15 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_what_the_server_asks(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_asked(headers, now=NOW) == seconds


def test_google_says_it_in_the_body() -> None:
    detail = '{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}'
    assert wait_asked({}, f'{{"error": {{"details": [{detail}]}}}}'.encode()) == 34
    assert wait_asked({}, f'[{{"error": {{"details": [{detail}]}}}}]'.encode()) == 34
    assert wait_asked({}, b"RetryInfo, broken") is None
