"""`async with Runtime(plugins=…)`: their tools are there inside, and a call outside learns why they are not (R6, R7)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from inline_snapshot import snapshot

from ferrule import DefinitionError, Plugin, Registry, Runtime, tool
from tests.plugins.files import tool_file


@tool(kind="readonly")
def read_one() -> int:
    """Read one. Use this to test."""
    return 1


async def suggestion(runtime: Runtime, name: str) -> str | None:
    result = await runtime.run(name)
    assert result.error is not None
    return result.error.suggestion


async def test_a_plugin_lives_as_long_as_its_runtime() -> None:
    """R7."""
    heard: list[str] = []
    plugin = Plugin("mine", "1", [read_one], lambda: heard.append("started"), lambda: heard.append("ended"))
    runtime = Runtime(plugins=[plugin])
    assert await suggestion(runtime, "read_one") == snapshot(
        "The plugins and MCP servers of this Runtime run inside `async with` only; enter it first."
    )
    for _ in range(2):
        async with runtime:
            assert (await runtime.run("read_one")).data == 1
            assert heard == ["started"]
        assert (runtime.tools.tools(), heard) == ([], ["started", "ended"])
        assert await suggestion(runtime.with_tools(runtime.tools.read_only()), "read_one") == snapshot(
            "The plugin `mine` is closed: the `async with` of its Runtime has ended."
        )
        heard.clear()


async def test_folders_and_tables_are_plugins_too(tmp_path: Path) -> None:
    """A: `name, version, tools[{schema, handler}], initialize, cleanup`."""
    (tmp_path / "words.py").write_text(tool_file("say_word", "'a'"))
    schema = {"name": "shout", "description": "Shout a word. Use this to test.", "parameters": {"type": "object"}}
    table = {
        "name": "loud",
        "version": "2",
        "tools": [{"schema": schema, "handler": lambda given: given["word"] + "!"}],
    }
    async with Runtime([read_one], plugins=[tmp_path, table]) as runtime:
        assert runtime.tools.names() == ["read_one", "say_word", "shout"]
        assert (await runtime.run("shout", {"word": "hey"})).data == "hey!"
    assert runtime.tools.names() == ["read_one"]


async def test_a_plugin_that_cannot_start_is_reported_and_the_others_work(caplog: pytest.LogCaptureFixture) -> None:
    """R6."""

    def fail() -> None:
        raise OSError("no network")

    failing = Plugin("far", tools=[tool(lambda: 2, name="read_two")], initialise=fail)
    taken = Plugin("taken", tools=[tool(lambda: 3, name="read_one")])
    async with Runtime(plugins=[failing, Plugin("near", tools=[read_one]), taken]) as runtime:
        assert runtime.tools.tools() == [read_one]
        assert await suggestion(runtime, "read_two") == snapshot(
            "The plugin `far` was left out: it could not start: OSError: no network."
        )
    assert failing.problems == ["it could not start: OSError: no network"]
    assert "Plugin taken was left out: it could not start: NameTakenError: A tool `read_one`" in caplog.text


async def test_what_was_started_ends_when_a_later_plugin_cannot_be_loaded(tmp_path: Path) -> None:
    ended: list[bool] = []
    first = Plugin("first", clean_up=lambda: ended.append(True))
    with pytest.raises(DefinitionError, match="there is no such file or folder"):
        await Runtime(plugins=[first, tmp_path / "none"]).__aenter__()
    assert ended == [True]


async def test_a_plugin_starts_and_ends_on_the_loop_of_its_tools() -> None:
    """What it opens there belongs to that loop, and to no other."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    @tool(kind="readonly")
    async def note_loop() -> None:
        await note()

    for own_loop in (False, True):
        async with Runtime(plugins=[Plugin("x", "", [note_loop], note, note)], own_loop=own_loop) as runtime:
            await runtime.run("note_loop")
    assert loops[:3] == [asyncio.get_running_loop()] * 3
    assert len({*loops[3:]}) == 1
    assert loops[3] is not loops[0]


async def test_a_clean_up_that_fails_keeps_no_other_from_its_end(caplog: pytest.LogCaptureFixture) -> None:
    ended = threading.Event()

    def fail() -> None:
        raise OSError("gone")

    async with Runtime(plugins=[Plugin("first", clean_up=ended.set), Plugin("second", clean_up=fail)]):
        pass
    assert "Plugin second could not clean up" in caplog.text
    assert ended.is_set()


async def test_plugins_come_in_a_list_and_into_a_registry() -> None:
    with pytest.raises(TypeError, match=r"write \['my_tools'\]"):
        Runtime(plugins=cast("Any", "my_tools"))
    with pytest.raises(TypeError, match="give the Runtime a list of tools or a Registry, no view"):
        await Runtime(Registry().read_only(), plugins=[Plugin("x")]).__aenter__()
