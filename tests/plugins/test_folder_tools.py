"""The registry has what the files of folders bring, and follows them while a program runs (R5, R6, R8)."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule import Plugin, Registry, RegistryEvent, tool
from ferrule.plugins.discovery import FolderTools
from tests.plugins.files import findings, in_registry, tool_file, write


def soon(true: Callable[[], object]) -> None:
    ends = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


@contextmanager
def watched(*folders: Path, **options: Any) -> Generator[tuple[FolderTools, Registry, list[RegistryEvent]]]:
    loaded, registry = in_registry(*folders, pause=0.02, **options)
    events: list[RegistryEvent] = []
    registry.subscribe(events.append)
    loaded.watch()
    try:
        yield loaded, registry, events
    finally:
        loaded.close()


def test_a_name_that_two_files_have_is_one_finding_that_names_both(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"a.py": tool_file("say_word", "'a'"), "b.py": tool_file("say_word", "'b'"), "c.py": tool_file("say_more")},
    )
    loaded, registry = in_registry(tmp_path)
    assert registry.get("say_word")() == "a"  # type: ignore[operator]
    assert [(one.source, one.reason) for one in loaded.broken] == [
        (f"{tmp_path}/b.py: say_word", f"the name is taken by {tmp_path}/a.py; rename one of them")
    ]
    (tmp_path / "a.py").unlink()
    loaded.load()
    assert registry.get("say_word")() == "b"  # type: ignore[operator]
    assert loaded.broken == []


def test_a_name_that_a_built_in_has_stays_the_built_ins(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": tool_file("say_word")})
    own = tool(lambda: 1, name="say_word")
    registry = Registry()
    registry.register(own, origin="builtin")
    loaded = FolderTools([tmp_path], registry)
    loaded.load()
    (tmp_path / "a.py").unlink()
    assert findings(loaded) == {"a.py: say_word": "the name is taken by a built-in tool; rename one of them"}
    loaded.load()
    assert registry.get("say_word") is own


def test_one_folder_under_two_names_is_loaded_once(tmp_path: Path) -> None:
    write(tmp_path / "tools", {"a.py": tool_file("say_word")})
    (tmp_path / "link").symlink_to(tmp_path / "tools")
    loaded, registry = in_registry(tmp_path / "tools", tmp_path / "link", tmp_path / "tools" / ".." / "tools")
    assert (registry.names(), loaded.broken) == (["say_word"], [])


def test_every_change_is_an_event_with_its_origin(tmp_path: Path) -> None:
    """R5."""
    write(tmp_path, {"a.py": tool_file("first_one"), "b.py": tool_file("stays_same")})
    with watched(tmp_path) as (_, registry, events):
        stays = registry.get("stays_same")
        write(tmp_path, {"c.py": tool_file("new_one")})
        soon(lambda: "new_one" in registry)
        write(tmp_path, {"a.py": tool_file("first_one", "2")})
        soon(lambda: registry.get("first_one")() == "2")  # type: ignore[operator]
        (tmp_path / "a.py").unlink()
        soon(lambda: "first_one" not in registry)
        assert registry.get("stays_same") is stays
    assert [(event.change, event.name, event.origin) for event in events] == [
        ("registered", "new_one", "plugin"),
        ("replaced", "first_one", "plugin"),
        ("unregistered", "first_one", "plugin"),
    ]


def test_a_tool_whose_version_changes_is_never_away(tmp_path: Path) -> None:
    versioned = tool_file("say_word").replace('kind="readonly"', 'version="VERSION"')
    write(tmp_path, {"a.py": versioned.replace("VERSION", "1.0")})
    loaded, registry = in_registry(tmp_path)
    there: list[bool] = []
    registry.subscribe(lambda _: there.append("say_word" in registry))
    write(tmp_path, {"a.py": versioned.replace("VERSION", "2.0")})
    loaded.load()
    assert registry.versions("say_word") == ["2.0"]
    assert there
    assert all(there)


def test_a_tool_that_is_switched_off_stays_so_when_it_comes_or_changes(tmp_path: Path) -> None:
    """R4."""
    write(tmp_path, {"a.py": tool_file("say_word")})
    loaded, registry = in_registry(tmp_path, disabled=["say_more", "say_word"])
    assert registry.names() == []
    write(tmp_path, {"a.py": tool_file("say_word", "2"), "b.py": tool_file("say_more")})
    loaded.load()
    assert registry.names() == []
    assert len(registry) == 2


def test_what_fails_is_logged_once_and_mended_when_it_works(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, {"a.py": tool_file("say_word")})
    with watched(tmp_path) as (loaded, registry, _), caplog.at_level(logging.WARNING, "ferrule.plugins"):
        write(tmp_path, {"a.py": "def half("})
        soon(lambda: loaded.broken)
        write(tmp_path, {"b.py": tool_file("say_more")})
        soon(lambda: "say_more" in registry)
        assert "say_word" in registry
        write(tmp_path, {"a.py": tool_file("say_other")})
        soon(lambda: "say_other" in registry)
        assert loaded.broken == []
        assert "say_word" not in registry
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert warned == [f"{tmp_path}/a.py: line 1: '(' was never closed; the version loaded before stays in use"]


def test_a_folder_that_was_never_there_is_loaded_when_it_comes(tmp_path: Path) -> None:
    with watched(tmp_path / "tools") as (loaded, registry, _):
        assert findings(loaded) == {"tools": "there is no such folder"}
        write(tmp_path / "tools", {"a.py": tool_file("say_word")})
        soon(lambda: "say_word" in registry)
        assert loaded.broken == []


def test_a_link_to_a_folder_may_be_turned_to_another(tmp_path: Path) -> None:
    write(tmp_path / "1", {"a.py": tool_file("say_word", "1")})
    write(tmp_path / "2", {"a.py": tool_file("say_word", "2")})
    (tmp_path / "now").symlink_to("1")
    with watched(tmp_path / "now") as (_, registry, _):
        (tmp_path / "next").symlink_to("2")
        (tmp_path / "next").rename(tmp_path / "now")
        soon(lambda: registry.get("say_word")() == "2")  # type: ignore[operator]


def test_a_folder_that_cannot_be_listed_for_a_while_keeps_its_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.py": tool_file("say_word")})
    loaded, registry = in_registry(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        loaded.load()
        assert "say_word" in registry
        assert findings(loaded) == {
            tmp_path.name: "it cannot be read: Input/output error; the version loaded before stays in use"
        }
    loaded.load()
    assert loaded.broken == []


def refuse(_path: str) -> None:
    raise OSError(5, "Input/output error")


def test_what_is_saved_in_several_goes_is_loaded_when_it_is_whole(tmp_path: Path) -> None:
    """While somebody writes, nothing is loaded: no state in between was ever registered."""
    write(tmp_path, {"a.py": tool_file("say_word", "0")})
    with watched(tmp_path) as (loaded, registry, events):
        for number in range(1, 60):
            write(tmp_path, {"a.py": tool_file("say_word", str(number))})
            time.sleep(0.005)
        soon(lambda: registry.get("say_word")() == "59")  # type: ignore[operator]
        assert len(events) < 20
        assert loaded.broken == []


def test_after_the_end_nothing_is_followed_and_no_thread_is_left(tmp_path: Path) -> None:
    with watched(tmp_path) as (_, registry, events):
        pass
    write(tmp_path, {"a.py": tool_file("say_word")})
    assert not [thread for thread in threading.enumerate() if thread.name == "ferrule-tools-watch"]
    assert (registry.names(), events) == ([], [])


PLUGIN = """
from ferrule import Plugin, tool

