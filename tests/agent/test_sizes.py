"""How many tokens a conversation is, near enough."""

from __future__ import annotations

from ferrule import Attachment, RawCall
from ferrule.agent.compaction import Sizes, size_of, sizes_of, tokens_of
from ferrule.core.model import AssistantMessage, Usage, UserMessage


def test_english_and_chinese_are_rather_over_than_under_estimated() -> None:
    assert 250 <= tokens_of("word " * 200) <= 350  # about 200 tokens
    assert 80 <= tokens_of("中文" * 50) <= 120


def test_pictures_and_calls_count() -> None:
    assert size_of(UserMessage("x", (Attachment("image/png", b"x"),))) > 1000
    assert size_of(AssistantMessage("", (RawCall("t", {"text": "x" * 350}),))) > 100


def test_what_the_model_counted_is_believed_and_the_rest_estimated() -> None:
    sizes = Sizes()
    messages = [UserMessage("x" * 3500), AssistantMessage("y")]
    assert sizes.tokens(messages, "s" * 350) > 1100
    sizes.told(messages, Usage(5000, 10))
    assert sizes.tokens(messages) == 5010
    messages.append(UserMessage("z" * 3500))
    assert sizes.tokens(messages) == 5010 + size_of(messages[-1])
    assert sizes.tokens(messages) == 5010 + size_of(messages[-1]), "each message is counted once"


def test_a_model_that_does_not_count_is_not_believed() -> None:
    sizes = Sizes()
    messages = [UserMessage("x" * 3500)]
    sizes.told(messages, Usage(0, 0))
    assert sizes.tokens(messages) >= sizes_of(messages)


def test_after_compaction_the_count_is_that_of_what_is_left() -> None:
    sizes = Sizes()
    messages = [UserMessage("x")]
    sizes.shrunk(messages, 100)
    assert sizes.tokens(messages) == 100 + size_of(messages[0])
