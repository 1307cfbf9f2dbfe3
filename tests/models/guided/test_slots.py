"""What a request names is sorted into the arguments of a call."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.builtin.all_tools import builtin_tools
from ferrule.models.guided.slots import Role, fill, is_text, role_of

TOOLS = {tool.name: tool for tool in builtin_tools()}


def filled(tool: str, request: str) -> dict[str, Any]:
    """The arguments as far as they are told: the only choice, all choices, or `...` where it is written freely."""
    slots = fill(TOOLS[tool], request).slots
    return {
        slot.name: slot.choices[0] if len(slot.choices) == 1 else list(slot.choices) if slot.choices else ...
        for slot in slots
    }


@pytest.mark.parametrize(
    ("tool", "request_", "arguments"),
    [
        ("Read", "show me README.md", {"file_path": "README.md"}),
        ("Read", "the first 20 lines of a.py", {"file_path": "a.py", "limit": 20}),
        ("Read", "读取 a.py 的前 20 行", {"file_path": "a.py", "limit": 20}),
        ("Read", "read the file", {"file_path": ...}),
        ("LS", "what is in the src folder?", {"path": "src"}),
        ("LS", "what is here", {}),
        ("listFiles", "list tests recursively, all in tests", {"directoryPath": "tests", "recursive": True}),
        ("Glob", "find all Python files in the lib folder", {"pattern": "*.py", "path": "lib"}),
        ("Glob", "find YAML files", {"pattern": ["*.yaml", "*.yml"]}),
        ("Glob", "find config.json", {"pattern": "config.json"}),
        (
            "Grep",
            'search for "error" in server.log, ignoring case',
            {"pattern": "error", "path": "server.log", "-i": True},
        ),
        ("Grep", "how many lines mention parse_args", {"pattern": "parse_args", "output_mode": "count"}),
        ("Edit", 'change "a b" to "c" in x.py', {"file_path": "x.py", "old_string": "a b", "new_string": "c"}),
        ("Write", "新建 a.txt，内容是“你好”", {"file_path": "a.txt", "content": "你好"}),
        ("Bash", "run `make test`", {"command": "make test"}),
        ("Bash", 'start "npm run dev" in the background', {"command": "npm run dev", "run_in_background": True}),
        ("KillShell", "stop bash_1", {"shell_id": "bash_1"}),
        ("getGitInfo", "which branch", {}),
    ],
)
def test_what_is_named_goes_where_it_belongs(tool: str, request_: str, arguments: dict[str, Any]) -> None:
    assert filled(tool, request_) == arguments


def test_what_finds_no_place_and_what_finds_no_value_are_counted() -> None:
    form = fill(TOOLS["getGitInfo"], 'read "this" in a.py')
    assert [one.text for one in form.unused] == ["this", "a.py"]
    assert fill(TOOLS["Edit"], "change a.py").unfilled == 2
    assert fill(TOOLS["Read"], "read a.py").unfilled == 0


def test_a_required_list_is_written_freely_with_its_references_resolved() -> None:
    slot = next(slot for slot in fill(TOOLS["MultiEdit"], "two changes in a.py").slots if slot.name == "edits")
    assert slot.choices == ()
    assert slot.schema["items"]["required"] == ["old_string", "new_string"]


@pytest.mark.parametrize(
    ("name", "about", "role"),
    [
        ("file_path", "", Role.FILE),
        ("directoryPath", "", Role.FOLDER),
        ("path", "The folder to look in.", Role.FOLDER),
        ("path", "The file or folder to search.", Role.PLACE),
        ("pattern", "A glob from here on.", Role.GLOB),
        ("pattern", "The regular expression.", Role.PATTERN),
        ("command", "", Role.COMMAND),
        ("shell_id", "", Role.IDENTITY),
        ("url", "", Role.ADDRESS),
        ("content", "", Role.TEXT),
    ],
)
def test_a_parameter_tells_what_it_is_for(name: str, about: str, role: Role) -> None:
    assert role_of(name, {"description": about}) is role


def test_a_choice_of_words_is_no_text() -> None:
    assert is_text({"anyOf": [{"type": "string"}, {"type": "null"}]})
    assert not is_text({"type": "string", "enum": ["a", "b"]})
    assert not is_text({"anyOf": [{"type": "string"}, {"type": "integer"}]})
