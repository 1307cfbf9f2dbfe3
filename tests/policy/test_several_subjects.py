"""A call about several things, such as a message to several people: each must be allowed, and one is enough to deny."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ferrule import RawCall, RulePolicy, Runtime, Session
from ferrule.core.call import CallInfo
from ferrule.core.function_tool import tool
from ferrule.policy import Mode, Question, writes


def _describe(params: Any, session: Session) -> CallInfo:
    return CallInfo(touches=(writes("post", "out"),), each=tuple(params.to), asks_always=True)


@tool(name="Post", kind="write", describe=_describe)
def post(to: list[str]) -> str:
    """Send a postcard."""
    return f"sent to {len(to)}"


async def sent(policy: RulePolicy, *to: str) -> str:
    async with Runtime([post], policy=policy) as runtime:
        result = await runtime.run(RawCall("Post", {"to": list(to)}))
    return "sent" if result.success else result.llm_content


@pytest.mark.parametrize("mode", list(Mode))
async def test_no_mode_and_no_rule_for_the_whole_tool_lets_it_run(mode: Mode) -> None:
    for allow in ([], ["Post"], ["*"]):
        assert await sent(RulePolicy(mode=mode, allow=allow), "ada@example.com") != "sent"


@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.BYPASS])
async def test_rules_must_cover_each(mode: Mode) -> None:
    policy = RulePolicy(mode=mode, allow=["Post(*@example.com)", "Post(Bob@else.org)"])
    assert await sent(policy, "ada@example.com") == "sent"
    assert await sent(policy, "Ada@EXAMPLE.com", "bob@else.org") == "sent"
    assert await sent(policy, "ada@example.com", "eve@evil.org") != "sent"
    assert await sent(policy, "ada@example.com.evil.org") != "sent"


async def test_one_is_enough_for_a_rule_that_denies_or_asks() -> None:
    policy = RulePolicy(mode="bypass", allow=["Post(*)"], deny=["Post(*@Evil.org)"], ask=["Post(boss@example.com)"])
    assert await sent(policy, "ada@example.com") == "sent"
    assert "denies it" in await sent(policy, "ada@example.com", "eve@evil.org")
    assert "asks about it" in await sent(policy, "BOSS@example.com", "ada@example.com")


async def test_always_is_a_rule_for_each(tmp_path: Path) -> None:
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        return "always"

    session = Session(workspace=tmp_path)
    async with Runtime([post], policy=RulePolicy(mode="bypass"), ask=ask) as runtime:
        for to in (["ada@example.com", "bob@else.org"], ["bob@else.org"], ["eve@evil.org"]):
            assert (await runtime.run(RawCall("Post", {"to": to}), session=session)).success
    assert [question.rule for question in asked] == [
        "Post(ada@example.com), Post(bob@else.org)", "Post(eve@evil.org)",
    ]  # fmt: skip
    assert asked[0].reason == ("`Post` asks in every mode, unless rules cover `ada@example.com`, `bob@else.org`")
