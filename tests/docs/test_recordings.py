"""The tutorial "your first hour" works when it is followed, and shows conversations as they really look."""

from __future__ import annotations

import re

import click
import pytest
from tests.docs import recordings

from ferrule.cli.chat import chat_command
from ferrule.cli.chatting.commands import commands
from ferrule.pipeline.authorise import Mode

PAGE = recordings.PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_recordings_are_current() -> None:
    parts = recordings.recorded()
    assert sorted(parts) == sorted(recordings.named(PAGE))
    assert recordings.renewed(PAGE, parts) == PAGE, "run scripts/recordings, and look at what has changed"


def test_every_command_and_option_on_the_page_is_there() -> None:
    words = " ".join(re.findall(r"`([^`\n]+)`", PAGE))
    assert set(re.findall(r"(?<![\w/.])/([a-z]+)\b", words)) <= {*commands(), "commands"}
    options = {name for option in chat_command.params if isinstance(option, click.Option) for name in option.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", words)) <= options


def test_the_modes_are_all_there() -> None:
    table = PAGE.split("## How much it may do")[1].split("##")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == [mode.value for mode in Mode]
