"""The files of a tools folder import each other, belong to it alone, and can be loaded again (R6, R8)."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.plugins.tools_folder import KEPT, ToolsFolder
from tests.plugins import files
from tests.plugins.files import findings, load, tool_file, tools_of, write


def again(loaded: ToolsFolder, changes: dict[str, str] | None = None) -> ToolsFolder:
    write(Path(loaded.path), changes or {})
    loaded.refresh(loaded.look())
    return loaded


# Importing


@pytest.mark.parametrize(
    "imports",
    [
        "import words\nWORD = words.WORD",
        "from words import WORD",
        "import words as other\nWORD = other.WORD",
        "from . import words\nWORD = words.WORD",
        "from .words import WORD",
        "import parts.deep.words\nWORD = parts.deep.words.WORD",
        "from parts.deep import words\nWORD = words.WORD",
        "from .parts.deep.words import WORD",
        "import package\nWORD = package.WORD",
        "import importlib\nWORD = importlib.import_module('.words', __package__).WORD",
    ],
)
@pytest.mark.parametrize("init", [True, False], ids=["a package", "a folder"])
def test_a_file_imports_its_siblings(imports: str, init: bool, tmp_path: Path) -> None:
    helpers = {
        "words.py": "WORD = 'hello'",
        "parts/deep/words.py": "from ...words import WORD",
        "package/__init__.py": "from .inner import WORD",
        "package/inner.py": "from words import WORD",
    }
    if init:
        helpers["__init__.py"] = "FROM_INIT = 1"
    loaded = load(tmp_path, helpers | {"say.py": tool_file("say_word", "WORD", imports)})
    assert files.given(loaded) == {"say_word": "hello"}
    assert findings(loaded) == {}


def test_a_sibling_is_found_when_a_tool_runs_too(tmp_path: Path) -> None:
    body = tool_file("say_word", "late()", "def late():\n    import words\n    return words.WORD\n")
    assert files.given(load(tmp_path, {"say.py": body, "_words.py": "", "words.py": "WORD = 'late'"})) == {
        "say_word": "late"
    }


def test_a_package_runs_its_init_once_and_may_export_its_tools(tmp_path: Path) -> None:
    loaded = load(
        tmp_path, {"__init__.py": "from .say import say_word\nWORD = 'of the package'", "say.py": tool_file("say_word")}
    )
    write(tmp_path, {"ask.py": tool_file("ask_word", "WORD", "from . import WORD")})
    assert files.given(again(loaded)) == {"ask_word": "of the package", "say_word": "1"}
    assert findings(loaded) == {}


def test_an_init_that_fails_is_one_finding_and_the_files_load(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"__init__.py": "\n1 / 0", "say.py": tool_file("say_word")})
    assert findings(loaded) == {"__init__.py": "line 2: ZeroDivisionError: division by zero"}
    assert files.given(loaded) == {"say_word": "1"}


@pytest.mark.parametrize("imports", ["from my_tools.words import WORD", "import my_tools.words as w\nWORD = w.WORD"])
def test_a_package_can_be_imported_by_its_name(imports: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Python would find a second copy of it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    say = tool_file("say_word", "WORD", f"from .words import WORD as same\n{imports}\nassert WORD is same")
    loaded = load(tmp_path / "my_tools", {"__init__.py": "", "words.py": "WORD = object.__doc__", "say.py": say})
    assert findings(loaded) == {}
    assert "my_tools" not in sys.modules


def test_two_folders_with_a_util_each_do_not_mix(tmp_path: Path) -> None:
    loaded = [
        load(tmp_path / name, {"util.py": f"WHO = {name!r}", "who.py": tool_file("say_who", "util.WHO", "import util")})
        for name in ("one", "two")
    ]
    assert [files.given(one) for one in loaded] == [{"say_who": "one"}, {"say_who": "two"}]
    assert "util" not in sys.modules


def test_a_file_may_have_the_name_of_a_library_module(tmp_path: Path) -> None:
    """Neither the rest of the program nor its siblings get it instead of the library's."""
    uses = "import json, pydantic\nfrom pydantic import BaseModel\nGIVEN = json.dumps([BaseModel.__module__])"
    loaded = load(
        tmp_path,
        {
            "json.py": tool_file("from_json", "json.dumps(1)", "import json"),
            "pydantic.py": tool_file("from_pydantic", "pydantic.VERSION", "import pydantic"),
            "uses.py": tool_file("use_both", "GIVEN", uses),
        },
    )
    assert findings(loaded) == {}
    assert files.given(loaded) == {
        "from_json": "1", "from_pydantic": sys.modules["pydantic"].VERSION, "use_both": '["pydantic.main"]',
    }  # fmt: skip
    assert sys.modules["json"] is json
    assert str(tmp_path) not in sys.path


