"""No command that nobody approved changes the workspace or shows a secret, whatever it looks like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferrule import RulePolicy, Runtime, Session
from ferrule.process.sandbox import choose
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.tools import builtin_tools
from tests.boxes.hostile import SECRET, commands, hostile_repository, tree
from tests.needs import needs

pytestmark = pytest.mark.slow

_AT_ONCE = 20


def chunks(name: str) -> Iterator[object]:
    every = commands(name)
    for start in range(0, len(every), _AT_ONCE):
        yield pytest.param(every[start : start + _AT_ONCE], id=f"{name}-{start}")


async def tried(root: Path, mode: str, given: list[str]) -> dict[str, list[str]]:
    """What each command left different or showed; nothing, if all is well. Each has a session of its own."""
    before = tree(root.parent)
    wrong: dict[str, list[str]] = {}
    for command in given:
        session = Session(workspace=root)
        runtime = Runtime(builtin_tools(), session=session, policy=RulePolicy(mode=mode))
        result = await runtime.run("Bash", {"command": command, "timeout": 20_000})
        await session.close()
        said = json.dumps([result.llm_content, result.display_content, result.data, result.metadata], default=str)
        if SECRET in said:
            wrong.setdefault(command, []).append("it showed a secret")
        after = tree(root.parent)
        if differ := sorted(path for path in {*before, *after} if before.get(path) != after.get(path)):
            wrong.setdefault(command, []).append(f"it changed {differ[:5]}")
            before = after
    return wrong


@pytest.fixture
def only_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    needs(LandlockSandbox().missing() is None, "a kernel with Landlock")
    monkeypatch.setattr(choose, "_best", lambda *_: (LandlockSandbox(), ()))


@pytest.mark.usefixtures("only_landlock")
@pytest.mark.parametrize("given", [*chunks("writes"), *chunks("secrets")])
def test_nor_does_it_where_landlock_is_all_there_is(tmp_path: Path, given: list[str]) -> None:
    """Issue 13: the look box is read-only then."""
    assert asyncio.run(tried(hostile_repository(tmp_path), "default", given)) == {}


@pytest.mark.parametrize("mode", ["default", "plan"])
@pytest.mark.parametrize("given", [*chunks("writes"), *chunks("secrets")])
def test_no_unapproved_command_leaves_a_trace_or_shows_a_secret(tmp_path: Path, mode: str, given: list[str]) -> None:
    """Issue 13: with nobody to ask, the tree stays what it was to the bit, and secrets stay secret."""
    assert asyncio.run(tried(hostile_repository(tmp_path), mode, given)) == {}
