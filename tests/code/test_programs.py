"""Every program ends in one clear result, whatever it does (X5, T10, P5)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ferrule import Answer, Choice, ErrorKind, RulePolicy, Runtime, tool
from ferrule.code import CodeLimits, RunCode
from ferrule.pipeline.stages import CallRecord

from .shop import Shop, run

OPEN = RulePolicy(mode="bypass")

CHAIN = """
orders = await find_orders(status="open")
large = [one for one in orders if one["amount"] >= 30]
total = 0
for one in large:
    total += await look(number=one["id"])
{"count": len(large), "total": total}
"""
JOIN = """
import asyncio
open_, paid = await asyncio.gather(find_orders(status="open"), find_orders(status="paid"))
names = {one["id"]: one["customer"] for one in paid}
[f"{one['id']}:{names[one['id']]}" for one in open_ if one["id"] % 2]
"""
CAUGHT = """
found = []
for name in ["a", "b"]:
    try:
        await missing(name)
    except LookupError as error:
        found.append(str(error))
"\\n".join(found)
"""
FUNCTIONS = """
from collections import Counter
import json, re, math

async def double(n: int) -> int:
    return await look(n)

counted = Counter([await double(n) for n in range(4)])
print(json.dumps(sorted(counted)), re.sub("a", "b", "banana"), math.floor(2.5))
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (CHAIN, '{"count":3,"total":24}'),
        (JOIN, '["1:c1","3:c0","5:c2"]'),
        (CAUGHT, "not_found_error: There is no `a`. Look elsewhere.\nnot_found_error: There is no `b`. Look elsewhere."),
        (FUNCTIONS, "[0, 2, 4, 6] bbnbnb 2"),
        ("total = 0\nfor n in range(150):\n    total += await look(n)\ntotal", "22350"),
        ("import asyncio\nsum(await asyncio.gather(*[look(n) for n in range(120)]))", "14280"),
        ("await find_orders('ada', 'paid')\n'positional'", "positional"),
        ("f = look\nawait f(21)", "42"),
        ("1, {2}, b'x', None", '[1,[2],"eA==",null]'),
        ("x = 1", "The program ended without a result. Print or return what you want to read."),
        ("print('a')\nprint('b', end='')\n'c'", "a\nb\nc"),
    ],
)  # fmt: skip
async def test_what_a_program_gives_is_what_the_model_reads(code: str, expected: str) -> None:
    result = await run(code, policy=OPEN)
    assert (result.success, result.llm_content) == (True, expected)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("x = (", "validation_error", "main.py:1:6: error[invalid-syntax]"),
        ("await look('one')", "validation_error", "Expected `int`, found `Literal[\"one\"]`"),
        ("await look(numbr=1)", "validation_error", "main.py:1:"),
        ("await find_orders(status='lost')", "validation_error", 'Literal["open", "paid"]'),
        ("(await find_orders())[0]['prise']", "validation_error", "prise"),
        ("await no_such_tool()", "validation_error", "`no_such_tool` used when not defined"),
        ("look(1)", "validation_error", "is not awaited"),
        ("import socket", "validation_error", "Cannot resolve imported module `socket`"),
        ("print('so far')\nawait look(1)\nx = 1\n1 / (x - 1)", "execution_error",
         "line 4: 1 / (x - 1)\nZeroDivisionError: division by zero\nIt had made these calls: look ×1.\nIt had printed:\nso far"),
        ("await missing('x')", "execution_error", "LookupError: not_found_error: There is no `x`."),
        ("while True:\n    pass", "timeout_error", "it ran for 0.5 s, which is its limit"),
        ("x = 'a' * 10**9", "execution_error", "it used more than 50 MB of memory"),
        ("x = []\nwhile True:\n    x.append('x' * 1000)", "execution_error", "it used more than 50 MB of memory"),
        ("def f(n: int) -> int:\n    return f(n + 1)\nf(0)", "execution_error", "RecursionError: maximum"),
        ("n = 0\nwhile True:\n    n += await look(1)", "execution_error", "made 30 calls, which is its limit"),
        ("raise TimeoutError('mine')", "execution_error", "TimeoutError: mine"),
        ("raise SystemExit", "execution_error", "SystemExit"),
        ("await big(megabytes=11)", "execution_error", "has 11 MB, and a program takes 10 MB at most"),
        ("await refund(1)", "execution_error", "PermissionError: permission_error: `refund` was not run"),
    ],
)  # fmt: skip
async def test_what_goes_wrong_has_a_kind_a_line_and_what_had_run(code: str, kind: str, words: str) -> None:
    seconds = 0.5 if kind == "timeout_error" else 60.0  # also on a busy machine
    limits = CodeLimits(seconds=seconds, memory=50_000_000, calls=30, recursion=100)
    result = await run(code, limits=limits)
    assert result.error is not None
    assert (result.error.kind, words in result.error.message) == (kind, True), result.error.message