def test_who_means_a_sibling_and_gets_a_package_is_told_how_to_say_it(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"click.py": "HELP = 1", "say.py": tool_file("say_word", before="from click import HELP")})
    assert (
        "; `click` is an installed package here, use `from . import click` for the file in the folder"
        in (findings(loaded)["say.py"])
    )
    again(loaded, {"say.py": tool_file("say_word", "click.HELP", "from . import click")})
    assert files.given(loaded) == {"say_word": "1"}


def test_a_file_that_only_helps_is_no_finding(tmp_path: Path) -> None:
    helpers = {"_private.py": "raise RuntimeError", "helper.py": "WORD = 1", ".#lock.py": "(", "lazy.py": "WORD = 2"}
    late = "import helper\ndef late():\n    from . import (\n        lazy,\n    )\n    return lazy.WORD\n"
    loaded = load(tmp_path, {**helpers, "say.py": tool_file("say_word", "late()", late), "lonely.py": "say_word = 1"})
    assert findings(loaded) == {
        "lonely.py": snapshot("no tools found; decorate a function with @tool, or list tools in `TOOLS`")
    }
    assert files.given(loaded) == {"say_word": "2"}


def test_a_helper_of_a_file_that_fails_is_no_finding(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"helper.py": "WORD = 1", "say.py": "from helper import WORD\n("})
    assert list(findings(loaded)) == ["say.py"]


def test_names_that_are_no_names_of_modules_load_all_the_same(tmp_path: Path) -> None:
    loaded = load(
        tmp_path, {"my-tools.py": tool_file("one"), "2.tools.py": tool_file("two"), "if.py": tool_file("three")}
    )
    assert sorted(files.given(loaded)) == ["one", "three", "two"]


def test_no_cache_is_written_beside_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    load(tmp_path, {"say.py": tool_file("say_word", before="import sub.words"), "sub/words.py": "WORD = 1"})
    assert [file.name for file in tmp_path.rglob("*") if "cache" in file.name] == []


# Failing


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def half(:\n", snapshot("line 1: invalid syntax")),
        ("\n\nraise ValueError('two\\nlines')", snapshot("line 3: ValueError: two lines")),
        ("import sys\nsys.exit(3)", snapshot("line 2: SystemExit: 3")),
        ("raise KeyboardInterrupt", snapshot("line 1: KeyboardInterrupt")),
        (
            "\nimport no_such_thing",
            snapshot("line 2: no module named `no_such_thing`; install it in Ferrule's environment"),
        ),
        ("from . import missing", snapshot("line 1: ImportError: cannot import name 'missing' from 'tools' (PLACE)")),
        ("from .missing import x", snapshot("line 1: no module `missing` in this folder")),
        ("from helper import no", snapshot("line 1: ImportError: cannot import name 'no' from 'helper' (PLACE)")),
        ("import bad_helper", snapshot("line 1: ZeroDivisionError: division by zero (bad_helper.py, line 2)")),
        ("input()", snapshot("line 1: EOFError: EOF when reading a line")),
        ("# coding: no-such-coding", snapshot("unknown encoding: no-such-coding")),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})", snapshot("line 1: Odd")),
        ("class Long(Exception): pass\nraise Long('x' * 10000)", snapshot("line 2: Long: " + "x" * 293 + "…")),
    ],
)  # fmt: skip
def test_a_file_that_fails_is_reported_in_one_line_and_the_others_load(tmp_path: Path, text: str, reason: str) -> None:
    folder = tmp_path / "tools"
    helpers = {
        "_bad.py": "",
        "helper.py": "",
        "bad_helper.py": "\n1 / 0",
        "good.py": tool_file("say_word", before="import helper"),
    }
    loaded = load(folder, {**helpers, "fails.py": text})
    assert re.sub(r"\((unknown location|/\S+)\)", "(PLACE)", findings(loaded)["fails.py"]) == reason
    assert files.given(loaded) == {"say_word": "1"}


