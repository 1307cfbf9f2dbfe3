"""Guides with conversations work when they are followed, and show them as they really look (issue 21, must-show 2)."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from tests.docs import recordings

from ferrule.cli.chat import chat_command
from ferrule.cli.chatting.commands import commands
from ferrule.pipeline.authorise import Mode

pages = pytest.mark.parametrize(
    "page", [recordings.FIRST_HOUR, recordings.TWENTY_STEPS], ids=lambda page: getattr(page, "stem", "")
)


@pages
@pytest.mark.slow
def test_the_recordings_are_current(page: Path) -> None:
    parts, text = recordings.recorded(page), page.read_text(encoding="utf-8")
    assert sorted(parts) == sorted(recordings.named(text))
    assert recordings.renewed(text, parts) == text, "run scripts/recordings, and look at what has changed"


@pages
def test_every_command_and_option_on_the_page_is_there(page: Path) -> None:
    words = " ".join(re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")))
    assert set(re.findall(r"(?<![\w/.])/([a-z]+)\b", words)) <= {*commands(), "commands", "review", "tidy"}
    options = {name for option in chat_command.params if isinstance(option, click.Option) for name in option.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", words)) <= options


def test_the_modes_are_all_there() -> None:
    table = recordings.FIRST_HOUR.read_text(encoding="utf-8").split("## How much it may do")[1].split("##")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == [mode.value for mode in Mode]