async def test_calls_that_never_began_are_not_said_to_have_run() -> None:
    shop, code = (
        Shop(),
        (
            "import asyncio\nasync def bad() -> None:\n    raise ValueError('x')\nawait asyncio.gather(look(1), bad(), look(2))"
        ),
    )
    result = await run(code, shop=shop)
    assert result.error is not None
    assert (shop.did, "calls" in result.error.message) == ([], False)


async def test_a_result_that_has_no_form_in_json_is_an_exception() -> None:
    @tool(kind="readonly")
    def odd() -> dict[str, object]:
        """Give what no text can hold."""
        return {"text": "\ud800"}

    code = "try:\n    await odd()\nexcept RuntimeError as error:\n    print(str(error)[:16])"
    result = await Runtime([RunCode([odd])]).run("run_code", {"code": code})
    assert result.llm_content == "execution_error:"


async def test_a_call_that_was_not_awaited_is_no_argument() -> None:
    @tool(kind="readonly")
    def take(value: Any) -> str:
        """Take anything."""
        raise AssertionError(f"took {value!r}")

    shop = Shop()
    runtime = Runtime([RunCode([*shop.tools, take])])
    for code in ("await take(look(1))", "await take({'a': [look(1)]})", "await find_orders(f'{look(1)}')"):
        result = await runtime.run("run_code", {"code": code})
        assert "takes the result of a call: write `await` before it" in result.llm_content
    assert shop.did == []


async def test_an_instance_of_a_class_is_its_fields_for_tools_and_for_the_model() -> None:
    @tool(kind="readonly")
    def take(value: Any) -> str:
        """Take anything."""
        return repr(value)

    code = "from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int\nprint(await take([Point(1)]))\n[Point(2)]"
    result = await Runtime([RunCode([take])]).run("run_code", {"code": code})
    assert result.llm_content == "[{'x': 1}]\n[{\"x\":2}]"


async def test_looking_up_functions_counts_as_a_call() -> None:
    result = await run("while True:\n    signatures('refund ' * 100_000)", limits=CodeLimits(calls=20, seconds=60))
    assert "made 20 calls, which is its limit" in result.llm_content


async def test_nothing_runs_where_types_are_wrong() -> None:
    shop = Shop()
    await run("await look(1)\nawait look('2')", shop=shop)
    assert shop.did == []


async def test_huge_output_is_bounded_and_says_so() -> None:
    result = await run("for n in range(3000):\n    print('x' * 1000)\n'y' * 1_000_000")
    assert result.success
    assert len(result.llm_content) < 110_000
    assert "characters left out" in result.llm_content
    assert len(result.data["printed"]) < 210_000
    assert result.data["printed"].endswith("[2,803,000 more characters were printed.]")


async def test_each_call_passes_the_seven_stages_with_the_program_as_its_parent() -> None:
    class Records:
        def __init__(self) -> None:
            self.all: list[CallRecord] = []

        def record(self, record: CallRecord) -> None:
            self.all.append(record)

    records, questions = Records(), list[str]()

    def ask(question: Any) -> Answer:
        questions.append(question.invocation.tool.name)
        return Answer(Choice.ONCE)

    shop = Shop()
    result = await run("await look(1)\nawait refund(2)", shop=shop, recorders=[records], ask=ask)
    assert (result.llm_content, questions, shop.did) == ("refunded 2", ["refund"], ["look 1", "refund 2"])
    look, refund, program = records.all
    assert [one.tool for one in records.all] == ["look", "refund", "run_code"]
    assert look.parent_id == refund.parent_id == program.call_id
    assert (look.verdict, refund.verdict, refund.answer, refund.arguments) == ("allow", "ask", "once", {"order": 2})


