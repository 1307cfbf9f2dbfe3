"""Commands where no sandbox works: none runs unless the user was asked about it, and told so."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.builtin.shell_desk import ShellDesk, shell_desk
from tests.says_yes import SaysYes

from ferrule import RawCall, Runtime, Session
from ferrule.builtin.all_tools import builtin_tools
from ferrule.builtin.session_shells import try_sandbox
from ferrule.core.context import Environment, SandboxChoice
from ferrule.core.events import Question
from ferrule.pipeline.authorise import UNCONFINED, DefaultPolicy
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.pipeline.hooks import Hook, HookReply
from ferrule.pipeline.stages import Verdict
from ferrule.policy.decide import RulePolicy
from ferrule.policy.explain import explain
from ferrule.process.sandbox import choose
from ferrule.process.sandbox.denials import SandboxRefused
from ferrule.process.sandbox.sandbox import NoSandbox

LETS_ALL_RUN: dict[str, Any] = {
    "rule": lambda: RulePolicy(allow=["Bash", "Bash(*)", "BashInput", "executeCommand"]),
    "accept-edits": lambda: RulePolicy(mode="accept-edits", allow=["Bash(touch *)"]),
    "bypass": lambda: RulePolicy(mode="bypass"),
    "dangerous": lambda: RulePolicy(mode="bypass", dangerous="allow"),
    "a program's own": SaysYes,
}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("Bash", {"command": "touch made"}),
    "background": ("Bash", {"command": "touch made", "run_in_background": True}),
    "terminal": ("Bash", {"command": "touch made", "terminal": True}),
    "moves": ("Bash", {"command": "touch made", "background_on_timeout": True}),
    "assistant": ("executeCommand", {"command": "touch made"}),
    "input": ("BashInput", {"text": "touch made\n"}),
    "reads only": ("Bash", {"command": "ls"}),
}


@pytest.fixture(autouse=True)
def _no_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without bubblewrap and without Landlock."""
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    found = NoSandbox(reasons=("bubblewrap: there is no `bwrap` program.",))
    monkeypatch.setattr(choose, "_best", lambda *_: (found, ()))


class Person:
    """Answers every question alike, and keeps what was asked."""

    def __init__(self, choice: Choice) -> None:
        self.choice, self.asked = choice, list[Question]()

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(self.choice)


@asynccontextmanager
async def asked_desk(folder: Path, policy: Any, choice: Choice) -> AsyncGenerator[tuple[ShellDesk, Person]]:
    person = Person(choice)
    folder.mkdir(exist_ok=True)
    async with shell_desk(folder, policy=policy) as desk:
        desk.runtime = Runtime(builtin_tools(family="all"), policy=policy, session=desk.session, ask=person)
        yield desk, person


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", LETS_ALL_RUN)
async def test_nothing_lets_a_command_run_that_the_user_was_not_asked_about(
    tmp_path: Path, policy: str, way: str
) -> None:
    """S1: no rule, mode or policy answers for it, in whatever way it starts."""
    name, arguments = WAYS[way]
    async with shell_desk(tmp_path, policy=LETS_ALL_RUN[policy]()) as desk:
        result = await desk.runtime.run(name, arguments)
        assert result.error is not None
        assert (result.error.kind, list(desk.workspace.iterdir())) == ("permission_error", [])
        assert "no sandbox works" in result.error.message
        assert "--allow" not in result.llm_content
        assert "RulePolicy(" not in result.llm_content
    async with asked_desk(tmp_path / "asked", LETS_ALL_RUN[policy](), Choice.NO) as (desk, person):
        await desk.runtime.run(name, arguments)
        (question,) = person.asked
        assert UNCONFINED in question.reason
        assert "Nothing would confine" in (question.warning or "")
        assert (question.rule, question.rules) == ("", ())
        assert list(desk.workspace.iterdir()) == []


@pytest.mark.parametrize("unconfined", ["ask", "allow"])
async def test_p4_no_question_says_that_guarded_files_are_safe(tmp_path: Path, unconfined: Any) -> None:
    """Nothing guards them where nothing confines the command: a yes changes them."""
    sandbox = SandboxChoice(unconfined=unconfined)
    async with shell_desk(tmp_path, policy=RulePolicy(), sandbox=sandbox) as desk:
        person = Person(Choice.ONCE)
        desk.runtime = Runtime(builtin_tools(), policy=RulePolicy(), session=desk.session, ask=person)
        await desk.bash("touch .envrc")
        assert (desk.workspace / ".envrc").exists()
        (question,) = person.asked
        assert "dangerous" in question.reason
        assert "stays as it is" not in (question.warning or "")


