"""What `explain` says of a call and what the call comes to are the same (S1, M4): one function decides both."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ferrule import Mode, RawCall, Runtime, Session, Tool, tool
from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.access import reads, writes
from ferrule.core.call import CallInfo
from ferrule.core.context import Caller
from ferrule.core.errors import DefinitionError, ErrorKind, ToolError
from ferrule.pipeline.confirm import Choice
from ferrule.pipeline.stages import Verdict
from ferrule.policy import RulePolicy
from ferrule.policy.explain import explain

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.events import Question
    from ferrule.pipeline.stages import CallRecord

KINDS = ("readonly", "write", "execute")
ROLES = ((), ("admin",), ("admin", "clerk"))
NEEDS = ((), ("tenant",), ("user", "role"), ("model",))
FLAGS = ({}, {"dangerous": True}, {"requires_permission": True})


def made(kind: str, roles: tuple[str, ...], needs: tuple[str, ...], flags: dict[str, Any]) -> Tool[Any]:
    name = "_".join([kind, *roles, *needs, *flags])

    def act(text: str = "") -> str:
        return text

    return tool(act, name=name, kind=kind, roles=roles, needs=needs, description="Do something.", **flags)  # pyright: ignore[reportArgumentType]


def odd(name: str, described: Any, kind: str = "write") -> Tool[Any]:
    one = made(kind, (), (), {})
    one.name = name

    def describe(params: Any, session: Session) -> CallInfo:
        if isinstance(described, Exception):
            raise described
        return described

    one.describe = describe  # pyright: ignore[reportAttributeAccessIssue]
    return one


TOOLS: list[Tool[Any]] = [made(*one) for one in product(KINDS, ROLES, NEEDS, FLAGS)]
BY_NAME = {one.name: one for one in TOOLS}
CALLERS = [
    Caller(tenant, user, role)
    for tenant, user, role in product((None, "acme"), (None, "ada"), (None, "admin", "clerk", "guest"))
]
RULES = st.lists(st.sampled_from([*sorted(BY_NAME), "*", "readonly*", "write_admin*", "Bash", "Read(**)"]), max_size=3)


class Kept:
    def __init__(self) -> None:
        self.records: list[CallRecord] = []

    def record(self, record: CallRecord) -> None:
        self.records.append(record)


def came_to(
    tools: list[Tool[Any]], name: str, arguments: dict[str, Any], policy: RulePolicy, session: Session
) -> tuple[Verdict, str]:
    """What a real call does: whether it ran at once, asked or was refused, and the error's words."""
    asked: list[Question] = []

    def ask(question: Question) -> Choice:
        asked.append(question)
        return Choice.NO

    kept = Kept()
    runtime = Runtime(tools, policy=policy, ask=ask, session=session, recorders=[kept])
    result = asyncio.run(runtime.run(RawCall(name, arguments)))
    if asked:
        return Verdict.ASK, ""
    [record] = kept.records
    if result.error is not None and record.stage in ("lookup", "validate", "authorise"):
        return Verdict.DENY, result.error.message
    return Verdict.ALLOW, ""


def foretold(
    tools: list[Tool[Any]], name: str, arguments: dict[str, Any], policy: RulePolicy, session: Session
) -> tuple[Verdict, str]:
    invocation = Runtime(tools, policy=policy, session=session).build(RawCall(name, arguments))
    invocation.session = session
    found = explain(policy, invocation, session)
    return found.verdict, found.reason


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(BY_NAME)), st.sampled_from(CALLERS), st.sampled_from(list(Mode)), RULES, RULES, RULES,
    st.booleans(),
)  # fmt: skip
def test_explain_and_call_agree(
    tmp_path: Path,
    name: str,
    caller: Caller,
    mode: Mode,
    allow: list[str],
    ask: list[str],
    deny: list[str],
    model: bool,
) -> None:
    """Tools × callers × modes × rules, with the context that a tool needs and without it."""
    session = Session(workspace=tmp_path, caller=caller)
    if model:
        session.model_adapter = object()  # pyright: ignore[reportAttributeAccessIssue]

    def policy() -> RulePolicy:
        return RulePolicy(mode=mode, allow=allow, ask=ask, deny=deny)

    said, reason = foretold(TOOLS, name, {}, policy(), session)
    came, message = came_to(TOOLS, name, {}, policy(), session)
    assert said is came, (reason, message)
    if came is Verdict.DENY:
        assert reason in message


