"""One call loads whatever holds a plugin: a folder, a file, an installed package, a table (R6, R7)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import DefinitionError, Plugin, Runtime, tool
from ferrule.tools import load_plugin
from tests.plugins.files import findings, load, tool_file, tools_of, write
from tests.plugins.test_discovery import write_package

PLUGIN = '''
from ferrule import Plugin, tool

heard = []

@tool(kind="readonly")
def tell_steps() -> list[str]:
    """Tell the steps so far. Use this to test."""
    return heard

async def start():
    heard.append("started")

plugin = Plugin("steps", "1.2", [tell_steps], initialise=start, clean_up=lambda: heard.append("ended"))
'''

FIELDS = """
name = "alice"
version = "0.1"
heard = []

async def handle(params):
    return {"result": params["param1"]}

tools = [
    {
        "schema": {
            "name": "myCustomTool",
            "description": "Do a thing of your own. Use this to test.",
            "parameters": {"type": "object", "properties": {"param1": {"type": "string"}}, "required": ["param1"]},
        },
        "handler": handle,
        "kind": "readonly",
    }
]

async def initialize():
    heard.append("initialize")

async def cleanup():
    heard.append("cleanup")
"""
FORMS = {
    "the fields in the file": FIELDS,
    "a table": FIELDS
    + "\nplugin = dict(name=name, version=version, tools=tools, initialize=initialize, cleanup=cleanup)\ndel tools\n",
    "an object": FIELDS.replace("tools =", "its_tools =")
    + "\nclass Alice:\n    name, version, tools = name, version, its_tools\n"
    "    initialize, cleanup = staticmethod(initialize), staticmethod(cleanup)\nPLUGIN = Alice()\n",
}


def shape(plugin: Plugin) -> tuple[str, str, list[str]]:
    return plugin.name, plugin.version, [one.name for one in plugin.tools]


@pytest.mark.parametrize("form", FORMS)
async def test_a_file_with_the_fields_of_a_plugin_is_one(tmp_path: Path, form: str) -> None:
    """A: `name, version, tools[{schema, handler}], initialize?, cleanup?`, in every form that Python has for it."""
    (tmp_path / "alice.py").write_text(FORMS[form])
    plugin = load_plugin(tmp_path / "alice.py")
    assert shape(plugin) == ("alice", "0.1", ["myCustomTool"])
    heard: list[str] = plugin.tools[0].handler.__globals__["heard"]  # type: ignore[attr-defined]
    async with Runtime(plugins=[plugin]) as runtime:
        assert (await runtime.run("myCustomTool", {"param1": "x"})).data == {"result": "x"}
        assert not (await runtime.run("myCustomTool")).success, "the schema is checked"
        assert heard == ["initialize"]
    assert heard == ["initialize", "cleanup"]


async def test_a_folder_is_one_plugin_and_a_part_that_cannot_start_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R6."""
    write(
        tmp_path,
        {
            "steps.py": PLUGIN,
            "words.py": tool_file("say_word", "'a'"),
            "far.py": PLUGIN.replace("tell_steps", "tell_far").replace('heard.append("started")', "1 / 0"),
            "bad.py": "import nothing_of_the_kind",
        },
    )
    plugin = load_plugin(tmp_path)
    assert shape(plugin) == (tmp_path.name, "", ["tell_far", "tell_steps", "say_word"])
    assert [Path(one.partition(":")[0]).name for one in plugin.problems] == ["bad.py"]
    assert "nothing_of_the_kind" in caplog.text
    async with Runtime(plugins=[plugin]) as runtime:
        assert runtime.tools.names() == ["tell_steps", "say_word"]
        heard: list[str] = (await runtime.run("tell_steps")).data
        assert heard == ["started"]
    assert heard == ["started", "ended"]
    assert plugin.problems[1:] == ["steps: it could not start: ZeroDivisionError: division by zero"]


async def test_a_module_of_several_plugins_starts_where_all_of_them_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    more = """
@tool(kind="readonly")
def say_more() -> str:
    return "more"

def fail():
    if FAILS:
        raise OSError("no network")

other = Plugin("other", tools=[say_more], initialise=fail)
"""
    (tmp_path / "two_plugins.py").write_text(PLUGIN + more.replace("FAILS", "True"))
    (tmp_path / "two_good_ones.py").write_text(PLUGIN + more.replace("FAILS", "False"))
    bad, good = load_plugin("two_plugins"), load_plugin("two_good_ones")
    async with Runtime(plugins=[bad, good]) as runtime:
        assert runtime.tools.names() == ["tell_steps", "say_more"]
        assert runtime.tools.tools() == good.tools
    assert (bad.tools[0](), good.tools[0]()) == (["started", "ended"], ["started", "ended"])  # type: ignore[operator]


