"""The first hour with Ferrule, read from top to bottom: through the public modules alone, as a newcomer would."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from ferrule import (
    CallInfo,
    DefinitionError,
    RawCall,
    RulePolicy,
    Runtime,
    Session,
    Tool,
    ToolContext,
    tool,
    tools_of,
    writes,
)
from ferrule.agent import Agent
from ferrule.dialects import Exporter
from ferrule.hooks import Hook, HookReply
from ferrule.policy import Question
from ferrule.records import Statistics
from ferrule.testing import ScriptedModel, call
from ferrule.tools import builtin_tools, lint_tool

# 1. A function just runs


@tool
def add(a: int, b: int) -> int:
    """Add two numbers. Use this for every sum."""
    return a + b


def test_1_a_function_just_runs_and_a_tool_that_writes_asks() -> None:
    """T4, P4."""
    assert Runtime([add]).run_sync("add", {"a": 2, "b": 3}).data == 5

    @tool(kind="write")
    def save(text: str) -> str:
        return "saved"

    refused = Runtime([save]).run_sync("save", {"text": "x"})
    assert refused.error is not None
    assert refused.error.kind == "permission_error"
    asked: list[Question] = []
    assert (
        Runtime([save], ask=lambda question: asked.append(question) or "once").run_sync("save", {"text": "x"}).success
    )
    assert len(asked) == 1
    assert not Runtime([add], policy=RulePolicy()).run_sync("add", {"a": 1, "b": 1}).success, "with a policy it asks"


# 2. Sync programs


def test_2_a_script_a_thread_and_a_notebook_call_without_await() -> None:
    """T4, P5."""
    runtime = Runtime([add])
    assert [one.data for one in runtime.batch_sync([RawCall("add", {"a": n, "b": 1}) for n in range(3)])] == [1, 2, 3]
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(runtime.run_sync("add", {"a": n, "b": 0}).data))
        for n in range(8)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(found) == list(range(8))

    async def in_a_notebook() -> Any:  # its loop runs, and the cell calls without `await`
        return runtime.run_sync("add", {"a": 20, "b": 22}).data

    assert asyncio.run(in_a_notebook()) == 42

    @tool
    def twice(number: int, context: ToolContext) -> int:
        return context.call_sync("add", {"a": number, "b": number}).data

    assert Runtime([add, twice]).run_sync("twice", {"number": 21}).data == 42

    @tool
    async def stuck() -> Any:
        return runtime.run_sync("add", {"a": 1, "b": 1}).data

    assert "await" in (Runtime([stuck]).run_sync("stuck").llm_content), "where it would deadlock, it says so"


# 3. Methods and callables


class Bot:
    greeting = "Hello"

    @tool
    def greet(self, name: str) -> str:
        """Greet somebody. Use this to be polite."""
        return f"{self.greeting}, {name}!"


def test_3_methods_and_callables() -> None:
    """T4."""
    bot = Bot()
    assert bot.greet is bot.greet
    assert bot.greet("Ada") == "Hello, Ada!"
    assert Runtime([bot.greet]).run_sync("greet", {"name": "Ada"}).data == "Hello, Ada!"
    assert [one.name for one in tools_of(bot)] == ["greet"]
    assert Runtime([tool(functools.partial(add.function, b=1), name="add_one")]).run_sync("add_one", {"a": 1}).data == 2
    for wrong in (len, Bot, print, lambda x: x):
        with pytest.raises(DefinitionError):
            tool(wrong)  # pyright: ignore[reportArgumentType]

    def streams() -> AsyncIterator[str]:
        async def pieces() -> AsyncIterator[str]:
            yield "a"
            yield "b"

        return pieces()

    def yields() -> Iterator[str]:
        return iter(["a", "b"])

    assert Runtime([tool(streams)]).run_sync("streams").llm_content == "ab"
    assert "object at" not in Runtime([tool(yields)]).run_sync("yields").llm_content

    class Local(BaseModel):
        size: int

    @tool
    def measure(thing: Local) -> int:
        return thing.size

    assert Runtime([measure]).run_sync("measure", {"thing": {"size": 3}}).data == 3
    with pytest.raises(DefinitionError):

        class Wrong(Tool[Local]):  # pyright: ignore[reportUnusedClass]
            def run(self, params: Local) -> int:  # type: ignore[override]
                return 1


# 4. Blocking async tools


def test_4_a_tool_that_blocks_the_loop_is_named_and_its_neighbours_are_not_charged() -> None:
    """P6."""

    @tool
    async def block() -> str:
        time.sleep(1.0)
        return "slept"

    @tool(timeout=0.9)
    async def neighbour() -> str:
        await asyncio.sleep(0.05)
        return "well"

    async def main() -> tuple[Any, Any]:
        runtime = Runtime([block, neighbour])
        return await asyncio.gather(runtime.run("neighbour"), runtime.run("block"))

    well, blocked = asyncio.run(main())
    assert well.success, well.llm_content
    assert blocked.metadata["blocked_loop_seconds"] >= 0.9


# 5 and 6. One bad tool, and a check that returns nothing


def test_5_one_bad_tool_harms_nobody() -> None:
    """T10, T11."""

    @tool
    def call_back(function: Callable[[int], int]) -> int:
        return 1

    assert [one["function"]["name"] for one in Exporter("openai").definitions([call_back, add])] == ["add"]
    assert "F020" in [finding.rule for finding in lint_tool(call_back)]
    assert Runtime([call_back, add]).run_sync("add", {"a": 1, "b": 1}).data == 2


def test_6_a_check_that_returns_nothing_means_sound() -> None:
    """T7."""
    checked = tool(add.function, name="checked", check=lambda params: None)
    assert Runtime([checked]).run_sync("checked", {"a": 1, "b": 1}).data == 2


# 7. Tools folders, and 15. `--json`


def ferrule(folder: Path, *words: str, given: str = "") -> tuple[int, str]:
    done = command(folder, *words, given=given)
    return done.returncode, done.stdout


def command(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/usr/bin:/bin", "HOME": str(folder), "FERRULE_DATA": str(folder / "data"),
        "FERRULE_TOOLS_FOLDERS": str(folder / "tools"), "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "ferrule", *words],
        cwd=folder, env=environment, input=given, capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip


def test_7_and_15_a_folder_of_tools_and_one_document_on_standard_output(tmp_path: Path) -> None:
    """R6, P2."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/words.py").write_text("GREETING = 'Hello'\nprint('loading words')\n")
    (tmp_path / "tools/greet.py").write_text(
        "import words\nfrom ferrule import tool\n\n\n"
        "@tool(kind='readonly')\ndef greet(name: str) -> str:\n    '''Greet. Use it.'''\n"
        "    print('noise')\n    return f'{words.GREETING}, {name}!'\n\nTOOLS = [greet]\n"
    )
    (tmp_path / "tools/broken.py").write_text("import no_such_module\n")
    code, out = ferrule(tmp_path, "call", "greet", "-", "--json", given='{"name": "Ada"}')
    assert (code, json.loads(out)["data"]) == (0, "Hello, Ada!")
    code, out = ferrule(tmp_path, "explain", "greet", "-", "--json", given="no json")
    assert code != 0
    assert "error" in json.loads(out)


