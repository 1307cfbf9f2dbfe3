"""A tool that runs commands, so that rules are tested apart from boxes: it can be tried unless it has a terminal."""

from __future__ import annotations

from typing import Any

from ferrule import CallInfo, Session, ToolContext, Touch, tool
from ferrule.core.call import Effects, FileEffect
from ferrule.core.tool import Invocation
from ferrule.policy.decide import RulePolicy


@tool(
    name="Bash",
    kind="execute",
    describe=lambda params, session: CallInfo(
        touches=(Touch(f"command:{params.command}", write=True), Touch("*", write=True)),
        signature=params.command,
        tentative=not params.terminal,
    ),
)
async def bash(context: ToolContext, command: str, terminal: bool = False) -> str:
    """Run a command. Use this to test: nothing is run, and a `touch` that is tried would create a file."""
    if not context.tentative:
        return f"ran {command}"
    if not command.startswith("touch "):
        return f"looked {command}"
    path = command.removeprefix("touch ")
    approval = await context.approve(Effects((FileEffect("create", str(context.session.workspace / path), path),)))
    return f"kept {path}: {approval.reason}" if approval.approved else f"dropped {path}: {approval.reason}"


def policy(**options: Any) -> RulePolicy:
    return RulePolicy(**options)


def invoke(one: Any, session: Session, **arguments: Any) -> Invocation:
    invocation = one.build(arguments)
    invocation.session = session
    return invocation


def verdict(rules: RulePolicy, session: Session, one: Any, **arguments: Any) -> str:
    """allow, ask or deny; `try` for what is tried with its effects held back."""
    decision = rules.decide(invoke(one, session, **arguments), session)
    return "try" if decision.tentative else decision.verdict.value


def on_command(rules: RulePolicy, session: Session, command: str) -> str:
    return verdict(rules, session, bash, command=command)
