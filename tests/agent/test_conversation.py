"""A conversation only grows, and every call in it has a result."""

from __future__ import annotations

from typing import Any

from ferrule.agent.conversation import Conversation, cancelled, well_formed
from ferrule.agent.turn_log import ConversationJournal
from ferrule.core.call import RawCall
from ferrule.core.model import AssistantMessage, ToolResults, UserMessage


class Kept(ConversationJournal):
    def __init__(self) -> None:
        self.entries: list[Any] = []

    def write(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)


def test_a_journal_hears_of_everything() -> None:
    kept = Kept()
    conversation = Conversation(journal=kept)
    conversation.add(UserMessage("a"))
    conversation.replace([UserMessage("b")])
    assert kept.entries == [
        {"type": "user", "text": "a"},
        {"type": "compacted", "messages": [{"type": "user", "text": "b"}]},
    ]
    assert conversation.messages == [UserMessage("b")]


def test_ids_that_are_missing_or_taken_are_made_anew() -> None:
    conversation = Conversation([UserMessage("a"), AssistantMessage("", (RawCall("t", id="x"),))])
    message = AssistantMessage(
        "", (RawCall("t", id="x"), RawCall("t"), RawCall("t", id="y", version="2")), kept={"p": 1}
    )
    first, second, third = conversation.identified(message).calls
    assert len({first.id, second.id, third.id, "x"}) == 4
    assert (third.id, third.version) == ("y", "2")


def test_what_a_provider_keeps_stays_while_its_ids_do() -> None:
    message = AssistantMessage("", (RawCall("t"), RawCall("t", id="y")), kept={"p": 1})
    assert Conversation().identified(message).kept == {"p": 1}


def test_calls_without_results_are_settled_once() -> None:
    conversation = Conversation([UserMessage("a"), AssistantMessage("", (RawCall("t", id="x"),))])
    assert well_formed(conversation.messages) == "the last calls have no results"
    conversation.settle("It was lost.")
    conversation.settle("It was lost.")
    assert well_formed(conversation.messages) is None
    assert len(conversation.messages) == 3
    results = conversation.messages[-1]
    assert isinstance(results, ToolResults)
    assert results.results[0].llm_content == "Error (cancelled_error): `t` did not finish. It was lost."


def test_what_no_provider_takes_is_told_apart() -> None:
    one, other = RawCall("t", id="1"), RawCall("t", id="2")
    asked, told = AssistantMessage("", (one,)), ToolResults((cancelled(one, ""),))
    assert well_formed([]) is None
    assert well_formed([UserMessage("a"), asked, told, UserMessage("b")]) is None
    assert well_formed([asked, told]) == "it does not start with a user message"
    assert well_formed([UserMessage("a"), asked, UserMessage("b")]) == "calls have no results"
    assert well_formed([UserMessage("a"), told]) == "some results do not match the calls before them"
    assert well_formed([UserMessage("a"), asked, ToolResults((cancelled(other, ""),))]) is not None
