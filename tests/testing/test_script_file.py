"""A script in a file makes a scripted model; one that is wrong says where."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.model import Finished, ModelError, ModelFault, ModelRequest, Usage, UserMessage
from ferrule.testing.scripted_model import ScriptError, scripted_model


def script(folder: Path, replies: Any) -> Path:
    path = folder / "script.json"
    path.write_text(replies if isinstance(replies, str) else json.dumps(replies))
    return path


def test_every_sort_of_reply_can_be_written(tmp_path: Path) -> None:
    model = scripted_model(
        script(
            tmp_path,
            [
                {
                    "text": "I look.",
                    "thinking": "hm",
                    "calls": [{"name": "Read", "arguments": {"file_path": "a"}, "id": "x"}, {"name": "LS"}],
                    "usage": {"input_tokens": 5, "cost": 0.1},
                    "wait": 0.001,
                },
                {"text": "half", "stop": "length"},
                "words",
                {"error": {"fault": "busy", "message": "Busy.", "suggestion": "Wait."}},
            ],
        )
    )

    async def ask() -> Finished:
        *_, last = [event async for event in model.stream(ModelRequest([UserMessage("x")]))]
        assert isinstance(last, Finished)
        return last

    first, second, third = (asyncio.run(ask()) for _ in range(3))
    assert [(one.name, one.id) for one in first.message.calls] == [("Read", "x"), ("LS", "call_2")]
    assert (first.usage, first.message.thinking) == (Usage(5, cost=0.1), "hm")
    assert (second.stop, third.message.text) == ("length", "words")
    with pytest.raises(ModelError, match="Busy") as raised:
        asyncio.run(ask())
    assert raised.value.fault is ModelFault.BUSY
    assert model.name == "scripted/script"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("{", "is not JSON"),
        ({}, "is not a list of replies"),
        ([1], "reply 1: a reply is text or an object"),
        (["a", {"words": "x"}], "reply 2: a reply is text or an object with calls, error"),
        ([{"calls": [{}]}], "reply 1: KeyError: 'name'"),
        ([{"error": {"fault": "nothing", "message": ""}}], "reply 1: ValueError"),
        ([{"wait": "long"}], "reply 1: ValueError"),
    ],
)
def test_a_wrong_script_says_where(tmp_path: Path, wrong: Any, says: str) -> None:
    with pytest.raises(ScriptError, match=says):
        scripted_model(script(tmp_path, wrong))


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"nowhere\.json could not be read: No such file"):
        scripted_model(tmp_path / "nowhere.json")