# 8. One description of a call, one rule language


def test_8_a_call_is_described_once_and_rules_read_the_same_everywhere() -> None:
    """T6."""
    described: list[Any] = []

    def describe(params: Any, session: Session) -> CallInfo:
        described.append(params)
        return CallInfo(touches=writes("deployment", params.where), signature=params.where)

    @tool(kind="execute", describe=describe)
    def deploy(where: str) -> str:
        return f"live on {where}"

    runtime = Runtime([deploy], policy=RulePolicy(allow=["deploy(staging)", "Bash(git *)"]))
    assert runtime.run_sync("deploy", {"where": "staging"}).success
    assert not runtime.run_sync("deploy", {"where": "production"}).success
    assert len(described) == 2


# 9. The public surface


def test_9_built_ins_agents_hooks_and_records_are_one_line_each(tmp_path: Path) -> None:
    """M1, O1."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    counted = Statistics()
    refuse = Hook("no-secrets", before=lambda invocation, session: HookReply(deny="no"), tools=("Grep",))

    async def main() -> Any:
        async with Runtime(builtin_tools(tmp_path), recorders=[counted], hooks=[refuse]) as runtime:
            assert not (await runtime.run("Grep", {"pattern": "x"})).success
            return await runtime.run("Read", {"file_path": "a.txt"})

    assert asyncio.run(main()).data["total_lines"] == 2
    agent = Agent(ScriptedModel([call("add", {"a": 17, "b": 25}), "It is 42."]), [add])
    assert agent.answer_sync("What is 17 plus 25?").text == "It is 42."


# 10 and 11. Clear words, and what a tool promises


def test_10_words_name_the_one_problem() -> None:
    """P2, T9."""

    class Cat(BaseModel):
        kind: Literal["cat"]
        lives: int

    class Dog(BaseModel):
        kind: Literal["dog"]
        tricks: list[str]

    @tool
    def adopt(pet: Cat | Dog, level: Literal[1, 2, 3] = 1) -> int:
        return level

    runtime = Runtime([adopt])
    said = runtime.run_sync("adopt", {"pet": {"kind": "cat"}}).error.message  # type: ignore[union-attr]
    assert "lives" in said
    assert "tricks" not in said
    assert runtime.run_sync("adopt", {"pet": {"kind": "cat", "lives": 9}, "level": "2"}).data == 2

    @tool
    def lie() -> int:
        return "five"  # type: ignore[return-value]

    assert Runtime([lie]).run_sync("lie").error.kind == "execution_error"  # type: ignore[union-attr]


def test_11_every_built_in_says_what_it_returns() -> None:
    """T10."""
    assert [one.name for one in builtin_tools(family="all") if one.output_schema is None] == []


# 12 to 14. The tools


def test_12_an_exact_edit_is_made_to_the_letter(tmp_path: Path) -> None:
    """The insertion that leaves out the indentation of its first line."""
    file = tmp_path / "a.py"
    file.write_text("def a():\n    foo()\n    bar()\n")
    runtime = Runtime(builtin_tools(tmp_path), policy=RulePolicy(mode="accept-edits"))
    runtime.run_sync("Read", {"file_path": "a.py"})
    edit = {"file_path": "a.py", "old_string": "foo()", "new_string": "foo()\n    baz()"}
    assert runtime.run_sync("Edit", edit).success
    assert file.read_text() == "def a():\n    foo()\n    baz()\n    bar()\n"


def test_13_small_things_are_as_expected(tmp_path: Path) -> None:
    runtime = Runtime(builtin_tools(tmp_path), policy=RulePolicy(mode="accept-edits"))
    formatted = runtime.run_sync("getCurrentDateTime").data["formatted"]
    assert formatted["full"] == f"{formatted['date']} {formatted['time']}"
    (tmp_path / "a.txt").write_text("key=value\n")
    swap = {"pattern": r"(\w+)=(\w+)", "replace_with": r"\2=\1", "preview_only": False}
    assert runtime.run_sync("FileSearch", swap).success
    assert (tmp_path / "a.txt").read_text() == "value=key\n"
    weather = tool(add.function, name="查询天气")
    assert Exporter("openai").definitions([weather])[0]["function"]["name"] == "ChaXunTianQi"


def test_14_what_other_programs_obey_asks_in_every_mode(tmp_path: Path) -> None:
    """S2."""
    (tmp_path / ".git/hooks").mkdir(parents=True)
    hook = {"file_path": ".git/hooks/pre-commit", "content": "x"}
    for mode in ("accept-edits", "bypass"):
        runtime = Runtime(builtin_tools(tmp_path), policy=RulePolicy(mode=mode, allow=["Edit(**)"]))
        assert not runtime.run_sync("Write", hook).success
    named = RulePolicy(allow=["Edit(.git/hooks/pre-commit)"])
    assert Runtime(builtin_tools(tmp_path), policy=named).run_sync("Write", hook).success


# 16. What durations measure


def test_16_a_users_thinking_time_is_not_the_tools() -> None:
    """O1."""
    seen: list[Any] = []

    class Keep:
        def record(self, record: Any) -> None:
            seen.append(record)

    @tool(kind="write")
    def save() -> str:
        return "saved"

    def think(question: Question) -> str:
        time.sleep(0.5)
        return "once"

    assert Runtime([save], ask=think, recorders=[Keep()]).run_sync("save").success
    assert seen[0].waited >= 0.4
    assert seen[0].duration < 0.4


# 17. Words for the person


def test_17_a_person_reads_chinese_and_the_model_english(tmp_path: Path) -> None:
    """O7: a refusal, arguments that do not fit and a tool's own error, through the command."""
    (tmp_path / "a.txt").write_text("one\n")
    for arguments, says in (
        (["Write", '{"file_path": "b.txt", "content": ""}'], "会写入的工具要先询问，而这里无法请求批准。"),
        (["Read", '{"file_path": "a.txt", "limit": 0}'], "- `limit`：必须是不小于 1 的值；得到的是 integer 0"),
        (["Read", '{"file_path": }'], '它们不是有效的 JSON：缺少值（在 `{"file_path":` 之后）。'),
        (["Read", '{"file_path": "b.txt"}'], "`b.txt` 处没有文件。\n\n建议：您是指 `a.txt` 吗？"),
    ):
        assert says in command(tmp_path, "--lang", "zh", "call", *arguments).stderr
    _, out = ferrule(tmp_path, "--lang", "zh", "call", "Read", '{"file_path": "b.txt"}', "--json")
    assert json.loads(out)["llm_content"].startswith("Error (not_found_error): There is no file at `b.txt`.")