def test_an_installed_package_is_named_by_its_entry_point_its_name_or_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write_package(tmp_path, "pack_of_steps", PLUGIN, "pack_of_steps:plugin")
    (tmp_path / "plain_module.py").write_text(tool_file("say_word", "'a'"))
    assert shape(load_plugin("pack_of_steps")) == ("steps", "1.2", ["tell_steps"])
    points = tmp_path / "pack_of_steps-1.5.dist-info/entry_points.txt"
    points.write_text("[ferrule.tools]\nfirst = pack_of_steps:plugin\nsecond = plain_module\n")
    assert load_plugin("first").name == "steps"
    assert shape(load_plugin("pack_of_steps")) == ("pack_of_steps", "1.2", ["tell_steps", "say_word"])
    assert shape(load_plugin("plain_module")) == ("plain_module", "", ["say_word"])
    assert shape(load_plugin("plain_module:say_word")) == ("plain_module", "", ["say_word"])


def test_a_text_may_name_a_folder_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"my_tools/words.py": tool_file("say_word", "'a'")})
    for source in ("my_tools", "./my_tools", "my_tools/words.py"):
        assert shape(load_plugin(source))[2] == ["say_word"]


def test_a_plugin_itself_is_checked_and_handed_back() -> None:
    plugin = Plugin("x", tools=[tool(lambda: 1, name="read_one")])
    assert load_plugin(plugin) is plugin


WRONG: dict[str, Callable[[Path], Any]] = {
    "no name": lambda _: "",
    "unknown": lambda _: "no_such_thing",
    "no file": lambda folder: folder / "none.py",
    "no tools": lambda _: "json",
    "a function": lambda _: {"name": "x", "tools": [len]},
    "no schema": lambda _: {"name": "x", "tools": [{"handler": len}]},
    "a field": lambda _: {"name": "x", "tools": [], "initialise": len},
    "no list": lambda _: {"name": "x"},
}


def test_what_is_no_plugin_is_refused_in_words(tmp_path: Path) -> None:
    said: dict[str, str] = {}
    for name, source in WRONG.items():
        with pytest.raises(DefinitionError) as caught:
            load_plugin(source(tmp_path))
        said[name] = str(caught.value).replace(str(tmp_path), "…")
    assert said == snapshot(
        {
            "no name": "`` is no plugin: nothing installed has this name, and no folder.",
            "unknown": "`no_such_thing` is no plugin: nothing installed has this name, and no folder.",
            "no file": "`…/none.py` is no plugin: there is no such file or folder.",
            "no tools": "`json` is no plugin: LookupError: it contains no tools",
            "a function": '`tools[0]` must be a tool or {"schema": {"name": …, "description": …, "parameters": …}, "handler": …}, not <built-in function len>',
            "no schema": '`tools[0]` must be a tool or {"schema": {"name": …, "description": …, "parameters": …}, "handler": …}, not {\'handler\': <built-in function len>}',
            "a field": "a plugin has no `initialise`; its fields are `name`, `version`, `tools`, `initialize`, `cleanup`",
            "no list": "the `tools` of a plugin must be a list, not None",
        }
    )


def test_a_broken_plugin_in_a_folder_is_a_finding_and_the_others_work(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        {"bad.py": "plugin = {'name': 'x', 'tools': [{'schema': {}}]}", "steps.py": PLUGIN, "empty.py": "plugin = 1"},
    )
    assert list(tools_of(loaded)) == ["tell_steps"]
    assert [plugin.name for file in loaded.files for plugin in file.plugins] == ["steps"]
    assert findings(loaded) == snapshot(
        {
            "bad.py": '`tools[0]` must be a tool or {"schema": {"name": …, "description": …, "parameters": …}, "handler": …}, not {\'schema\': {}}',
            "empty.py": "no tools found; decorate a function with @tool, or list tools in `TOOLS`",
        }
    )
