"""Tools folders start without loading their files (P3, R6): the index knows their tools from the last time."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ferrule import RawCall, RulePolicy, Runtime, Tool
from ferrule.dialects import KNOWN, Exporter
from ferrule.plugins import tools_index
from ferrule.plugins.tools_index import ShelvedTool, follows_from_text, shown_of
from tests.plugins.files import findings, in_registry, tool_file, write

if TYPE_CHECKING:
    from ferrule import Registry
    from ferrule.plugins.discovery import FolderTools

RICH = '''
from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ferrule import ToolContext, tool, writes

LEVELS = ("low", "high")


class Note(BaseModel):
    """One note."""

    title: str
    tags: list[str] = []


@tool(
    kind="write", tags={"notes", "own"}, timeout=5, doing="saving `{name}`", touches=writes("path", "notes/{name}"),
    summary="save {name}", idempotent=True, category="notes",
)
async def save_note(
    name: str, note: Note, level: Annotated[int, Field(ge=1, description="How loud")] = 1,
    mode: Literal["new", "old"] = "new", *, context: ToolContext,
) -> dict[str, str]:
    """Save a note. Use it when the user asks for one.

    Usage notes:
        - Notes are kept.

    Examples:
        - save a note: {"name": "a", "note": {"title": "A"}}
    """
    return {"saved": name, "title": note.title}


@tool(kind="readonly", roles=["dev"])
def read_secret() -> str:
    """Read a secret. Use it rarely."""
    return "42"


@tool(kind="readonly", version="2.1", cache=True)
def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: Any text.
    """
    return len(text.split())
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    (tmp_path / "tools").mkdir()
    return tmp_path / "tools"


def start(folder: Path, **files: str) -> tuple[FolderTools, Registry]:
    """As a program does that starts."""
    write(folder, {f"{name}.py": text for name, text in files.items()})
    return in_registry(folder)


def loaded_files(tools: FolderTools) -> set[str]:
    (one,) = tools.folders
    package: str = one.package  # type: ignore[attr-defined]
    return {name.removeprefix(f"{package}.") for name in sys.modules if name.startswith(f"{package}.")}


async def result_of(registry: Registry, name: str, /, **arguments: Any) -> Any:
    runtime = Runtime(registry, policy=RulePolicy(mode="bypass"))
    result = await runtime.run(RawCall(name, json.dumps(arguments)))
    return result.data if result.success else result.llm_content


def test_a_second_start_loads_no_file_and_shows_the_same(folder: Path) -> None:
    first, before = start(folder, rich=RICH, plain=tool_file("say_one"))
    assert loaded_files(first) == {"rich", "plain"}
    second, after = start(folder)
    assert before.list() == after.list()
    for dialect in KNOWN:
        assert Exporter(dialect).definitions(before.tools()) == Exporter(dialect).definitions(after.tools())
    assert loaded_files(second) == set()


def test_all_that_is_told_of_a_tool_is_told_of_one_that_is_not_loaded(folder: Path) -> None:
    _, before = start(folder, rich=RICH)
    _, after = start(folder)
    shelved = {one.name: one for one in after.tools()}
    assert {type(one) for one in shelved.values()} == {ShelvedTool}
    for one in before.tools():
        shown = shelved[one.name]
        for name in Tool.__annotations__:
            if not name.startswith("_") and name != "exact_outputs":
                assert getattr(shown, name, None) == getattr(one, name, None), name
        assert (shown.expected_form, shown.fault) == (one.expected_form, one.fault)


async def test_a_call_loads_the_file_of_its_tool_alone(folder: Path) -> None:
    start(folder, rich=RICH, plain=tool_file("say_one"))
    tools, registry = start(folder)
    shown = registry.get("count_words")
    assert await result_of(registry, "count_words", text="a b c") == 3
    assert loaded_files(tools) == {"rich"}
    assert registry.get("count_words") is shown
    assert type(shown) is not ShelvedTool
    saved = {"saved": "a", "title": "A"}
    assert await result_of(registry, "save_note", name="a", note={"title": "A"}) == saved
    assert await result_of(registry, "count_words", words=1) != 3