@pytest.mark.parametrize("policy", [*LETS_ALL_RUN, "default"])
async def test_an_approval_is_for_one_command(tmp_path: Path, policy: str) -> None:
    """S1: "always" is not offered, and a client that answers it all the same means once."""
    made = LETS_ALL_RUN.get(policy, DefaultPolicy)()
    async with asked_desk(tmp_path, made, Choice.ALWAYS) as (desk, person):
        assert await desk.bash("touch made; ls") == "made"
        assert await desk.bash("touch made; ls") == "made"
        assert len(person.asked) == 2


async def test_what_a_model_reads(tmp_path: Path) -> None:
    async with shell_desk(tmp_path, policy=RulePolicy()) as desk:
        assert await desk.bash("cat a") == snapshot("""\
Error (permission_error): `Bash` was not run: no sandbox works on this machine, and approval isn't available here.

Suggestion: Ask the user to run `ferrule doctor`, which says what the sandbox needs. Without one, a command runs only once the user has approved it.\
""")
        assert await desk.bash("rm -rf /") == snapshot("""\
Error (permission_error): `Bash` was not run: `rm -rf /` is dangerous: it removes folders and everything in them, without asking; `rm -rf /` is dangerous: it changes files of the system, and no sandbox works on this machine, and approval isn't available here.

Suggestion: Ask the user to run `ferrule doctor`, which says what the sandbox needs. Without one, a command runs only once the user has approved it.\
""")
    for mode in ("plan", "dont-ask"):
        async with shell_desk(tmp_path, policy=RulePolicy(mode=mode, allow=["Bash"])) as desk:
            result = await desk.runtime.run("Bash", {"command": "touch made"})
            assert not result.success
            assert list(desk.workspace.iterdir()) == []


async def test_the_user_can_let_commands_run_as_with_one(tmp_path: Path) -> None:
    """S1: rules and the mode decide then, and what they say nothing of asks."""
    chosen = SandboxChoice(unconfined="allow")
    async with shell_desk(tmp_path, policy=RulePolicy(allow=["Bash(touch *)"]), sandbox=chosen) as desk:
        await desk.bash("touch made")
        assert (desk.workspace / "made").exists()
        assert "not run" in await desk.bash("cp made other")


@pytest.mark.parametrize("policy", LETS_ALL_RUN)
async def test_where_others_approve_nothing_runs(tmp_path: Path, policy: str) -> None:
    """S1: in a service, whoever answers for a tenant does not answer for the machine."""
    async with asked_desk(tmp_path, LETS_ALL_RUN[policy](), Choice.ONCE) as (desk, person):
        refusing = Session(
            workspace=desk.workspace, environment=Environment(sandbox=SandboxChoice(unconfined="refuse"))
        )
        for name, arguments in WAYS.values():
            result = await desk.runtime.run(name, arguments, session=refusing)
            assert result.error is not None
            assert "no sandbox works" in result.error.message
        assert (person.asked, list(desk.workspace.iterdir())) == ([], [])


async def test_what_was_approved_for_a_sandbox_does_not_run_without_one(tmp_path: Path) -> None:
    """S1: one that stopped working between the question and the start."""
    session = Session(workspace=tmp_path)
    with pytest.raises(SandboxRefused, match="No sandbox works"):
        await try_sandbox(session)


async def test_a_call_that_a_hook_changed_asks_too(tmp_path: Path) -> None:
    """S1: what runs is described anew."""

    hook = Hook("change", before=lambda call, session: HookReply(arguments={"command": "touch changed"}))
    async with asked_desk(tmp_path, SaysYes(), Choice.NO) as (desk, person):
        desk.runtime = Runtime(
            builtin_tools(family="all"), policy=SaysYes(), session=desk.session, ask=person, hooks=[hook]
        )
        for _ in range(2):
            await desk.bash("touch made")
        assert [UNCONFINED in one.reason for one in person.asked] == [True, True]
        assert list(desk.workspace.iterdir()) == []


async def test_a_batch_asks_for_each(tmp_path: Path) -> None:
    async with asked_desk(tmp_path, RulePolicy(mode="bypass"), Choice.ONCE) as (desk, person):
        results = await desk.runtime.batch([RawCall("Bash", {"command": f"touch {name}"}) for name in "abc"])
        assert all(result.success for result in results)
        assert len(person.asked) == 3


async def test_the_explanation_says_the_same(tmp_path: Path) -> None:
    """P4."""
    policy = RulePolicy(mode="bypass", allow=["Bash(touch *)"])
    async with shell_desk(tmp_path, policy=policy) as desk:
        invocation = desk.runtime.build(RawCall("Bash", {"command": "touch made"}))
        await invocation.ready(desk.session)
        explained = explain(policy, invocation, desk.session)
    assert (explained.verdict, explained.reason, explained.box, explained.box_why, explained.needed) == snapshot(
        (
            Verdict.ASK,
            "no sandbox works on this machine",
            "",
            "Nothing confines it: it has all of your permissions, your network and your secrets.",
            'A sandbox: `ferrule doctor` says what it needs. Without one every command asks, unless your own settings have `shell.unconfined = "allow"`.',
        )
    )
