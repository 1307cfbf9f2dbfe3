"""The call that a request asks for: which tool, and what the request names sorted into its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.function_tool import tool
from ferrule.models.local.pick_call import CallPicker, Role, fill, globs_for, is_text, role_of

TOOLS = {one.name: one for one in builtin_tools(family="all")}
ALL = CallPicker(builtin_tools(family="all"))


def filled(tool: str, request: str) -> dict[str, Any]:
    """The arguments as far as they are told: the only choice, all choices, or `...` where nothing is told."""
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


def test_what_finds_no_place_and_what_finds_no_value_are_known() -> None:
    form = fill(TOOLS["getGitInfo"], 'read "this" in a.py')
    assert [one.text for one in form.unused] == ["this", "a.py"]
    assert fill(TOOLS["Edit"], "change a.py").missing == ["old_string", "new_string"]
    assert fill(TOOLS["MultiEdit"], "two changes in a.py").missing == ["edits"]
    assert fill(TOOLS["Read"], "read a.py").missing == []


def test_of_several_values_that_fit_the_first_is_taken() -> None:
    assert fill(TOOLS["Glob"], "find YAML files").arguments == {"pattern": "*.yaml"}


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


@pytest.mark.parametrize(
    ("request_", "globs"),
    [
        ("find all Python files", ("*.py",)),
        ("找出 Markdown 和 YAML 文件", ("*.md", "*.yaml", "*.yml")),
        ("every .rs file", ("*.rs",)),
        ("Python or .ts files", ("*.py", "*.ts")),
        ("a pythonic way", ()),
        ("read src/app.py", ()),
    ],
)
def test_a_kind_of_files_becomes_globs(request_: str, globs: tuple[str, ...]) -> None:
    assert globs_for(request_) == globs


# Which tool is meant


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ("Show me what is in README.md.", {"Read", "readFile"}),
        ("src 目录里有哪些文件？", {"LS", "listFiles"}),
        ("What time is it now?", {"getCurrentDateTime"}),
        ("Run the command ls -la", {"Bash", "executeCommand"}),
        ("函数 parse_args 是在哪里定义的？", {"Grep", "FileSearch"}),
        ("Stop the background shell bash_1.", {"KillShell"}),
        ('change "a" to "b" in c.py', {"Edit"}),
        ("find all Python files", {"Glob", "searchFiles"}),
        ("找出所有 Python 文件", {"Glob", "searchFiles"}),
    ],
)
def test_the_tool_is_the_one_meant(request_: str, wanted: set[str]) -> None:
    form = ALL.pick(request_)
    assert form is not None
    assert form.tool.name in wanted


@pytest.mark.parametrize("request_", ["Hello, who are you?", "Explain what recursion is.", "你好", ""])
def test_words_are_the_answer_where_nothing_is_to_be_done(request_: str) -> None:
    assert ALL.pick(request_) is None
    assert CallPicker([]).pick(request_) is None


def test_a_call_can_be_asked_for_all_the_same() -> None:
    assert ALL.pick("hello", must=True) is not None
    assert CallPicker([]).pick("hello", must=True) is None


def test_of_two_that_fit_alike_the_harmless_one_is_better() -> None:
    form = ALL.pick('search for "x"')
    assert form is not None
    assert form.tool.read_only


def test_what_is_named_does_not_count_as_a_word() -> None:
    """A file called `search.py` is no wish to search."""
    form = ALL.pick("read search.py")
    assert form is not None
    assert form.tool.name in ("Read", "readFile")


def test_tools_of_others_are_found_by_their_own_words() -> None:
    @tool(name="send_mail", kind="execute")
    def send_mail(to: str, text: str) -> str:
        """Send an e-mail to somebody."""
        return to + text

    @tool(name="forecast", kind="readonly")
    def forecast(town: str) -> str:
        """Tell the weather of the next days."""
        return town

    picker = CallPicker([*TOOLS.values(), send_mail, forecast])
    mail, weather = picker.pick('给 "ann@example.org" 发一封邮件 "你好"'), picker.pick('weather in "Rome"')
    assert mail is not None
    assert (mail.tool, mail.arguments) == (send_mail, {"to": "ann@example.org", "text": "你好"})
    assert weather is not None
    assert (weather.tool, weather.arguments) == (forecast, {"town": "Rome"})


@pytest.mark.parametrize(
    ("request_", "arguments", "missing"),
    [
        ("convert an amount of 20", {"amount": 20}, []),
        ("convert 2.5", {"amount": 2.5}, []),
        ("convert money", {}, ["amount"]),
    ],
)
def test_a_required_number_is_the_one_in_the_request(
    request_: str, arguments: dict[str, Any], missing: list[str]
) -> None:
    @tool
    def convert(amount: float, rate: float = 1.1) -> float:
        """Convert an amount of money."""
        return amount * rate

    form = fill(convert, request_)
    assert (form.arguments, form.missing) == (arguments, missing)