@tool(kind="readonly")
def NAME() -> str:
    '''Give something. Use this to test.'''
    return "NAME"

plugin = Plugin("NAME", tools=[NAME])
"""


def test_a_plugin_in_a_file_starts_before_its_tools_come_and_ends_once_they_are_gone(tmp_path: Path) -> None:
    """R7, R8: also one that comes, changes or goes while a program runs."""
    write(tmp_path, {"a.py": PLUGIN.replace("NAME", "say_first")})
    heard: list[str] = []
    with watched(tmp_path) as (loaded, registry, _):

        def start(plugin: Plugin) -> str:
            heard.append(f"start {plugin.name}, {plugin.name in registry}")
            return "it could not start: no network" if plugin.name == "say_far" else ""

        def end(plugin: Plugin) -> None:
            heard.append(f"end {plugin.name}, {plugin.name in registry}")

        loaded.start_plugins(start, end)
        assert heard == ["start say_first, True"], "a list of tools is there before any plugin runs"
        write(tmp_path, {"a.py": PLUGIN.replace("NAME", "say_second"), "b.py": PLUGIN.replace("NAME", "say_far")})
        soon(lambda: len(heard) == 4)
        soon(lambda: findings(loaded))
        assert heard[1:] == ["start say_second, False", "start say_far, False", "end say_first, False"]
        assert registry.names() == ["say_second"]
        assert findings(loaded) == {"b.py": "it could not start: no network"}
        (tmp_path / "b.py").unlink()
        soon(lambda: not findings(loaded))
        assert [one.name for one in loaded.started] == ["say_second"]
    assert len(heard) == 4, "a plugin that could not start is not ended"