async def test_the_result_of_a_tool_that_was_not_loaded_is_held_to_its_type(folder: Path) -> None:
    text = RICH.replace("-> int:", "-> bool:").replace("len(text.split())", "1")
    _, before = start(folder, rich=text)
    assert await result_of(before, "count_words", text="a") is True
    _, after = start(folder)
    assert type(after.get("count_words")) is ShelvedTool
    assert await result_of(after, "count_words", text="a") is True


async def test_a_tool_that_is_not_loaded_is_called_under_another_name(folder: Path) -> None:
    start(folder, rich=RICH)
    _, registry = start(folder)
    view = registry.prefixed("my_")
    assert await result_of(view, "my_count_words", text="a b") == 2  # type: ignore[arg-type]
    assert view.names() == ["my_save_note", "my_read_secret", "my_count_words"]
    assert await result_of(registry, "count_words", text="a") == 1


def test_it_can_be_called_as_the_function_that_it_is(folder: Path) -> None:
    start(folder, rich=RICH)
    _, registry = start(folder)
    count: Any = registry.get("count_words")
    assert (count("a b"), count.__name__) == (2, "count_words")


@pytest.mark.parametrize("changed", ["tool.py", "helper.py", "below.py"])
async def test_a_changed_file_is_loaded_again_and_those_that_import_it(folder: Path, changed: str) -> None:
    files = {
        "tool.py": tool_file("say_it", gives="NUMBER", before="from helper import NUMBER\n"),
        "helper.py": "from below import ONE\nNUMBER = ONE + 1\n",
        "below.py": "ONE = 1\n",
        "other.py": tool_file("say_other"),
    }
    write(folder, files)
    start(folder)
    tools, registry = start(folder)
    assert loaded_files(tools) == set()
    assert await result_of(registry, "say_it") == "2"
    write(
        folder, {changed: files[changed].replace("NUMBER)", "NUMBER + 8)").replace("+ 1", "+ 9").replace("= 1", "= 9")}
    )
    tools, registry = start(folder)
    assert "tool" in loaded_files(tools)
    assert "other" not in loaded_files(tools)
    assert await result_of(registry, "say_it") == "10"
    assert loaded_files(start(folder)[0]) == set()


async def test_a_file_that_changes_while_it_is_not_loaded_is_followed(folder: Path) -> None:
    """R8: and where its new content cannot be loaded, the one before stays in use."""
    start(folder, one=tool_file("say_it"))
    tools, registry = start(folder)
    write(folder, {"one.py": "def broken(:\n"})
    tools.load()
    assert await result_of(registry, "say_it") == "1"
    assert "the version loaded before stays in use" in findings(tools)["one.py"]
    write(folder, {"one.py": tool_file("say_it", gives="2")})
    tools.load()
    assert await result_of(registry, "say_it") == "2"
    (folder / "one.py").unlink()
    tools.load()
    assert registry.names() == []


def test_a_file_that_is_removed_is_not_loaded_for_that(folder: Path) -> None:
    start(folder, one=tool_file("say_it"), two=tool_file("say_two"))
    tools, registry = start(folder)
    (folder / "one.py").unlink()
    tools.load()
    assert (registry.names(), loaded_files(tools)) == (["say_two"], set())


async def test_a_tool_whose_file_can_no_longer_be_loaded_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = folder.parent / "installed"
    package.mkdir()
    monkeypatch.syspath_prepend(package)
    (package / "gone_tomorrow.py").touch()
    start(folder, one=tool_file("say_it", before="import gone_tomorrow\n"), two=tool_file("say_two"))
    (package / "gone_tomorrow.py").unlink()
    monkeypatch.delitem(sys.modules, "gone_tomorrow")
    importlib.invalidate_caches()
    _, registry = start(folder)
    assert registry.names() == ["say_it", "say_two"]
    assert "cannot be called" in await result_of(registry, "say_it")
    assert "`say_it` could not be loaded: line 2: no module named `gone_tomorrow`; install it" in caplog.text
    assert await result_of(registry, "say_two") == "1"


