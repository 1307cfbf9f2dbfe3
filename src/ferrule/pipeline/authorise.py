"""Stage three: may this call run? Pure: asking the user is the next stage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ferrule.core.access import Mode
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.phrases import phrase
from ferrule.core.tool import Kind, Tool
from ferrule.pipeline.cleaning import stopped_by
from ferrule.pipeline.stages import Decision, Verdict

if TYPE_CHECKING:
    from ferrule.core.call import Effects
    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.stages import Call

_ALLOW = Verdict.ALLOW  # an enum's member takes longer to look up than the rest of its line


class Policy(Protocol):
    """Decides whether a call may run. It must be quick and have no effects."""

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        """Decide whether this call may run in this session, and say why."""
        ...

    def remember(self, invocation: Invocation, session: Session) -> None:
        """Remember an "always" for this call's rule, only for this tool and this session."""
        ...


@runtime_checkable
class JudgesEffects(Protocol):
    """A policy that also decides about what a tried call would change. With any other policy the user is asked."""

    def decide_effects(self, invocation: Invocation, effects: Effects, session: Session) -> Decision:
        """Decide whether these effects may be kept. It must be quick and have no effects itself."""
        ...


READ_ONLY = Decision(Verdict.ALLOW, phrase("a read-only tool runs freely"))
_ONLY_READS = Decision(Verdict.ALLOW, phrase("the tool can write, but this call only reads"))
TENTATIVE = Decision(Verdict.ALLOW, phrase("it is tried first, and asks before its changes are kept"), tentative=True)
_NO_KIND = Decision(Verdict.ALLOW, phrase("the program provided the tool and gave it no kind"))
BYPASS = Decision(Verdict.ALLOW, phrase("mode bypass allows everything that is not denied"))
_EDITS = Decision(Verdict.ALLOW, phrase("mode accept-edits lets tools write"))
PLAN = Decision(Verdict.DENY, phrase("mode plan runs only read-only tools"))
_ASK_DANGEROUS = Decision(Verdict.ASK, phrase("the tool is marked dangerous"))
_ASK_PERMISSION = Decision(Verdict.ASK, phrase("the tool requires permission"))
_ASK_WRITES = Decision(Verdict.ASK, phrase("the tool counts as read-only, but says that this call writes"))
_ASK_KIND = {
    Kind.READONLY: Decision(Verdict.ASK, phrase("the tool is not read-only")),
    Kind.WRITE: Decision(Verdict.ASK, phrase("a tool that writes asks first")),
    Kind.EXECUTE: Decision(Verdict.ASK, phrase("a tool that executes something asks first")),
}


class DefaultPolicy:
    """For programs that chose no policy: read-only tools run, and tools that write or execute ask.

    A tool without a kind runs, because the program itself provided it. If it is `served` to others, it counts as one
    that executes.
    """

    def __init__(self, *, served: bool = False) -> None:
        self._served = served
        self._remembered: set[tuple[str, Tool[Any], str]] = set()

    def remember(self, invocation: Invocation, session: Session) -> None:
        # The tool object itself, so that another tool of the same name asks again.
        self._remembered.add((session.id, invocation.tool, invocation.always_rule))

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        tool = invocation.tool
        if not (tool.dangerous or tool.requires_permission):
            if tool.read_only and not tool.has_touches:
                return READ_ONLY  # the quick way for most calls
            if not (tool.kind_given or self._served):
                return _NO_KIND
        if self._remembered and (session.id, tool, rule := invocation.always_rule) in self._remembered:
            return Decision(Verdict.ALLOW, phrase("`{rule}` is always allowed in this session", rule=rule), rule)
        return by_kind(invocation, Mode.DEFAULT)


def by_kind(invocation: Invocation, mode: Mode, *, writes: bool | None = None) -> Decision:
    """The decision by a tool's kind and flags, where no rule applies. `writes`: whether the call writes, if known."""
    tool = invocation.tool
    if tool.dangerous:
        return _ASK_DANGEROUS
    if tool.requires_permission:
        return _ASK_PERMISSION
    if tool.read_only:
        if writes is None:
            writes = tool.has_touches and any(touch.write for touch in invocation.touches)
        return _ASK_WRITES if writes else READ_ONLY
    if invocation.only_reads and not writes:
        return _ONLY_READS
    if tool.kind is Kind.WRITE and mode is Mode.ACCEPT_EDITS:
        return _EDITS
    if invocation.info.tentative:
        return TENTATIVE
    return _ASK_KIND[tool.kind]


def never_asked(decision: Decision) -> Decision:
    """The same decision if the user may not be asked: refused instead."""
    if decision.verdict is not Verdict.ASK:
        return decision
    reason = phrase("{reason}, and mode dont-ask never asks", reason=decision.reason)
    return Decision(Verdict.DENY, reason, decision.rule)


def authorise(call: Call, policy: Policy) -> Verdict:
    """Decide about a call, once: it may run, or the user must be asked. Raises `StoppedError` where it may not run."""
    invocation, session = call.invocation, call.session
    tool = invocation.tool
    if tool.roles or tool.needs:
        require_context(tool, session)
    decided = call.decided  # a hook may have changed the call since
    decision = decided[1] if decided is not None and decided[0] is invocation else policy.decide(invocation, session)
    decision = settle(call, decision)
    if decision.verdict is _ALLOW or (verdict := Verdict(decision.verdict)) is _ALLOW:
        return _ALLOW
    if verdict is Verdict.DENY:
        raise denied(tool, decision)
    if (problem := invocation.info.refusal) is not None:
        raise stopped_by(tool.name, problem, session.workspace, session.folders[1:], Stage.AUTHORISE)
    return verdict


def settle(call: Call, decision: Decision) -> Decision:
    """Note a policy's decision in the call and its record. One that the call cannot be tried for asks instead."""
    if decision.tentative and not (call.invocation.info.tentative and call.invocation.tool.wants_context):
        decision = replace(decision, verdict=Verdict.ASK, tentative=False)
    call.decision, record = decision, call.record
    record.verdict, record.reason, record.rule = decision.verdict, decision.reason, decision.rule
    return decision


def denied(tool: Tool[Any], decision: Decision) -> StoppedError:
    """The early exit of a call that the policy refuses."""
    return StoppedError(
        Stage.AUTHORISE,
        ErrorKind.PERMISSION,
        phrase("`{name}` was not run: {reason}.", name=tool.name, reason=decision.reason),
        phrase("Do not try the same call again; try another approach, or ask the user."),
    )


def require_context(tool: Tool[Any], session: Session) -> None:
    """Stop a call whose tool is not for this caller, or needs something that the session lacks."""
    caller = session.caller
    if tool.roles and caller.role not in tool.roles:
        who = phrase("the role `{role}`", role=caller.role) if caller.role else phrase("a caller without a role")
        raise StoppedError(
            Stage.AUTHORISE,
            ErrorKind.PERMISSION,
            phrase("`{name}` is not for {who}.", name=tool.name, who=who),
            phrase("It is for: {listed}.", listed=", ".join(sorted(tool.roles))),
        )
    if not tool.needs:
        return
    have = {"tenant": caller.tenant, "user": caller.user, "role": caller.role, "model": session.model_adapter}
    if lacking := sorted(need for need in tool.needs if not have[need]):
        raise StoppedError(
            Stage.AUTHORISE,
            ErrorKind.PERMISSION,
            phrase("Missing {listed} in context: `{name}` needs it.", name=tool.name, listed=" and ".join(lacking)),
            phrase("The program that embeds Ferrule must set it on the session; another call will not help."),
        )
