"""Which tools a module offers (R6): one class or one entry that is none hides nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.plugins import files
from tests.plugins.files import findings, load, tool_file, tools_of

CLASSES = '''
from abc import ABC, abstractmethod
from pydantic import BaseModel
from ferrule import Tool, tool

class Nothing(BaseModel):
    pass

class Shape(Tool[Nothing]):
    """A base: others derive from it."""
    kind = "readonly"
    def run(self, params, context):
        return self.sides()

class Square(Shape):
    """Count the sides of a square."""
    def sides(self):
        return 4

class Abstract(Tool[Nothing], ABC):
    """A base: something is left open."""
    @abstractmethod
    def sides(self): ...
    def run(self, params, context):
        return self.sides()

class Unfinished(Tool[Nothing]):
    """A base: it has no `run`."""

class _Private(Shape):
    """A base: its name says so."""
'''


def test_base_classes_are_no_tools_and_no_findings(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"shapes.py": CLASSES})
    assert list(tools_of(loaded)) == ["Square"]
    assert findings(loaded) == {}


def test_a_base_in_another_file_is_none_either(tmp_path: Path) -> None:
    derived = "from shapes import Square\nclass Cube(Square):\n    '''Count the sides of a cube.'''\n"
    loaded = load(tmp_path, {"shapes.py": CLASSES})
    (tmp_path / "cubes.py").write_text(derived)
    loaded.refresh(loaded.look())
    assert list(tools_of(loaded)) == ["Cube"]
    (tmp_path / "cubes.py").unlink()
    loaded.refresh(loaded.look())
    assert list(tools_of(loaded)) == ["Square"]


def test_one_that_is_derived_from_and_has_a_name_is_a_tool(tmp_path: Path) -> None:
    named = CLASSES.replace(
        'kind = "readonly"', 'kind = "readonly"\n    name = "count_sides"\n    sides = lambda self: 0'
    )
    assert [type(tool).__name__ for tool in tools_of(load(tmp_path, {"shapes.py": named})).values()] == ["Square"]
    named = named.replace("class Square(Shape):", 'class Square(Shape):\n    name = "count_four"')
    assert list(tools_of(load(tmp_path / "other", {"shapes.py": named}))) == ["count_sides", "count_four"]


def test_a_class_that_needs_arguments_is_one_finding_and_the_rest_loads(tmp_path: Path) -> None:
    needs = "\nclass Needs(Square):\n    def __init__(self, words, *, more, extra=1): ...\n"
    fails = "\nclass Fails(Shape):\n    def __init__(self):\n        raise OSError('no disk')\n"
    loaded = load(tmp_path, {"shapes.py": CLASSES + needs.replace("Square", "Shape") + fails})
    assert list(tools_of(loaded)) == ["Square"]
    assert findings(loaded) == snapshot(
        {
            "shapes.py: Needs": "line 33: its constructor needs `words`, `more`; create it in the file: `Needs(…)`",
            "shapes.py: Fails": "line 38: OSError: no disk",
        }
    )


def test_a_class_that_the_file_makes_tools_of_is_not_made_again(tmp_path: Path) -> None:
    made = (
        "\nclass Sized(Shape):\n    def __init__(self, size):\n        super().__init__()\n"
        "        self.name = f'count_{size}'\n\nsmall, large = Sized(1), Sized(2)\nsquare = Square()\nagain = small\n"
    )
    loaded = load(tmp_path, {"shapes.py": CLASSES + made})
    assert list(tools_of(loaded)) == ["count_1", "count_2", "Square"]
    assert findings(loaded) == {}


def test_TOOLS_is_the_whole_list(tmp_path: Path) -> None:
    listed = "\none = tool(lambda: 1, name='one')\ntwo = tool(lambda: 2, name='two')\nTOOLS = [two, Square, two]\n"
    assert list(tools_of(load(tmp_path, {"shapes.py": CLASSES + listed}))) == ["two", "Square"]


def test_an_empty_list_is_no_finding(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"none.py": tool_file("say_word") + "TOOLS = ()"})
    assert (tools_of(loaded), findings(loaded)) == ({}, {})


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ("[say_word, print]", snapshot("`TOOLS` lists a plain function, `print`; decorate it with @tool")),
        ("[say_word, 7]", snapshot("`TOOLS` must be a list of tools, but has 7")),
    ],
)
def test_what_is_no_tool_in_the_list_is_one_finding(tmp_path: Path, listed: str, reason: str) -> None:
    loaded = load(tmp_path, {"say.py": tool_file("say_word") + f"TOOLS = {listed}"})
    assert list(tools_of(loaded)) == ["say_word"]
    assert findings(loaded) == {"say.py": reason}


@pytest.mark.parametrize("listed", ["'say_word'", "None", "7", "{'say_word': say_word}"])
def test_a_list_that_is_none_says_so(tmp_path: Path, listed: str) -> None:
    loaded = load(tmp_path, {"say.py": tool_file("say_word") + f"TOOLS = {listed}"})
    assert findings(loaded)["say.py"].startswith("`TOOLS` must be a list of tools, but has ")


# A tool is its file's that made it


@pytest.mark.parametrize(
    "exports",
    [
        "from say import say_word",
        "from .say import say_word as other",
        "from say import *",
        "import say\nword = say.say_word",
        "from say import say_word\nTOOLS = [say_word]",
    ],
)
@pytest.mark.parametrize("name", ["a_first.py", "z_last.py"])
def test_a_tool_that_another_file_exports_again_is_there_once(tmp_path: Path, exports: str, name: str) -> None:
    files.write(tmp_path / "tools", {"say.py": tool_file("say_word"), name: exports})
    loaded, registry = files.in_registry(tmp_path / "tools")
    assert registry.names() == ["say_word"]
    assert loaded.broken == []


def test_who_lists_another_files_tool_offers_it(tmp_path: Path) -> None:
    hidden = tool_file("say_word") + "TOOLS = []"
    assert tools_of(load(tmp_path / "1", {"say.py": hidden, "use.py": "from say import say_word"})) == {}
    listing = {"say.py": hidden, "use.py": "from say import say_word\nTOOLS = [say_word]"}
    assert list(tools_of(load(tmp_path / "2", listing))) == ["say_word"]


def test_a_tool_of_a_private_file_is_offered_by_who_imports_it(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"_say.py": tool_file("say_word"), "public.py": "from _say import say_word"})
    assert list(tools_of(loaded)) == ["say_word"]