def test_a_file_that_never_ends_is_given_up_and_the_others_load(tmp_path: Path) -> None:
    endless = "while True:\n    pass\n"
    loaded = load(tmp_path, {"a_endless.py": endless, "say.py": tool_file("say_word")}, seconds=0.5)
    assert findings(loaded) == {"a_endless.py": "loading it took more than 0.5 s"}
    assert files.given(loaded) == {"say_word": "1"}
    for thread in [one for one in threading.enumerate() if one.name == "ferrule-tools-folder"]:
        thread.join(60)  # it was told to end, and does where it is Python that runs
        assert not thread.is_alive()
    assert files.given(again(loaded, {"a_endless.py": tool_file("end_now")})) == {"end_now": "1", "say_word": "1"}


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere")
    assert files.given(load(tmp_path, {"say.py": tool_file("say_word")})) == {"say_word": "1"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    write(tmp_path, {"secret.py": tool_file("say_word")})
    (tmp_path / "secret.py").chmod(0)
    assert findings(load(tmp_path)) == {"secret.py": "it cannot be read: Permission denied"}


# Loading again


def test_only_what_changed_and_what_imports_it_is_loaded_again(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        {
            "words.py": "WORD = 'old'",
            "middle.py": "from words import WORD",
            "say.py": tool_file("say_word", "middle.WORD", "import middle"),
            "other.py": tool_file("say_other"),
        },
    )
    before = tools_of(loaded)
    after = tools_of(again(loaded, {"words.py": "WORD = 'new'"}))
    assert after["say_word"]() == "new"
    assert before["say_word"]() == "old"  # a call under way goes on with what it began with
    assert after["say_word"] is not before["say_word"]
    assert after["say_other"] is before["say_other"]


def test_an_edit_within_the_same_instant_and_of_the_same_size_is_seen(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"say.py": tool_file("say_word", "1")})
    for number in range(2, 10):
        times = (tmp_path / "say.py").stat()
        write(tmp_path, {"say.py": tool_file("say_word", str(number))})
        os.utime(tmp_path / "say.py", ns=(times.st_atime_ns, times.st_mtime_ns))
        assert files.given(again(loaded)) == {"say_word": str(number)}


def test_a_touch_is_no_change(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"say.py": tool_file("say_word")})
    before = tools_of(loaded)["say_word"]
    os.utime(tmp_path / "say.py")
    assert tools_of(again(loaded))["say_word"] is before


@pytest.mark.parametrize(
    ("half", "why"),
    [
        (tool_file("say_word").removesuffix(")\n"), "line 6: '(' was never closed"),
        ("", "it is empty"),
        ("1 / 0", "line 1: ZeroDivisionError: division by zero"),
        (
            "import gone_missing",
            "line 1: no module named `gone_missing`; install it in Ferrule's environment",
        ),
    ],
)
def test_a_file_that_fails_keeps_what_it_brought_until_it_is_mended(tmp_path: Path, half: str, why: str) -> None:
    loaded = load(tmp_path, {"say.py": tool_file("say_word", "'old'"), "other.py": tool_file("say_other")})
    before = tools_of(loaded)
    again(loaded, {"say.py": half})
    assert findings(loaded) == {"say.py": f"{why}; {KEPT}"}
    assert tools_of(loaded) == before
    again(loaded, {"say.py": tool_file("say_word", "'mended'")})
    assert findings(loaded) == {}
    assert files.given(loaded)["say_word"] == "mended"


def test_a_helper_that_fails_or_goes_leaves_its_importers_as_they_were(tmp_path: Path) -> None:
    late = "def late():\n    import words\n    return words.WORD\n"
    loaded = load(
        tmp_path, {"words.py": "WORD = 'old'", "say.py": tool_file("say_word", "late()", f"import words\n{late}")}
    )
    before = tools_of(loaded)["say_word"]
    for text in ("WORD = 'ne", "1 / 0", None):
        if text is None:
            (tmp_path / "words.py").unlink()
        again(loaded, {"words.py": text} if text is not None else {})
        assert tools_of(loaded)["say_word"] is before
        assert before() == "old"
        assert any(reason.endswith(KEPT) for reason in findings(loaded).values())
    again(loaded, {"words.py": "WORD = 'new'"})
    assert findings(loaded) == {}
    assert files.given(loaded) == {"say_word": "new"}


def test_what_was_missing_is_found_when_it_comes(tmp_path: Path) -> None:
    optional = "try:\n    import words\n    WORD = words.WORD\nexcept ImportError:\n    WORD = 'none'"
    loaded = load(
        tmp_path,
        {
            "say.py": tool_file("say_word", "w.WORD", "import words as w"),
            "may.py": tool_file("may_say", "WORD", optional),
        },
    )
    assert files.given(loaded) == {"may_say": "none"}
    again(loaded, {"words.py": "WORD = 'here'"})
    assert files.given(loaded) == {"may_say": "here", "say_word": "here"}
    assert findings(loaded) == {}


