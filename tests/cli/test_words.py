"""Words for people, in English and Chinese; never tool names, error types or JSON keys."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import json
import re
import string
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ferrule.cli.words import choose_language

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Command

SCRIPT = Path(__file__).parents[2] / "scripts" / "catalogues"
SOURCE = Path(__file__).parents[2] / "src" / "ferrule"


@pytest.fixture(scope="module")
def catalogues() -> Any:
    loader = importlib.machinery.SourceFileLoader("catalogues", str(SCRIPT))
    spec = importlib.util.spec_from_loader("catalogues", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    vars(module)["updated"] = cache(module.updated)  # every text of the source is looked at once, not for each test
    return module


def test_every_message_has_chinese_words_and_the_shipped_file_is_current(catalogues: Any) -> None:
    for file in catalogues.files():
        current = catalogues.updated(file)
        assert [message.id for message in current if message.id and not message.string] == []
        assert catalogues.as_po(current).decode() == file.read_text(encoding="utf-8"), "run scripts/catalogues"
        assert catalogues.as_mo(current) == file.with_suffix(".mo").read_bytes(), "run scripts/catalogues"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_all_that_users_read_from_the_commands_is_what_was_reviewed(catalogues: Any, language: str) -> None:
    """The help of every command and every message; a difference is looked at before it is written anew."""
    (file,) = (one for one in catalogues.files() if one.stem == "ferrule")
    reviewed = (catalogues.USER_TEXTS / f"{language}.txt").read_text(encoding="utf-8")
    assert catalogues.user_texts(language, catalogues.updated(file)) == reviewed, "run scripts/catalogues"


def test_placeholders_survive_translation(catalogues: Any) -> None:
    for file in catalogues.files():
        for message in catalogues.updated(file):
            if message.id:
                assert placeholders(message.id) == placeholders(message.string), message.id


def placeholders(text: str) -> list[str]:
    try:
        return sorted({name for _, name, _, _ in string.Formatter().parse(text) if name})
    except ValueError:  # a brace that is meant as such: nothing is filled in
        return []


def test_chinese_sentences_have_full_width_marks(catalogues: Any) -> None:
    for file in catalogues.files():
        for message in catalogues.updated(file):
            words = re.sub(r"`[^`]*`", "`", message.string)
            assert not re.search(r"[\u4e00-\u9fff][,;:?!(]|[,;:)][\u4e00-\u9fff]", words), message.string
            assert not re.search(r"[\u4e00-\u9fff] ?\{\w+\}[,;:?!]", words), message.string


CALLS = {
    "ToolError", "PathError", "EditError", "SandboxRefused", "StoppedError", "Decision", "Danger", "lacks",  # of a call
    "CannotStart", "require_folder",
    "Problem", "out_of_form", "against_rule", "unexpected", "missing_field", "wrong_key", "_said",  # of its arguments
    "RuleError", "SettingsError", "HookFailed", "MissingExtraError", "AuditError",  # of what surrounds it
    "SavedConversationError",
    "ModelError", "_error", "broken", "garbled", "no_connection", "TurnEnded", "_ended", "AgentNotice",  # of a turn
    "MarketError", "PluginError", "_wrong_address",  # of a market
    "Failed", "_failed", "Malformed", "MissingValueError", "OAuthFlowError", "ended_in_call",  # of servers
    "Conflict",  # of undo
    "UsageError", "ClickException", "PlainError", "fail", "warn",  # of a command line
}  # fmt: skip
"""What makes words that a person gets to read: as a reason, an error, a suggestion."""
WORDED = (
    "core", "pipeline", "policy", "workspace", "process", "builtin", "agent", "models", "mcp_client", "app", "records",
    "plugins", "cli",
)  # fmt: skip
OTHERWISE_NAMED = {
    "policy/commands": {"fail"},  # why a command could not be read; a person is told that it was not fully understood
    "builtin/shell_run.py": {"_failed"},  # how the command ended, in the row of a call
    "mcp_client/http_transport.py": {"_error"},  # an answer in the protocol's form
}
"""Where a name means something else than elsewhere."""


def test_every_reason_and_error_is_born_translatable() -> None:
    """A message that is plain text where it is made could never be said in Chinese."""
    plain: list[str] = []
    for part in WORDED:
        for file in (SOURCE / part).rglob("*.py"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            name = str(file.relative_to(SOURCE))
            calls = CALLS.difference(*(some for place, some in OTHERWISE_NAMED.items() if name.startswith(place)))
            for scope in ast.walk(tree):
                if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
                    plain += [f"{name}:{line}" for line in untranslatable(scope, calls)]
    assert plain == []


def untranslatable(scope: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module, calls: set[str]) -> list[int]:
    """Lines of text that one of the calls is given in this function: as it stands there, or by a name of its own."""
    nodes = list(inside(scope))
    named: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    named.setdefault(target.id, []).append(node.value)
    found: list[int] = []
    for node in nodes:
        if isinstance(node, ast.Call) and name_of(node.func) in calls:
            given = [*node.args, *(one.value for one in node.keywords if one.arg in ("suggestion", "message"))]
            for one in given:
                said = named.get(one.id, []) if isinstance(one, ast.Name) else [one]
                found += [text.lineno for text in said if is_sentence(text)]
    return found


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Everything of a function but the functions in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from inside(node)


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def is_sentence(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return is_sentence(node.body) or is_sentence(node.orelse)
    if isinstance(node, ast.BoolOp):
        return any(is_sentence(one) for one in node.values)
    if isinstance(node, ast.BinOp):
        return is_sentence(node.left) or is_sentence(node.right)
    pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = "".join(str(one.value) for one in pieces if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return re.search(r"[a-z]{2,} [a-z]{2,}", re.sub(r"`[^`]*`", "`", text)) is not None


def test_a_flag_beats_the_environment_and_that_the_locale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FERRULE_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.delenv("FERRULE_LANG", raising=False)
    assert choose_language([]) == "zh"
    (tmp_path / "settings.toml").write_text('lang = "en"\n')
    assert choose_language([]) == "en"
    monkeypatch.setenv("FERRULE_LANG", "zh")
    assert choose_language([]) == "zh"
    assert choose_language(["--lang=en", "tools"]) == "en"
    assert choose_language(["--lang", "en"]) == "en"
    assert choose_language(["call", "--", "--lang", "en"]) == "zh"
    assert choose_language(["--lang", "xx"]) == "en"
    monkeypatch.setenv("FERRULE_LANG", "en")
    assert choose_language([]) == "en"


def test_the_command_speaks_chinese_but_names_stay(ferrule: Command) -> None:
    done = ferrule("--lang", "zh", "tools")
    assert done.out.splitlines()[0].split() == ["名称", "类别", "助手", "说明"]
    assert "save_note" in done.out
    refused = ferrule("--lang", "zh", "call", "save_note", '{"text": "x"}', "--json")
    assert refused.json["error"]["type"] == "permission_error"


def edit(old: str) -> str:
    return json.dumps({"file_path": "a.txt", "old_string": old, "new_string": "y"})


@pytest.mark.parametrize(
    ("arguments", "says", "suggests"),
    [
        (["no_such_tool"], "没有工具 `no_such_tool`。", ""),
        (["save_note"], "`save_note` 的参数有 1 个问题：\n- `text`：必填，但缺少（应为 string）", "再次调用"),
        (["save_note", '{"text": "x"}'], "会写入的工具要先询问，而这里无法请求批准。", "--allow 'save_note'"),
        (["save_note", '{"text": "x"}', "--mode", "plan"], "plan 模式只运行只读工具。", "`ferrule explain`"),
        (["save_note", '{"text": "x"}', "--mode", "dont-ask"], "而 dont-ask 模式从不询问。", ""),
        (["save_note", '{"text": "x"}', "--deny", "save_note"], "命令行中的 `save_note` 禁止此操作：该调用。", ""),
        (["Bash", '{"command": "rm -rf x"}'], "`rm -rf x` 是危险的：它不经询问就删除文件夹及其全部内容，", "没有规则"),
        (["Bash", '{"command": "touch x", "run_in_background": true}'], "没有规则允许 `touch x`，而", "Bash(touch x)"),
        (["Read", '{"file_path": "b.txt"}'], "`b.txt` 处没有文件。", "您是指 `a.txt` 吗？"),
        (["Read", '{"file_path": "../b.txt"}'], "`../b.txt` 在工作区之外。", "请使用工作区之内的路径"),
        (["Read", '{"file_path": "."}'], "`.` 是文件夹，不是文件。", "请改为列出它。"),
        (["Edit", edit("zz"), "--yes"], "文件中没有旧文本", "请重新读取文件"),
        (["Edit", edit("one"), "--yes"], "旧文本出现了 2 次：在第 1, 3 行。", "`replace_all`"),
        (["hang_around"], "`hang_around` 的运行超过了 0.2 秒的时限，已被停止。", "更长的时限"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_refusal_and_an_error_are_chinese_for_the_person(
    ferrule: Command, arguments: list[str], says: str, suggests: str
) -> None:
    (ferrule.workspace / "a.txt").write_text("one\ntwo\none\n")
    done = ferrule("--lang", "zh", "call", *arguments)
    assert done.out == ""
    first, _, suggestion = done.err.partition("\n\n建议：")
    assert says in first
    assert suggests in suggestion
    assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", re.sub(r"`[^`]*`", "", first)), "no half-translated line"
    english = ferrule("--lang", "zh", "call", *arguments, "--json").json
    assert english["error"]["message"].isascii(), "programs, models and records get English"
    assert english["llm_content"].isascii()


ODD_TOOLS = '''
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Literal, Union
from uuid import UUID
from pydantic import BaseModel, Field, HttpUrl, Json
from ferrule import raw_tool, tool

class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int

class Dog(BaseModel):
    kind: Literal["dog"]
    name: str

class Spot(BaseModel):
    x: int
    y: int = 0

@tool(kind="readonly")
def measure_it(
    low: Annotated[int, Field(gt=1)] = 2, high: Annotated[float, Field(le=5)] = 1.0,
    step: Annotated[int, Field(multiple_of=5)] = 5, word: Annotated[str, Field(min_length=3, max_length=5)] = "abc",
    code: Annotated[str, Field(pattern="^[a-z]{2}$")] = "ab", day: date | None = None, moment: datetime | None = None,
    key: UUID | None = None, url: HttpUrl | None = None,
    price: Annotated[Decimal, Field(max_digits=3, decimal_places=1)] | None = None,
    few: Annotated[list[int], Field(min_length=1, max_length=2)] = [1], pet: Union[Cat, Dog, None] = None,
    spot: Spot | None = None, inner: Json | None = None, mode: Literal["a", "b"] = "a", by_number: dict[int, int] = {},
    either: int | str | None = None, pair: tuple[int, str] = (1, "a"), password: int = 0,
) -> str:
    """Measure it. Use this to test."""
    return "measured"

@tool(kind="readonly")
def promise_number(city: str = "Oslo", when: date = date(2025, 1, 1)) -> int:
    """Promise a number. Use this to test."""
    return "none"

SCHEMA = {"type": "object", "additionalProperties": False, "properties": {
    "n": {"type": "integer", "minimum": 3, "exclusiveMaximum": 9, "multipleOf": 2},
    "s": {"type": "string", "format": "email"}, "not": {"not": {"const": 1}},
    "list": {"type": "array", "uniqueItems": True, "minItems": 2, "contains": {"type": "string"}},
    "one": {"oneOf": [{"type": "string"}, {"minLength": 2}]}, "names": {"propertyNames": {"pattern": "^a"}},
    "any": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["a"]}]},
}}

def read_it(params):
    return "read"

TOOLS = [raw_tool("read_raw", SCHEMA, read_it, description="Read it raw. Use this to test.", kind="readonly")]
'''
GOES_WRONG: list[list[str]] = [
    *(["call", "measure_it", text] for text in (
        '{"low": 1, "high": 9, "step": 3, "word": "a", "code": "ABC", "day": "x", "moment": "x", "key": "x"}',
        '{"price": "1.234", "few": [], "pet": {"kind": "cow"}, "spot": 5, "inner": "{", "mode": "c", "url": "x"}',
        '{"word": "abcdef", "few": [1, 2, 3], "pet": {"kind": "dog"}, "spot": {}, "either": [], "pair": [1]}',
        '{"by_number": {"x": 1}, "spot": {"x": "y"}, "either": {}}',
        '{"pet": {}, "password": "secret", "moden": "a", "high": 1e999}', '{"n": 1, "n": 2}', '{"low": }', '{"low": 1',
        "{'low': 1}", '{"low": NaN}', '[1]', '"x"', '{"low": 1} x', '{"low": None}', "{" * 200,
        '{"low": ' + "9" * 900 + "}",
        '{"word": "\\ud800"}', '{"word": "\\x"}',
    )),
    *(["call", "read_raw", text] for text in (
        '{"n": 2, "s": "x", "list": [1, 1], "not": 1, "one": "ab"}', '{"n": 10, "list": [1], "any": {}, "x": 1}',
        '{"n": "x", "names": {"b": 1}, "any": "x"}', '{"n": 3', "[]",
    )),
    ["call", "promise_number"],
    ["call", "no_such_tool"],
    ["call", "Bash", '{"command": ""}'],
    ["call", "Bash", '{"command": "a\\u0000b"}'],
    ["call", "Bash", '{"command": "eval $x"}'],
    ["call", "Bash", '{"command": "sleep 9", "timeout": 100}', "--yes"],
    ["call", "BashOutput", '{"bash_id": "x"}'],
    ["call", "KillShell", '{"shell_id": "x"}'],
    ["call", "BashInput", '{"text": "x"}', "--yes"],
    ["call", "Read", '{"file_path": ""}'],
    ["call", "Read", '{"file_path": "a.txt", "offset": -1}'],
    ["call", "Read", '{"file_path": "/etc/nothing"}'],
    ["call", "Write", '{"file_path": ".git/hooks/x", "content": ""}'],
    ["call", "Write", '{"file_path": "ferrule.toml", "content": ""}', "--yes"],
    ["call", "Write", '{"file_path": "a.txt/b", "content": ""}', "--yes"],
    ["call", "Edit", '{"file_path": "a.txt", "old_string": "one", "new_string": "one"}', "--yes"],
    ["call", "MultiEdit", '{"file_path": "a.txt", "edits": []}', "--yes"],
    ["call", "Glob", '{"pattern": "*", "path": "nowhere"}'],
    ["call", "Glob", '{"pattern": "*", "path": "a.txt"}'],
    ["call", "FileSearch", '{"pattern": "x", "replace_with": "$9", "preview_only": false}', "--yes"],
    ["call", "listFiles", '{"directoryPath": "a.txt"}'],
    ["call", "readFile", '{"filePath": "nowhere"}'],
    ["call", "Read", "{}", "--allow", "Bash(("],
    ["call", "Read", "{}", "--deny", "Read(~nobody)"],
    ["call", "Read", "{}", "--mode", "nope"],
    ["call", "Read", "{}", "--timeout", "-1"],
    ["call", "Read", "{}", "--workspace", "nowhere"],
    ["call", "Read", "{}", "extra"],
    ["call", "--nope"],
    ["call"],
    ["nope"],
    ["explain", "measure_it", '{"low": 1}'],
    ["explain", "Bash", '{"command": "rm -rf / && curl x | sh"}'],
    ["undo"],
    ["redo"],
    ["undo", "--call", "nope"],
    ["run", "hi", "--model", "openai/x"],
    ["run", "hi", "--model", "nope/x"],
    ["run", "hi", "--model", "nope"],
    ["run", "hi", "--model", "ollama/x"],
    ["run", "hi"],
    ["run", "hi", "--resume", "zzz"],
    ["chat", "--model", "nope/x"],
    ["audit", "show", "99"],
]  # fmt: skip
NAMES = re.compile(r"""`[^`]*` | "(?:[^"\\]|\\.)*" | '[^']*' | \{.*\} | \b[\w./~-]*[/~][\w./~-]* |
    \b(?:ferrule|keyring|pip)\ [\w\ ]+""", re.VERBOSE)  # fmt: skip
"""What is nobody's sentence: code, values, forms, paths, commands to copy."""


@pytest.mark.parametrize("arguments", GOES_WRONG, ids=" ".join)
def test_nothing_that_goes_wrong_is_half_english(ferrule: Command, arguments: list[str]) -> None:
    """However a call, a rule, a model or an undo fails: no English sentence is left for the person."""
    (ferrule.folder / "tools" / "odd.py").write_text(ODD_TOOLS)
    (ferrule.workspace / "a.txt").write_text("one\ntwo\n")
    done = ferrule("--lang", "zh", *arguments, OPENAI_API_KEY="", FERRULE_MODEL="")
    said = done.err if done.err.strip() else done.out
    assert re.search("[\u4e00-\u9fff]", said), said
    rest = [line for line in said.splitlines() if not line.startswith(("用法", "  --", "Terminated"))]
    left: list[str] = re.findall(r"[A-Za-z]*[a-z]{2,} [a-z]{2,}[a-z ]*", NAMES.sub("`", "\n".join(rest)))
    assert left == [], said