VARY = {
    "reads the environment": 'import os\nNAME = os.environ.get("NAME", "x")\n',
    "asks the clock": "from datetime import date\nTODAY = date.today()\n",
    "runs a function": "def number():\n    return 1\nNUMBER = number()\n",
    "opens a file": "TEXT = open(__file__).read()\n",
    "decorates with its own": "def twice(f):\n    return f\n@twice\ndef helper() -> int:\n    return 1\n",
    "decides": "if 1 + 1 == 2:\n    A = 1\n",
    "tries": "try:\n    import tomllib\nexcept ImportError:\n    tomllib = None\n",
    "uses what others wrote": "from elsewhere import Model\ndef helper(one: Model) -> None: ...\n",
    "names it in a text": "from elsewhere import Model\ndef helper(one: 'list[Model]') -> None: ...\n",
    "takes over a name": "def Field(**_):\n    return 1\nA = Field(x=1)\n",
    "takes everything": "from json import *\n",
    "runs while a class is made": "class A:\n    def __init_subclass__(cls) -> None: ...\n",
    "has a metaclass": "from abc import ABCMeta\nclass A(metaclass=ABCMeta): ...\n",
    "sets something elsewhere": "import json\njson.one = 1\n",
    "cannot be read": "def (:\n",
    "waits": "import time\nNOW = time.time()\n",
}
SAME = {
    "constants": "A = 1\nB: int = A + 1\nC = (A, 'text', {'a': [B]})\n",
    "imports for its work": "import os, httpx\nfrom pathlib import Path\ndef work() -> str:\n    return os.sep\n",
    "a model": RICH,
    "a pattern": "import re\n_WORD = re.compile(r'[a-z]+')\n",
    "a log": "import logging\nlogger = logging.getLogger(__name__)\n",
    "a file of the folder": "from . import helper\nfrom helper import ONE\nA = helper.ONE + ONE\n",
    "types alone": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from elsewhere import Model\n",
}


@pytest.mark.parametrize("text", VARY.values(), ids=VARY.keys())
def test_what_may_be_another_thing_tomorrow_is_loaded_at_every_start(text: str) -> None:
    assert not follows_from_text(text.encode(), {"helper"})


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_what_is_the_same_each_time_is_not(text: str) -> None:
    assert follows_from_text(text.encode(), {"helper"})


def test_a_file_that_depends_on_more_than_its_text_is_loaded_at_every_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vary = tool_file("say_it", before='import os\nNAME = os.environ["SAY"]\n').replace("Give something.", "Give it.")
    monkeypatch.setenv("SAY", "one")
    start(folder, vary=vary, plain=tool_file("say_one"))
    assert loaded_files(start(folder)[0]) == {"vary"}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"files": 5}', '{"made_by": [], "files": {}}'])
def test_a_damaged_index_is_made_again(folder: Path, damage: str) -> None:
    start(folder, one=tool_file("say_it"))
    (index,) = (folder.parent / "data" / "tools-index").iterdir()
    index.write_text(damage)
    tools, registry = start(folder)
    assert (registry.names(), loaded_files(tools)) == (["say_it"], {"one"})
    assert loaded_files(start(folder)[0]) == set()


def test_an_index_of_another_version_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(folder, one=tool_file("say_it"))
    monkeypatch.setattr(tools_index, "__version__", "99")
    assert loaded_files(start(folder)[0]) == {"one"}


def test_an_index_that_cannot_be_kept_is_no_problem(folder: Path) -> None:
    (folder.parent / "data").touch()
    for _ in range(2):
        tools, registry = start(folder, one=tool_file("say_it"))
        assert (registry.names(), loaded_files(tools)) == (["say_it"], {"one"})


def test_tools_of_other_sorts_are_loaded_at_every_start(folder: Path) -> None:
    sorts = {
        "of_a_class": "from ferrule import Tool\nfrom pydantic import BaseModel\nclass P(BaseModel):\n    a: int\n"
        'class GiveIt(Tool[P]):\n    """Give it."""\n    name = \'give_it\'\n'
        "    def run(self, params, context):\n        return params.a\n",
        "raw": "from ferrule import raw_tool\nfrom ferrule import tool\n"
        "raw = tool(name='raw', schema={'type': 'object'}, execute=print, description='Raw.')\n",
    }
    start(folder, plain=tool_file("say_it"), **sorts)
    tools, registry = start(folder)
    assert loaded_files(tools) == {"of_a_class", "raw"}
    assert set(registry.names()) == {"say_it", "give_it", "raw"}


def test_what_is_shown_is_json(folder: Path) -> None:
    _, registry = start(folder, rich=RICH)
    for one in registry.tools():
        shown = shown_of(one)  # type: ignore[arg-type]
        assert json.loads(json.dumps(shown))["name"] == one.name