async def test_an_approval_in_the_middle_suspends_the_program_and_its_time_does_not_count() -> None:
    async def ask(question: Any) -> str:
        await asyncio.sleep(1.2)
        return "once"

    result = await run("await refund(1)\nawait refund(2)", ask=ask, limits=CodeLimits(seconds=0.4))
    assert result.llm_content == "refunded 2"


async def test_gathered_calls_run_as_a_batch_in_which_collisions_keep_their_order() -> None:
    going: set[str] = set()
    seen: list[tuple[str, ...]] = []

    def worker(name: str, touches: str) -> Any:
        @tool(kind="readonly" if touches == "" else "write", name=name, touches=lambda params: _touched(touches))
        async def work(number: int) -> int:
            """Work."""
            going.add(f"{name}{number}")
            await asyncio.sleep(0.05)
            seen.append(tuple(sorted(going)))
            going.discard(f"{name}{number}")
            return number

        return work

    code = "import asyncio\nawait asyncio.gather(read(1), read(2), put(1), put(2))"
    runtime = Runtime([RunCode([worker("read", ""), worker("put", "path:/x")])], policy=OPEN)
    result = await runtime.run("run_code", {"code": code})
    assert result.data["result"] == [1, 2, 1, 2]
    assert any("read1" in one and "read2" in one for one in seen)
    assert not any("put1" in one and "put2" in one for one in seen)


def _touched(name: str) -> list[Any]:
    from ferrule.core.access import Touch

    return [Touch(name, True)] if name else []


def workers() -> set[int]:
    """The interpreters that this process has running."""
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name == "monty" and int(rest.split()[1]) == os.getpid() and rest.split()[0] != "Z":
            found.add(int(stat.parent.name))
    return found


async def all_ended(before: set[int]) -> None:
    """Those of earlier tests may end meanwhile."""
    async with asyncio.timeout(10):
        while workers() - before:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("code", ["while True:\n    pass", "await stall()"])
async def test_cancelling_ends_the_worker_and_the_call_that_runs(code: str) -> None:
    shop, before = Shop(), workers()
    task = asyncio.create_task(run(code, shop=shop))
    while not workers() - before or ("stall" in code and "stall" not in shop.did):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 5
    await all_ended(before)
    assert shop.did == (["stall", "stopped"] if "stall" in code else [])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets limits for another process")
async def test_the_kernel_ends_a_worker_whose_host_was_killed() -> None:
    before = workers()
    task = asyncio.create_task(run("await stall()", limits=CodeLimits(seconds=2)))
    while not (found := workers() - before) or "unlimited" in cpu_limit(found):
        await asyncio.sleep(0.05)
    assert cpu_limit(found).split()[3:5] == ["32", "32"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def cpu_limit(found: set[int]) -> str:
    (line,) = (one for one in Path(f"/proc/{min(found)}/limits").read_text().splitlines() if one.startswith("Max cpu"))
    return line


async def test_a_time_limit_on_the_call_ends_the_worker_too() -> None:
    before = workers()
    result = await Shop().runtime().run("run_code", {"code": "await stall()"}, timeout=1.0)
    assert result.error is not None
    assert result.error.kind is ErrorKind.TIMEOUT
    await all_ended(before)


async def test_a_worker_that_is_killed_is_one_failed_call(monkeypatch: pytest.MonkeyPatch) -> None:
    before = workers()
    task = asyncio.create_task(run("while True:\n    pass", limits=CodeLimits(seconds=60)))
    while not (found := workers() - before):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.3)
    for pid in found:
        os.kill(pid, 9)
    result = await task
    assert result.error is not None
    assert "its interpreter ended" in result.error.message


async def test_many_programs_run_at_once_without_mixing_anything() -> None:
    shop = Shop()
    runtime = shop.runtime()
    code = "got = []\nfor n in range(10):\n    got.append(await look({}))\nset(got)"
    results = await asyncio.gather(*(runtime.run("run_code", {"code": code.format(n)}) for n in range(8)))
    assert [one.data["result"] for one in results] == [[2 * n] for n in range(8)]


async def test_without_the_interpreter_the_result_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pydantic_monty", None)
    result = await run("1")
    assert result.error is not None
    assert "pip install 'ferrule[code]'" in result.error.message


@pytest.mark.parametrize("name", ["seconds", "memory", "calls", "recursion"])
def test_a_limit_is_above_0(name: str) -> None:
    with pytest.raises(ValueError, match=f"CodeLimits: {name} must be a number above 0, not 0"):
        CodeLimits(**{name: 0})