def test_servers_hooks_and_settings_that_fail_are_chinese_too(ferrule: Command) -> None:
    written = ferrule.settings.read_text()
    for added, arguments, says in (
        ('[mcp_servers.p]\ncommand = "no-such-program"\n', [], "无法使用 MCP 服务器 p：没有程序 `no-such-program`。"),
        ('[mcp_servers.p]\ncommand = "sh"\nenv = {A = "${NOT_SET}"}\n', [], "服务器 p：变量 `NOT_SET` 没有设置。"),
        ('[[hooks]]\nevent = "before"\ncommand = ["false"]\n', ["sleep_long", '{"seconds": 0}'], "它以代码 1 结束："),
        ("nope = 1\n", [], "没有设置 `nope`。"),
        ('[permissions]\nallow = ["Edit()"]\n', [], "allow 规则 `Edit()` 无法生效：括号中没有内容；"),
    ):  # fmt: skip
        ferrule.settings.write_text(f"{added}{written}" if added.startswith("nope") else f"{written}{added}")
        done = ferrule("--lang", "zh", "call", *(arguments or ["mcp__p__x"]))
        assert says in done.err
        assert "Traceback" not in done.err


def test_what_a_model_is_told_stays_english_and_the_person_reads_chinese(ferrule: Command) -> None:
    script = ferrule.folder / "script.json"
    asked = {"text": "", "calls": [{"name": "Read", "arguments": {"file_path": "b.txt"}}]}
    script.write_text(json.dumps([asked, "Done."]))
    done = ferrule("--lang", "zh", "run", "go", f"--model=scripted:{script}")
    assert "`b.txt` 处没有文件。" in done.err
    row = ferrule("audit", "show", "1", "--json").json
    assert row["error"] == "There is no file at `b.txt`."
    (call,) = ferrule("--lang", "zh", "run", "go", f"--model=scripted:{script}", "--json").json["calls"]
    assert call["result"]["error"]["message"] == "There is no file at `b.txt`."


def test_explain_is_chinese_throughout(ferrule: Command) -> None:
    done = ferrule("--lang", "zh", "explain", "Bash", '{"command": "rm -rf x; touch y"}')
    assert done.code == 3
    assert done.out.splitlines()[0] == "Bash：询问，因为`rm -rf x` 是危险的：它不经询问就删除文件夹及其全部内容"
    assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", re.sub(r"`[^`]*`", "", done.out)), done.out
    assert not re.search(r"\b(ask|allow|deny|runs|writes?)\b", re.sub(r"`[^`]*`", "", done.out)), done.out
