"""Words for people, in English and Chinese; never tool names, error types or JSON keys."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import json
import re
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ferrule.cli.words import choose_language

if TYPE_CHECKING:
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
    return module


def test_every_message_has_chinese_words_and_the_shipped_file_is_current(catalogues: Any) -> None:
    for file in catalogues.LOCALE.glob("*/LC_MESSAGES/ferrule.po"):
        current = catalogues.updated(file)
        assert [message.id for message in current if message.id and not message.string] == []
        assert catalogues.as_po(current).decode() == file.read_text(encoding="utf-8"), "run scripts/catalogues"
        assert catalogues.as_mo(current) == file.with_suffix(".mo").read_bytes(), "run scripts/catalogues"


def test_placeholders_survive_translation(catalogues: Any) -> None:
    for file in catalogues.LOCALE.glob("*/LC_MESSAGES/ferrule.po"):
        for message in catalogues.updated(file):
            if message.id:
                assert placeholders(message.id) == placeholders(message.string), message.id


def placeholders(text: str) -> list[str]:
    try:
        return sorted({name for _, name, _, _ in string.Formatter().parse(text) if name})
    except ValueError:  # a brace that is meant as such: nothing is filled in
        return []


def test_chinese_sentences_have_full_width_marks(catalogues: Any) -> None:
    for file in catalogues.LOCALE.glob("zh/LC_MESSAGES/ferrule.po"):
        for message in catalogues.updated(file):
            words = re.sub(r"`[^`]*`", "`", message.string)
            assert not re.search(r"[\u4e00-\u9fff][,;:?!(]|[,;:)][\u4e00-\u9fff]", words), message.string


CALLS = ("ToolError", "PathProblem", "EditProblem", "SandboxRefused", "Stopped", "Decision", "Danger", "lacks")
WORDED = ("pipeline", "policy", "workspace", "process", "builtin")


def test_every_reason_and_error_is_born_translatable() -> None:
    """A message that is plain text where it is made could never be said in Chinese."""
    plain: list[str] = []
    for part in WORDED:
        for file in (SOURCE / part).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and name_of(node.func) in CALLS:
                    given = [*node.args, *(one.value for one in node.keywords if one.arg == "suggestion")]
                    plain += [f"{file.name}:{one.lineno}" for one in given if is_sentence(one)]
    assert plain == []


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def is_sentence(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return is_sentence(node.body) or is_sentence(node.orelse)
    pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = "".join(str(one.value) for one in pieces if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return re.search(r"[a-z]{2,} [a-z]{2,}", text) is not None


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
    assert done.out.splitlines()[0].split() == ["名称", "类别", "说明"]
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
        (["save_note", '{"text": "x"}', "--mode", "plan"], "plan 模式只运行只读工具。", "请换一种方式"),
        (["save_note", '{"text": "x"}', "--mode", "dont-ask"], "而 dont-ask 模式从不询问。", ""),
        (["save_note", '{"text": "x"}', "--deny", "save_note"], "命令行中的 `save_note` 禁止此操作：该调用。", ""),
        (["Bash", '{"command": "rm -rf x"}'], "`rm -rf x` 是危险的：它不经询问就删除文件夹及其全部内容，", "没有规则"),
        (["Bash", '{"command": "touch x", "run_in_background": true}'], "没有规则允许 `touch x`，而", "Bash(touch *)"),
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
    assert done.out.splitlines()[0] == "Bash: ask，因为`rm -rf x` 是危险的：它不经询问就删除文件夹及其全部内容"
    assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", re.sub(r"`[^`]*`", "", done.out)), done.out
