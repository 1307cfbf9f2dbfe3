"""Stage three (P4): read-only runs free, the others ask; deny always wins; every mode."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule import (
    Caller,
    Decision,
    Mode,
    Policy,
    Registry,
    RulePolicy,
    Runtime,
    Session,
    Tool,
    ToolContext,
    ToolResult,
    Verdict,
    raw_tool,
    tool,
    writes,
)
from ferrule.core.tool import Invocation
from ferrule.pipeline.authorise import DefaultPolicy


def make(name: str, **options: Any) -> Any:
    async def body() -> str:
        return "ran"

    return tool(body, name=name, **options)


READ = make("read", kind="readonly")
WRITE = make("write", kind="write")
EXEC = make("execute", kind="execute")
DANGER = make("danger", kind="readonly", dangerous=True)
GUARDED = make("guarded", kind="readonly", requires_permission=True)
ODD = make("odd", kind="readonly", read_only=False)
ALL = [READ, WRITE, EXEC, DANGER, GUARDED, ODD]


TOOLS = {one.name: one for one in ALL}


def verdicts(policy: Policy, session: Session | None = None) -> dict[str, str]:
    session = session or Session()
    return {one.name: policy.decide(Invocation(one, one.params.load("{}"), "c"), session).verdict.value for one in ALL}


def test_without_a_policy_read_only_tools_run_and_those_that_write_or_execute_ask() -> None:
    assert " ".join(verdicts(DefaultPolicy()).values()) == "allow ask ask ask ask ask"


def test_a_function_just_runs() -> None:
    """T4: a tool whose author gave no kind, handed over by the program itself, with no policy chosen."""

    @tool
    def add(a: int, b: int) -> int:
        return a + b

    class Params(BaseModel):
        a: int

    class Double(Tool[Params]):
        def run(self, params: Params, context: ToolContext) -> int:
            return 2 * params.a

    assert asyncio.run(Runtime([add]).run("add", {"a": 1, "b": 2})).data == 3
    assert asyncio.run(Runtime([Double()]).run("Double", {"a": 2})).data == 4
    assert asyncio.run(Runtime([raw_tool("raw", {}, lambda arguments: 5)]).run("raw")).data == 5


@pytest.mark.parametrize(
    "options", [{"kind": "write"}, {"kind": "execute"}, {"read_only": False}, {"dangerous": True},
                {"requires_permission": True}],
)  # fmt: skip
def test_a_tool_that_says_it_needs_leave_asks(options: dict[str, Any]) -> None:
    assert run(make("act", **options)).error.kind == "permission_error"  # type: ignore[union-attr]


def test_a_tool_without_a_kind_counts_as_execute_once_somebody_stands_in_front() -> None:
    """With a policy that was chosen, or for a client that a server gives a session of its own."""
    plain = make("plain")
    assert (plain.kind, plain.kind_given) == ("execute", False)
    assert not run(plain, policy=RulePolicy()).success
    served = Runtime([plain]).for_session(Session())
    assert not asyncio.run(served.run("plain")).success
    assert asyncio.run(Runtime([plain]).run("plain")).success


@pytest.mark.parametrize("mode", list(Mode))
def test_deny_beats_allow_in_every_mode(mode: Mode) -> None:
    policy = RulePolicy(mode=mode, allow=["*"], deny=["write", "d*"])
    assert {name for name, verdict in verdicts(policy).items() if verdict == "deny"} >= {"write", "danger"}
    assert "write" not in {name for name, verdict in verdicts(policy).items() if verdict != "deny"}


def test_allow_lets_run_without_asking_but_not_against_plan_mode() -> None:
    assert verdicts(RulePolicy(allow=["execute", "danger"]))["execute"] == "allow"
    assert verdicts(RulePolicy(allow=["execute"]))["write"] == "ask"
    assert verdicts(RulePolicy(mode="plan", allow=["*"]))["write"] == "deny"


def test_a_denied_read_only_tool_does_not_run() -> None:
    assert verdicts(RulePolicy(deny=["read"]))["read"] == "deny"


def test_what_was_always_allowed_is_remembered_but_never_against_a_denial() -> None:
    policy = RulePolicy(deny=["write"])
    session = Session()
    for name in ("write", "execute"):
        policy.remember(Invocation(TOOLS[name], TOOLS[name].params.load("{}"), "c"), session)
    assert verdicts(policy, session)["execute"] == "allow"
    assert verdicts(policy, session)["write"] == "deny"
    assert verdicts(policy, Session())["execute"] == "ask"


def test_one_name_may_be_given_as_a_word() -> None:
    assert verdicts(RulePolicy(deny="read"))["read"] == "deny"
    assert verdicts(RulePolicy(deny="read"))["write"] == "ask"


def run(one: Any, **options: Any) -> ToolResult:
    return asyncio.run(Runtime([one], **options).run(one.name))


def test_a_denied_call_says_why() -> None:
    assert run(READ, policy=RulePolicy(deny=["re*"])).llm_content == snapshot(
        """\
Error (permission_error): `read` was not run: `re*` from the program denies it.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
"""
    )
    assert run(EXEC, policy=RulePolicy(mode="dont-ask")).llm_content == snapshot(
        """\