COMMANDS = ("ls", "touch x", "rm -rf /", "git push", "echo $(cat .env)", "sudo ls", "curl https://example.org", "cd ..")
PATHS = ("a.txt", "../x", "/etc/passwd", ".env", ".git/config", "ferrule.toml", "nope/none")
BUILT_IN = {one.name: one for one in builtin_tools(family="all")}
CALLS = [
    *(("Bash", {"command": command}) for command in COMMANDS),
    *(("Read", {"file_path": path}) for path in PATHS),
    *(("Write", {"file_path": path, "content": "x"}) for path in PATHS),
    *(("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}) for path in PATHS),
]
SPECIFIC = st.lists(
    st.sampled_from(["Bash", "Bash(ls)", "Bash(git *)", "Read", "Read(.env)", "Edit", "Edit(**)", "Edit(a.txt)", "*"]),
    max_size=2,
)


@pytest.mark.slow
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.sampled_from(CALLS), st.sampled_from(list(Mode)), SPECIFIC, SPECIFIC, SPECIFIC)
def test_explain_and_call_agree_about_files_and_commands(
    tmp_path: Path, call: tuple[str, dict[str, Any]], mode: Mode, allow: list[str], ask: list[str], deny: list[str]
) -> None:
    name, arguments = call
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / ".env").write_text("SECRET=1\n")

    def policy() -> RulePolicy:
        return RulePolicy(mode=mode, allow=allow, ask=ask, deny=deny)

    tools = list(BUILT_IN.values())
    session = Session(workspace=tmp_path)
    said, reason = foretold(tools, name, arguments, policy(), session)
    kept = Kept()
    decided: list[Verdict] = []
    runtime = Runtime(tools, policy=policy(), ask=lambda question: Choice.NO, session=Session(workspace=tmp_path),
                      recorders=[kept])  # fmt: skip
    authorise = runtime.policy.decide

    def noted(invocation: Any, session: Session) -> Any:
        decision = authorise(invocation, session)
        decided.append(Verdict(decision.verdict))
        return decision

    runtime.policy.decide = noted  # pyright: ignore[reportAttributeAccessIssue]
    result = asyncio.run(runtime.run(RawCall(name, arguments)))
    stage = kept.records[0].stage if result.error is not None else None
    if stage == "authorise":
        assert said is Verdict.DENY, reason
    else:
        assert said is decided[0], reason
    asyncio.run(runtime.session.close())


@pytest.mark.parametrize(
    ("described", "words"),
    [
        (DefinitionError("its pattern is wrong"), "cannot say what this call would do"),
        (CallInfo((writes("path", "a"),), refusal=ToolError("There is no such page.", kind=ErrorKind.NOT_FOUND)),
         "There is no such page."),
        (CallInfo((reads("path", "a"),)), ""),
        (CallInfo((writes("path", "a"),), tentative=True), ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", Mode)
def test_they_agree_about_tools_that_describe_oddly(described: Any, words: str, mode: Mode, tmp_path: Path) -> None:
    tools = [odd("odd", described)]
    session = Session(workspace=tmp_path)
    said, reason = foretold(tools, "odd", {}, RulePolicy(mode=mode), session)
    came, message = came_to(tools, "odd", {}, RulePolicy(mode=mode), session)
    assert said is came, (reason, message)
    if mode is Mode.DEFAULT:
        assert words in reason


def test_what_is_missing_is_said_with_what_would_help(tmp_path: Path) -> None:
    one = made("readonly", ("admin",), ("tenant",), {})
    policy, session = RulePolicy(allow=["*"]), Session(workspace=tmp_path, caller=Caller(None, "ada", "admin"))
    invocation = Runtime([one], policy=policy, session=session).build(RawCall(one.name, {}))
    found = explain(policy, invocation, session)
    assert (found.verdict, found.reason) == ("deny", f"Missing tenant in context: `{one.name}` needs it.")
    assert found.needed.startswith("The program that embeds Ferrule must set it")
    session.caller = replace(session.caller, role="clerk")
    assert explain(policy, invocation, session).needed == "It is for: admin."
