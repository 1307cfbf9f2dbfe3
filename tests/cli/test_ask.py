"""What the person is shown before something runs (P4)."""

from __future__ import annotations

import asyncio

from ferrule.cli.ask import say_yes, visible
from ferrule.pipeline.confirm import Choice


def test_what_could_disguise_a_command_is_made_visible() -> None:
    assert visible("rm \u202exrf\u202c -- a\x1b[2Kb\u200b") == "rm \\u{202e}xrf\\u{202c} -- a\\u{1b}[2Kb\\u{200b}"


def test_ordinary_text_stays_as_it_is() -> None:
    assert visible("echo 'héllo 世界'\nls") == "echo 'héllo 世界'\nls"


def test_endless_text_is_cut_and_says_how_much_is_missing() -> None:
    assert visible("x" * 5000).endswith("… (1,000 more characters)")


def test_yes_is_for_this_call_only() -> None:
    assert asyncio.run(say_yes(None)).choice is Choice.ONCE  # type: ignore[arg-type]
