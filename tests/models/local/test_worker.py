"""The worker's own side of the talk, with a model that is played; a real one is in test_engine."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from ferrule.models.local.worker import Worker, what_it_said


class Played:
    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces
        self.given = 0

    def handle_chat_completions(self, body: str, take: Callable[[Any], bool]) -> None:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            self.given += 1
            if take(piece):
                return


def told(worker_says: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in worker_says.getvalue().splitlines()]


def test_chunks_come_as_lines_and_the_end_last() -> None:
    out = io.StringIO()
    Worker(out, Played('{"a": 1}', {"b": 2})).answer({"id": 7, "body": {}})
    assert told(out) == [{"id": 7, "chunk": {"a": 1}}, {"id": 7, "chunk": {"b": 2}}, {"id": 7, "end": True}]


def test_errors_are_told_in_any_form() -> None:
    out = io.StringIO()
    played = Played({"error": {"message": "one"}}, {"code": 400, "message": "two"}, ValueError("three"))
    Worker(out, played).answer({"id": 1, "body": {}})
    assert [one["error"]["message"] for one in told(out)[:-1]] == ["one", "two", "three"]


def test_a_cancelled_request_stops_with_its_next_piece() -> None:
    out, played = io.StringIO(), Played({"a": 1}, {"b": 2})
    worker = Worker(out, played)
    worker.cancel(3)
    worker.answer({"id": 3, "body": {}})
    assert played.given == 1
    assert told(out) == [{"id": 3, "end": True}]
    worker.answer({"id": 3, "body": {}})
    assert played.given == 3


def test_a_reason_is_told_as_it_was_written() -> None:
    assert what_it_said(io.BytesIO(b"x\nE llama: error loading model: too old\n")).endswith("too old\n")
