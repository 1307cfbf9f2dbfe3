"""The guard against tools that change once they are allowed, through the real pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.errors import ErrorKind
from ferrule.core.events import Question
from ferrule.core.result import ToolResult
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.pipeline.run import Runtime
from tests.mcp_client.peers import Used, plain, until, using

RULES = [["mcp__*"], ["mcp__peer"], ["mcp__peer__*"], ["mcp__peer__echo", "mcp__peer__change"]]


async def change(used: Used) -> None:
    """The server changes what it says of `echo`, and tells so."""
    before = used.registry.get("mcp__peer__echo")
    assert (await used.call("change")).success
    await until(lambda: used.registry.get("mcp__peer__echo") is not before)


def refused(result: ToolResult) -> bool:
    return result.error is not None and result.error.kind is ErrorKind.PERMISSION


@pytest.mark.parametrize("allow", RULES, ids=str)
async def test_a_changed_tool_asks_again_whatever_rule_allowed_it(tmp_path: Path, allow: list[str]) -> None:
    async with using(tmp_path, plain(), allow=allow) as used:
        assert (await used.call("echo", text="fine")).success
        await change(used)
        result = await used.call("echo", text="not fine")
        assert refused(result)
        assert result.llm_content == snapshot("""\
Error (permission_error): `mcp__peer__echo` was not run: `mcp__peer__echo` is not the tool that was allowed: its server changed its description or its schema, and approval isn't available here.

Suggestion: The user can look at it and accept it as it is now: `ferrule mcp trust peer`.\
""")  # noqa: E501


async def test_a_tool_that_was_never_used_may_be_whatever_it_is(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        await change(used)
        assert (await used.call("echo", text="fine")).success


async def test_the_guard_outlives_the_process(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        await used.call("echo", text="fine")
    async with using(tmp_path, plain()) as used:
        await change(used)
        assert refused(await used.call("echo", text="x"))


@pytest.mark.parametrize(("choice", "asked"), [(Choice.ONCE, 2), (Choice.ALWAYS, 1)])
async def test_the_person_is_asked_once_or_for_good(tmp_path: Path, choice: Choice, asked: int) -> None:
    questions: list[Question] = []

    def ask(question: Question) -> Answer:
        questions.append(question)
        return Answer(choice)

    async with using(tmp_path, plain()) as used:
        used.runtime = Runtime(used.registry, policy=used.policy, ask=ask, session=used.runtime.session)
        await used.call("echo", text="fine")
        assert questions == []
        await change(used)
        assert (await used.call("echo", text="a")).success
        assert (await used.call("echo", text="b")).success
        assert len(questions) == asked
        assert (questions[0].reason, questions[0].summary, questions[0].rule) == snapshot(
            (
                "`mcp__peer__echo` is not the tool that was allowed: its server changed its description or its schema",
                'peer: echo {"text":"a"}',
                "mcp__peer__echo",
            )
        )


async def test_a_tool_that_changes_back_is_the_one_that_was_allowed(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        await used.call("echo", text="fine")
        await change(used)
    async with using(tmp_path, plain()) as used:
        assert (await used.call("echo", text="fine")).success


async def test_trusting_the_server_accepts_its_tools_as_they_are(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        await used.call("echo", text="fine")
        await change(used)
        used.servers.approvals.forget("peer")
        assert (await used.call("echo", text="fine")).success


async def test_another_process_that_accepts_it_is_heard(tmp_path: Path) -> None:
    from ferrule.mcp_client.trust_records import Approvals

    async with using(tmp_path, plain()) as used:
        await used.call("echo", text="fine")
        await change(used)
        assert refused(await used.call("echo", text="x"))
        Approvals(tmp_path / "data" / "approved.json").forget("peer")
        assert (await used.call("echo", text="fine")).success


async def test_a_deny_rule_and_plan_mode_come_first(tmp_path: Path) -> None:
    async with using(tmp_path, plain(), deny=["mcp__peer__echo"]) as used:
        assert (await used.call("echo", text="x")).llm_content == snapshot("""\
Error (permission_error): `mcp__peer__echo` was not run: `mcp__peer__echo` from the program denies it.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
""")
        assert (await used.call("add", a=1, b=1)).success
    async with using(tmp_path, plain(), mode="plan") as used:
        assert (await used.call("echo", text="x")).llm_content == snapshot("""\
Error (permission_error): `mcp__peer__echo` was not run: mode plan runs only read-only tools.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
""")


async def test_without_a_rule_every_tool_asks_whatever_it_claims(tmp_path: Path) -> None:
    async with using(tmp_path, plain(), allow=[]) as used:
        result: Any = await used.call("echo", text="x")
        assert result.llm_content == snapshot("""\
Error (permission_error): `mcp__peer__echo` was not run: a tool that executes something asks first, and approval isn't available here.

Suggestion: The program can give its Runtime an `ask` function, or policy=RulePolicy(allow=['mcp__peer__echo']).\
""")  # noqa: E501


async def test_what_cannot_be_remembered_holds_for_the_process(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "approved.json").mkdir()
    async with using(tmp_path, plain()) as used:
        assert (await used.call("echo", text="fine")).success
        await change(used)
        assert refused(await used.call("echo", text="x"))
