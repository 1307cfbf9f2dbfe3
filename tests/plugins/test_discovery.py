"""Tools found without wiring (R6): what cannot be loaded is reported, and the others work."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import Plugin, Registry, Tool, tool
from ferrule.plugins.discovery import BrokenModule, as_plugin, discover_file, discover_folder, discover_installed

GOOD = '''
from pydantic import BaseModel
from ferrule import Tool, tool

@tool(kind="readonly")
def read_one() -> int:
    """Read one. Use this to test."""
    return 1

again = read_one

class Nothing(BaseModel):
    pass

class ReadTwo(Tool[Nothing]):
    """Read two. Use this to test."""
    kind = "readonly"
    def run(self, params, context):
        return 2
'''


def write_package(folder: Path, name: str, source: str, entry_point: str) -> None:
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[ferrule.tools]\n{name} = {entry_point}\n")


def test_installed_packages_bring_their_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write_package(tmp_path, "pack_whole_module", GOOD, "pack_whole_module")
    write_package(tmp_path, "pack_one_tool", GOOD.replace("read_one", "read_uno"), "pack_one_tool:read_uno")
    write_package(tmp_path, "pack_function", GOOD + "\ndef make():\n    return [read_one]\n", "pack_function:make")
    write_package(tmp_path, "pack_broken", "raise SystemExit('no')", "pack_broken")
    write_package(tmp_path, "pack_missing", "", "pack_missing:nothing_here")
    write_package(tmp_path, "pack_empty", "x = 1", "pack_empty")
    found = discover_installed()
    tools = {plugin.name: [one.name for one in plugin.tools] for plugin in found.plugins}
    assert tools["pack_whole_module"] == ["read_one", "ReadTwo"]
    assert tools["pack_one_tool"] == ["read_uno"]
    assert tools["pack_function"] == ["read_one"]
    assert next(plugin.version for plugin in found.plugins if plugin.name == "pack_one_tool") == "1.5"
    reasons = {broken.source.split()[2]: broken.reason for broken in found.broken}
    assert reasons == {
        "pack_broken": "SystemExit: no",
        "pack_missing": "AttributeError: module 'pack_missing' has no attribute 'nothing_here'",
        "pack_empty": "LookupError: it contains no tools",
    }


def test_a_folder_brings_the_tools_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "_private.py").write_text("raise RuntimeError")
    (tmp_path / "notes.txt").write_text("not python")
    (tmp_path / "bad.py").write_text("import nothing_of_the_kind")
    found = discover_folder(tmp_path)
    assert [plugin.name for plugin in found.plugins] == ["good"]
    assert [Path(broken.source).name for broken in found.broken] == ["bad.py"]


def test_files_of_one_name_in_two_folders_do_not_meet(tmp_path: Path) -> None:
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "tools.py").write_text(GOOD.replace("read_one", f"read_{number}"))
    found = [*discover_folder(tmp_path / "1").plugins, *discover_folder(tmp_path / "2").plugins]
    assert [plugin.tools[0].name for plugin in found] == ["read_1", "read_2"]


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    assert discover_folder(tmp_path / "none").broken[0].reason == "there is no such folder"


def test_annotations_of_a_found_file_resolve(tmp_path: Path) -> None:
    """A file with `from __future__ import annotations` and its own types compiles all the same."""
    (tmp_path / "typed.py").write_text(
        "from __future__ import annotations\nfrom pydantic import BaseModel\nfrom ferrule import ToolContext, tool\n"
        "class Item(BaseModel):\n    name: str\n"
        "@tool\ndef sort_items(items: list[Item], context: ToolContext) -> list[Item]:\n    return items\n"
    )
    (found,) = discover_file(tmp_path / "typed.py").plugins
    schema: Any = found.tools[0].input_schema
    assert list(schema["properties"]) == ["items"]


def test_a_file_that_fails_leaves_no_module_behind(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0")
    before = set(sys.modules)
    discover_file(tmp_path / "bad.py")
    assert {name for name in set(sys.modules) - before if "bad" in name} == set()


def test_ctrl_c_ends_the_program_while_a_file_is_loaded(tmp_path: Path) -> None:
    """It is the person's, and no fault of the file's that would be reported and passed over."""
    (tmp_path / "slow.py").write_text(f"import time\nopen({str(tmp_path / 'started')!r}, 'w').close()\ntime.sleep(600)")
    environment = {**os.environ, "FERRULE_TOOLS_FOLDERS": str(tmp_path), "FERRULE_DATA": str(tmp_path / "data")}
    process = subprocess.Popen([sys.executable, "-m", "ferrule", "tools"], env=environment, cwd=tmp_path)
    try:
        while not (tmp_path / "started").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()


def test_a_taken_name_is_reported_and_the_first_keeps_it() -> None:
    @tool(kind="readonly")
    def read_one() -> int:
        """Read one. Use this to test."""
        return 1

    registry = Registry([read_one])
    from ferrule.plugins.discovery import Discovered

    found = Discovered([Plugin("other", "", [tool(lambda: 1, name="read_one")], source="other.py")])
    found.register(registry)
    assert registry.get("read_one") is read_one
    assert found.broken[0].source == "other.py: read_one"


def test_things_that_are_no_tools_are_reported_and_the_others_work() -> None:
    broken: list[BrokenModule] = []
    read = tool(lambda: 1, name="read_x")
    assert as_plugin([1, read], "x", "", "x.py", broken).tools == [read]
    assert broken == [BrokenModule("x.py", "it contains 1, which is not a tool")]
    assert isinstance(as_plugin(read, "x", "", "x", []).tools[0], Tool)


CLASSES = '''
from pydantic import BaseModel
from ferrule import Tool

class Params(BaseModel):
    word: str

class Dictionary(Tool[Params]):
    """What the others have in common: no tool itself."""
    kind = "readonly"

class LookUp(Dictionary):
    """Look up a word. Use this before explaining it."""
    def run(self, params, context):
        return params.word

class LookUpIn(Dictionary):
    """Look up a word in a book. Use this where the book is known."""
    def __init__(self, book):
        super().__init__()
        self.book = book
    def run(self, params, context):
        return f"{params.word} in {self.book}"

class Forgetful(Dictionary):
    """Forget a word. Use this to test."""
    def __init__(self):
        pass
    def run(self, params, context):
        return ""

in_book = LookUpIn("Duden")
'''


def test_a_class_that_cannot_be_made_is_reported_and_the_others_of_its_file_work(tmp_path: Path) -> None:
    """R6: one class harms no other. A class that others build on, or that the file makes itself, is not made again."""
    (tmp_path / "words.py").write_text(CLASSES)
    found = discover_file(tmp_path / "words.py")
    assert [one.name for one in found.plugins[0].tools] == ["LookUp", "LookUpIn"]
    assert [(Path(one.source).name, one.reason) for one in found.broken] == snapshot(
        [
            (
                "words.py: Forgetful",
                "line 25: `Forgetful` is not complete: its `__init__` does not call super().__init__(). Add that line (in a dataclass, as `__post_init__`).",
            )
        ]
    )


HIDDEN = """
import functools
from ferrule import tool

def logged(function):
    return functools.wraps(function)(lambda *args: function(*args))

@logged
@tool
def look() -> int:
    return 1

@tool
@logged
def see() -> int:
    return 1
"""


def test_a_tool_that_a_decorator_hides_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    (tmp_path / "eyes.py").write_text(HIDDEN)
    found = discover_file(tmp_path / "eyes.py")
    assert [one.name for one in found.plugins[0].tools] == ["see"]
    assert [one.reason for one in found.broken] == [
        "A decorator hides the tool `look`. Write @tool above all other decorators."
    ]


def test_what_is_wrong_with_a_definition_is_said_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "box.py").write_text("from ferrule import tool\nclass Box:\n    @tool\n    def ping(): ...\n")
    (broken,) = discover_file(tmp_path / "box.py").broken
    assert broken.reason.startswith("line 2: `Box.ping` has no `self`.")
