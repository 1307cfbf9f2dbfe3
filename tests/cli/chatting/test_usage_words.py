"""Tokens and money in a few words."""

from __future__ import annotations

from ferrule.cli.chatting.event_printer import money, usage_words
from ferrule.core.model import Usage


def test_tokens_cache_and_money_are_said_where_they_are_known() -> None:
    assert usage_words(Usage()) == ""
    assert usage_words(Usage(1200, 56)) == "1,200 tokens read, 56 written"
    assert (
        usage_words(Usage(1200, 56, 900, cost=0.0031)) == "1,200 tokens read (900 from the cache), 56 written, $0.0031"
    )


def test_money_has_as_many_digits_as_tell_something() -> None:
    assert [money(one) for one in (0, 0.00042, 1.5)] == ["$0.00", "$0.0004", "$1.50"]