def test_a_file_that_lacks_a_package_is_tried_again_with_any_change(tmp_path: Path) -> None:
    """The package may have been installed since. Until then the file keeps its old tools, and is reported."""
    package, folder = tmp_path / "installed", tmp_path / "tools"
    loaded = load(folder, {"say.py": tool_file("say_word", "'old'")})
    text = tool_file("say_word", "WORD", "from a_package_of_the_test import WORD")
    again(loaded, {"say.py": text})
    again(loaded, {"other.py": tool_file("say_other")})
    assert findings(loaded) == {
        "say.py": f"line 2: no module named `a_package_of_the_test`; install it in Ferrule's environment; {KEPT}"
    }
    assert files.given(loaded) == {"say_other": "1", "say_word": "old"}
    write(package, {"a_package_of_the_test.py": "WORD = 'new'"})
    sys.path.append(str(package))
    try:
        again(loaded, {"other.py": tool_file("say_other", "2")})
    finally:
        sys.path.remove(str(package))
        sys.modules.pop("a_package_of_the_test", None)
    assert findings(loaded) == {}
    assert files.given(loaded) == {"say_other": "2", "say_word": "new"}


def test_a_file_that_failed_is_not_run_again_for_nothing(tmp_path: Path) -> None:
    count = tmp_path / "count"
    text = f"with open({str(count)!r}, 'a') as file:\n    file.write('x')\n1 / 0"
    loaded = load(tmp_path, {"fails.py": text, "say.py": tool_file("say_word")})
    again(loaded, {"say.py": tool_file("say_more")})
    assert findings(loaded) == {"fails.py": "line 3: ZeroDivisionError: division by zero"}
    assert count.read_text() == "x"


def test_a_removed_file_takes_its_tools_along_and_a_folder_may_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    loaded = load(folder, {"say.py": tool_file("say_word"), "other.py": tool_file("say_other"), "__init__.py": "X = 1"})
    (folder / "say.py").unlink()
    assert list(tools_of(again(loaded))) == ["say_other"]
    folder.rename(tmp_path / "away")
    assert tools_of(again(loaded)) == {}
    assert findings(loaded) == {"tools": "there is no such folder"}
    (tmp_path / "away").rename(folder)
    assert files.given(again(loaded)) == {"say_other": "1"}
    assert findings(loaded) == {}


def test_a_helper_in_a_folder_below_is_followed_too(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        {"sub/words.py": "WORD = 'old'", "say.py": tool_file("say_word", "words.WORD", "from sub import words")},
    )
    assert files.given(again(loaded, {"sub/words.py": "WORD = 'new'"})) == {"say_word": "new"}


# The law: what is loaded is what a fresh start would load

NAMES = ("a", "b", "c", "_d")
BODIES = st.sampled_from(
    [
        "pass",
        "VALUE = {n}",
        "from {other} import VALUE",
        "import {other}\nVALUE = {other}.VALUE + '+'",
        "VALUE = '{n}'\nfrom ferrule import tool\n@tool\ndef tool_{me}() -> str:\n    return VALUE",
        "from {other} import VALUE\nfrom ferrule import tool\n@tool\ndef tool_{me}() -> str:\n    return str(VALUE)",
        "from ferrule import tool\n@tool\ndef tool_{me}() -> str:\n    import {other}\n    return str({other}.VALUE)",
        "VALUE = '{n}'\nfrom ferrule import tool\n@tool\ndef shared() -> str:\n    return '{me}{n}'",
        "from {other} import *",
        "1 / 0",
        "VALUE = (",
    ]
)
EDITS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.one_of(st.none(), BODIES), st.sampled_from(NAMES), st.integers(0, 3)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EDITS, min_size=1, max_size=5))
def test_any_edits_end_as_a_fresh_start_would(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[tuple[str, str | None, str, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("tools")
    loaded = load(folder)
    for edits in rounds:
        for me, body, other, number in edits:
            file = folder / f"{me}.py"
            if body is None:
                file.unlink(missing_ok=True)
            else:
                file.write_text(body.format(me=me, other=other, n=number))
        again(loaded)
        fresh = load(folder)
        if any("no tools found" not in reason for reason in findings(fresh).values()):
            continue  # what fails now may have worked before, and is kept
        assert outcomes(loaded) == outcomes(fresh)


def outcomes(loaded: ToolsFolder) -> list[tuple[str, str, str]]:
    return [(Path(file.path).name, tool.name, outcome(tool)) for file in loaded.files for tool in file.tools]


def outcome(tool: object) -> str:
    try:
        return tool()  # type: ignore[operator]
    except Exception as error:
        return type(error).__name__
