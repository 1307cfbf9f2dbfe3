"""`@file` sends a file along as Read would show it; what is no file stays a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.chatting.conftest import Room
from tests.workspace.pictures import PNG

from ferrule.app.settings import PermissionSettings, Settings
from ferrule.cli.chatting.mentions import _MENTION, expand, mentioned, quoted
from ferrule.testing import call, say


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("look at @a.py", ["a.py"]),
        ("@a.py, @a.py and (@src/b.py).", ["a.py", "src/b.py"]),
        ('the "@my notes.txt" and @"my notes.txt"', ["my notes.txt"]),
        ("看@a.py。", []),
        ("看 @a.py。谢谢", []),
        ("看 @a.py 。", ["a.py"]),
        ("@property def x; me@a.py; @@a.py; @none.txt; @", []),
        ("@src is a folder", ["src"]),
    ],
)
def test_only_what_is_there_is_a_mention(tmp_path: Path, text: str, names: list[str]) -> None:
    for name in ("a.py", "src/b.py", "my notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert mentioned(text, tmp_path) == names


@given(st.text(st.characters(codec="utf-8", exclude_characters='"\n\0/'), min_size=1))
def test_any_name_can_be_written_as_a_mention(name: str) -> None:
    found = _MENTION.fullmatch(quoted(name))
    assert found is not None
    assert (found["quoted"] or found["bare"]) == name


async def test_the_model_gets_the_file_and_may_edit_it(room: Room) -> None:
    file = room.workspace / "a.py"
    file.write_text("one = 1\n")
    edit = call("Edit", {"file_path": "a.py", "old_string": "1", "new_string": "2"})
    async with room.open(say("", edit), "Done.") as chat:
        expanded = await expand("change @a.py", chat.assistant.app.runtime)
        assert expanded.text == (
            "change @a.py\n\n[The user mentioned these files, as they are now:]\n\n`a.py`:\n     1\tone = 1"
        )
        room.typed.append("y")
        await chat._turn("change @a.py")
        assert file.read_text() == "one = 2\n"


async def test_what_is_too_long_or_a_folder_is_pointed_at(room: Room) -> None:
    (room.workspace / "big.txt").write_text("a line of words\n" * 10_000)
    (room.workspace / "src").mkdir()
    async with room.open() as chat:
        expanded = await expand("@big.txt @src", chat.assistant.app.runtime)
    assert "`big.txt` is too long to be shown here" in expanded.text
    assert "`src` is a folder." in expanded.text
    assert expanded.notes == ["@big.txt is long; only its path was sent to the model."]


async def test_a_picture_goes_along_as_one(room: Room) -> None:
    (room.workspace / "a.png").write_bytes(PNG)
    async with room.open() as chat:
        expanded = await expand("@a.png", chat.assistant.app.runtime)
    assert [one.media_type for one in expanded.attachments] == ["image/png"]


async def test_a_rule_that_denies_reading_holds_for_a_mention_too(room: Room) -> None:
    (room.workspace / "secret.txt").write_text("hidden")
    settings = Settings(permissions=PermissionSettings(deny=["Read(secret.txt)"]))
    async with room.open(settings=settings) as chat:
        expanded = await expand("see @secret.txt", chat.assistant.app.runtime)
    assert expanded.text == "see @secret.txt"
    assert expanded.notes[0].startswith("@secret.txt was not attached: ")
