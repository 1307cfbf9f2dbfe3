"""`ferrule tools`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Command


def test_the_list_names_each_tool_its_kind_and_what_it_does(ferrule: Command) -> None:
    done = ferrule("tools")
    lines = done.out.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "ASSISTANT", "DESCRIPTION"]
    assert any(line.split(maxsplit=3)[:3] == ["save_note", "write", "yes"] for line in lines)


def test_the_list_marks_what_the_assistant_is_not_given(ferrule: Command) -> None:
    """One name of each tool is offered, the setting `assistant.tools` can choose the other, and both can be called."""

    def offered(**settings: str) -> set[str]:
        return {tool["name"] for tool in ferrule("tools", "--json", **settings).json if tool["assistant"]}

    twins = {"readFile", "listFiles", "searchFiles", "executeCommand"}
    both = {"getGitInfo", "getCurrentDateTime", "getCurrentDirectory"}
    assert offered() & {"Read", "save_note", "FetchPage", *twins, *both} == {"Read", "save_note", *both}
    assert offered(FERRULE_ASSISTANT_TOOLS="assistant") == twins | both
    assert offered(FERRULE_ASSISTANT_TOOLS="standard, readFile") == offered() | {"readFile"}
    assert offered(FERRULE_ASSISTANT_TOOLS="all") >= offered() | twins
    listed = [line.split(maxsplit=3) for line in ferrule("tools").out.splitlines()[1:]]
    assert [mark for _name, _kind, mark, _words in listed] == sorted((one[2] for one in listed), reverse=True)
    (ferrule.workspace / "a").write_text("content\n")
    assert "content" in ferrule("call", "readFile", '{"filePath": "a"}').out


def test_one_tool_is_shown_with_its_examples(ferrule: Command) -> None:
    """T1."""
    assert 'Examples:\n- find all Python files: {"pattern": "*.py"}\n' in ferrule("tools", "Glob").out


def test_words_narrow_the_list(ferrule: Command) -> None:
    """R3: search over names and descriptions."""
    assert [line.split()[0] for line in ferrule("tools", "rocket").out.splitlines()[1:]] == ["launch_rocket"]
    nothing = ferrule("tools", "qwxyz")
    assert (nothing.out, nothing.err, nothing.code) == ("", "No tool matches.\n", 0)


def test_plan_mode_shows_read_only_tools_alone(ferrule: Command) -> None:
    """R4."""
    assert {tool["kind"] for tool in ferrule("tools", "--json", "--mode", "plan").json} == {"readonly"}


def test_json_holds_the_schemas(ferrule: Command) -> None:
    note = next(tool for tool in ferrule("tools", "--json").json if tool["name"] == "save_note")
    assert note["input_schema"]["required"] == ["text"]
    assert (note["origin"], note["version"], note["read_only"]) == ("plugin", "1.0.0", False)


def test_each_dialect_prints_its_definitions(ferrule: Command) -> None:
    """T10."""
    assert ferrule("tools", "save_note", "--dialect", "openai").json[0]["function"]["name"] == "save_note"
    assert ferrule("tools", "save_note", "--dialect", "anthropic").json[0]["input_schema"]["required"] == ["text"]
    for dialect in ("openai-responses", "gemini", "mcp"):
        assert "save_note" in ferrule("tools", "save_note", "--dialect", dialect).out


def test_a_broken_file_is_reported_and_the_others_work(ferrule: Command) -> None:
    """R6."""
    (ferrule.folder / "tools" / "broken.py").write_text("def oops(:\n")
    done = ferrule("tools")
    assert done.code == 0
    assert "broken.py was skipped: line 1: invalid syntax" in done.err
    assert "save_note" in done.out


def test_a_disabled_tool_is_not_shown(ferrule: Command) -> None:
    done = ferrule("tools", FERRULE_TOOLS_DISABLED="save_note, echo_text")
    assert "save_note" not in done.out
    assert "launch_rocket" in done.out


def test_neither_the_list_nor_a_file_tool_imports_the_shell(ferrule: Command) -> None:
    """A list of names is there at once: it starts no program, and waits for nothing."""
    ferrule.settings.write_text("")
    (ferrule.workspace / "a").write_text("content\n")
    listed = ferrule("tools", PYTHONPROFILEIMPORTTIME="1")
    read = ferrule("call", "Read", '{"file_path": "a"}', PYTHONPROFILEIMPORTTIME="1")
    assert ("Bash" in listed.out, "content" in read.out) == (True, True)
    assert imported(listed.err) & {"ferrule.process", "asyncio"} == set()
    heavy = {name for name in imported(read.err) if name.startswith("ferrule.process.")}
    assert heavy == set()


TELLS = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from ferrule.cli.main import main
main()
"""


def test_a_call_imports_no_other_tool_and_nothing_that_reads_commands(ferrule: Command) -> None:
    """P3."""
    (ferrule.workspace / "a").write_text("content\n")
    ferrule.settings.write_text("[tools]\nplugins = true\n")
    done = subprocess.run(
        [sys.executable, "-c", TELLS, "call", "Read", '{"file_path": "a"}'],
        cwd=ferrule.workspace, env=ferrule.environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "content" in done.stdout
    found = set(done.stderr.split())
    of_tools = ("ferrule.builtin.", "ferrule.toolbox.", "ferrule.plugins.")
    assert {name for name in found if name.startswith(of_tools)} == {
        "ferrule.builtin.all_tools",
        "ferrule.builtin.read",
        "ferrule.toolbox.accounts",
        "ferrule.toolbox.areas",
        "ferrule.toolbox.failures",
    }
    assert "ferrule.policy.commands.dangers" not in found


def imported(told: str) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")}


LOUD = '''
import os, subprocess, sys
print("printed"); sys.stdout.write("written"); os.write(1, b"raw"); os.system("echo from a program")
from ferrule import tool

@tool(kind="readonly")
def say_word() -> str:
    """Say a word. Use this to test."""
    return "hello"
'''


@pytest.mark.parametrize(
    "arguments",
    [
        ["tools", "--json"],
        ["call", "say_word", "--json"],
        ["lint", "--json"],
        ["doctor", "--json"],
        ["lint", "FILE", "--json"],
    ],
)
def test_what_a_file_prints_when_it_is_loaded_is_not_in_the_document(ferrule: Command, arguments: list[str]) -> None:
    """R6."""
    file = ferrule.folder / "tools" / "loud.py"
    file.write_text(LOUD)
    done = ferrule.process(*(str(file) if one == "FILE" else one for one in arguments))
    assert done.json
    assert all(words in done.err for words in ("printed", "written", "raw", "from a program"))


def test_a_file_that_fails_is_said_with_its_line_and_the_rest_is_listed(ferrule: Command) -> None:
    """R6."""
    file = ferrule.folder / "tools" / "bad.py"
    file.write_text("import sys\n\nsys.exit('no')")
    done = ferrule("tools")
    assert "save_note" in done.out
    assert done.err == f"Warning: {file} was skipped: line 3: SystemExit: no\n"
