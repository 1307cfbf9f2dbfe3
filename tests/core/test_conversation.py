"""A conversation in nobody's form."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from ferrule import RawCall
from ferrule.core.model import AssistantMessage, UserMessage


def test_what_was_said_cannot_be_changed_afterwards() -> None:
    message = UserMessage("hello")
    with pytest.raises(FrozenInstanceError):
        message.text = "goodbye"  # pyright: ignore[reportAttributeAccessIssue]


def test_an_answer_may_hold_words_and_calls() -> None:
    answer = AssistantMessage("Let me look.", (RawCall("Read", {"file_path": "a"}, id="1"),))
    assert (answer.text, answer.calls[0].name, answer.kept) == ("Let me look.", "Read", {})