Error (permission_error): `execute` was not run: a tool that executes something asks first, and mode dont-ask never asks.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
"""  # noqa: E501
    )


def test_an_alias_in_a_renamed_view_does_not_slip_past_a_denial() -> None:
    """P4: a denied name is denied under whatever name the call came."""
    registry = Registry()
    registry.register(READ, aliases=["cat"])
    view = registry.prefixed("fs_")

    async def main() -> list[bool]:
        runtime = Runtime(view, policy=RulePolicy(deny=["fs_read"]))
        return [(await runtime.run(name)).success for name in ("fs_read", "fs_cat")]

    assert asyncio.run(main()) == [False, False]


def test_a_tool_for_some_roles_is_for_no_other() -> None:
    """T2."""
    one = make("admin_only", kind="readonly", roles=("admin", "owner"))
    assert run(one, session=Session(caller=Caller(role="admin"))).success
    assert run(one, session=Session(caller=Caller(role="guest"))).llm_content == snapshot(
        """\
Error (permission_error): `admin_only` is not for the role `guest`.

Suggestion: It is for: admin, owner.\
"""
    )
    assert "not for a caller without a role" in run(one).llm_content


def test_a_role_is_demanded_even_where_everything_is_allowed() -> None:
    one = make("admin_only", kind="readonly", roles=("admin",))
    assert not run(one, policy=RulePolicy(mode="bypass", allow=["*"])).success


@pytest.mark.parametrize("need", ["tenant", "user", "role", "model"])
def test_a_context_that_lacks_what_a_tool_needs_is_an_error_before_it_runs(need: str) -> None:
    """T8."""
    one = make("needy", kind="readonly", needs=(need,))
    assert f"Missing {need} in context" in run(one).llm_content

    class Model:
        async def complete(self, prompt: str) -> str:
            return prompt

    whole = Session(caller=Caller("t", "u", "r"), model_adapter=Model())
    assert run(one, session=whole).success


def test_everything_that_lacks_is_told_at_once() -> None:
    one = make("needy", kind="readonly", needs=("tenant", "user"))
    assert run(one).llm_content == snapshot(
        """\
Error (permission_error): Missing tenant and user in context: `needy` needs it.

Suggestion: The program that embeds Ferrule must set it on the session; another call will not help.\
"""
    )


class Fixed:
    """A policy of somebody else."""

    def __init__(self, decision: Any) -> None:
        self.decision = decision

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision

    def remember(self, invocation: Invocation, session: Session) -> None: ...


@pytest.mark.parametrize(
    "decision",
    [
        RuntimeError("policy bug"),
        None,
        Decision("nonsense", "?"),  # type: ignore[arg-type]
        Decision("deny", "plain word"),  # type: ignore[arg-type]
        Decision(Verdict.DENY, "no"),
        Decision(Verdict.ASK, "?"),
        Decision("ask", "?"),  # type: ignore[arg-type]
    ],
)
def test_a_policy_that_fails_or_does_not_allow_lets_nothing_run(decision: Any) -> None:
    """When unsure, refuse."""
    ran: list[str] = []

    @tool(kind="readonly")
    async def act() -> None:
        ran.append("x")

    async def yes(question: Any) -> Any:
        raise AssertionError("a denial is not asked about")

    ask = yes if getattr(decision, "verdict", "") in ("deny",) else None
    result = asyncio.run(Runtime([act], policy=Fixed(decision), ask=ask).run("act"))
    assert not result.success
    assert ran == []


def test_a_policy_that_says_allow_in_a_plain_word_allows() -> None:
    assert run(EXEC, policy=Fixed(Decision("allow", "plain word"))).success  # type: ignore[arg-type]


def test_a_read_only_tool_that_says_it_writes_asks() -> None:
    """P4: what a call touches is believed over what the tool is called."""

    @tool(kind="readonly", touches=lambda params: [writes("path", params.path)] if params.path else [])
    def peek(path: str) -> str:
        """Peek."""
        return "seen"

    runtime = Runtime([peek])
    refused = asyncio.run(runtime.run("peek", {"path": "/a"}))
    assert refused.error is not None
    assert "says that this call writes" in refused.error.message
    assert asyncio.run(runtime.run("peek", {"path": ""})).success


def previewing(**options: Any) -> Any:
    def rename_all(preview: bool) -> str:
        """Rename."""
        return "ran"

    return tool(rename_all, kind="write", only_reads=lambda params: params.preview, **options)


def test_a_call_that_only_reads_runs_freely_although_its_tool_can_write() -> None:
    """P4: a preview needs no leave, and what it previews does."""
    one = previewing(touches=lambda params: [] if params.preview else [writes("path", "/a")])
    for mode in ("default", "accept-edits", "dont-ask", "bypass"):
        assert asyncio.run(Runtime([one], policy=RulePolicy(mode=mode)).run("rename_all", {"preview": True})).success
    refused = asyncio.run(Runtime([one]).run("rename_all", {"preview": False}))
    assert refused.error is not None
    assert refused.error.kind == "permission_error"


def test_a_call_that_says_it_only_reads_but_touches_for_writing_asks() -> None:
    """When unsure, refuse: unsaid, a tool that can write may write anything."""
    for one in (previewing(), previewing(touches=(writes("path", "/a"),)), previewing(touches=(), dangerous=True)):
        assert not asyncio.run(Runtime([one]).run("rename_all", {"preview": True})).success


def test_a_tool_that_can_write_stays_out_of_plan_mode_whatever_a_call_says() -> None:
    """R4."""
    one = previewing(touches=())
    assert not asyncio.run(Runtime([one], policy=RulePolicy(mode="plan")).run("rename_all", {"preview": True})).success
    assert not one.read_only
    registry = Registry()
    registry.register(one)
    assert registry.for_mode("plan").tools() == []


def test_a_mode_that_is_none_names_those_there_are() -> None:
    with pytest.raises(
        ValueError, match=r"There is no mode 'fast'\. Modes are default, plan, accept-edits, dont-ask, b"
    ):
        RulePolicy(mode="fast")  # type: ignore[arg-type]
