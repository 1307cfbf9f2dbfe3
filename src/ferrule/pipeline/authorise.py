"""Stage three: may this call run? Pure: asking the user is the next stage."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ferrule.core.access import Mode
from ferrule.core.errors import DefinitionError, ErrorKind, Stage, StoppedError
from ferrule.core.phrases import advice, joined, phrase
from ferrule.core.signatures import is_a
from ferrule.core.tool import Kind, Tool
from ferrule.pipeline.cleaning import clean_text, stopped_by
from ferrule.pipeline.stages import Decision, Verdict
from ferrule.registry.registry import Filtered

if TYPE_CHECKING:
    from ferrule.core.call import Effects
    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.stages import Call
    from ferrule.registry.registry import ToolSource

logger = logging.getLogger("ferrule.calls")
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


@runtime_checkable
class DeniesTools(Protocol):
    """A policy that can tell when every call of a tool is denied. With any other policy all tools are shown."""

    @property
    def denials(self) -> int:
        """Another number whenever `denies` may give another answer."""
        ...

    def denies(self, tool: Tool[Any]) -> bool:
        """Whether every call of this tool is denied, whatever its arguments."""
        ...


class UsableTools(Filtered):
    """The tools of which a session may run at least some calls."""

    def __init__(self, source: ToolSource, policy: Policy, session: Session, deps: Any = None) -> None:
        self._denying = policy if isinstance(policy, DeniesTools) else None
        if deps is not None:
            session = replace(session, deps=deps)

        def usable(tool: Tool[Any]) -> bool:
            return _lacks_context(tool, session, None) is None and not (
                self._denying is not None and self._denying.denies(tool)
            )

        super().__init__(source, usable)

    @property
    def revision(self) -> int:
        denials = self._denying.denials if self._denying is not None else 0
        return (denials << 40) + self.source.revision


READ_ONLY = Decision(Verdict.ALLOW, phrase("a read-only tool runs freely"))
_ONLY_READS = Decision(Verdict.ALLOW, phrase("the tool can write, but this call only reads"))
TENTATIVE = Decision(Verdict.ALLOW, phrase("it is tried first, and asks before its changes are kept"), tentative=True)
_NO_KIND = Decision(Verdict.ALLOW, phrase("the program provided the tool and gave it no kind"))
BYPASS = Decision(Verdict.ALLOW, phrase("mode bypass allows everything that is not denied"))
_EDITS = Decision(Verdict.ALLOW, phrase("mode accept-edits lets tools write"))
PLAN = Decision(Verdict.DENY, phrase("mode plan runs only read-only tools"))
_ASK_DANGEROUS = Decision(Verdict.ASK, phrase("the tool is marked dangerous"))
_ASK_DANGEROUS_COMMAND = Decision(Verdict.ASK, phrase("the command is dangerous"))
_ASK_PERMISSION = Decision(Verdict.ASK, phrase("the tool requires permission"))
_ASK_WRITES = Decision(Verdict.ASK, phrase("the tool counts as read-only, but says that this call writes"))
_ASK_KIND = {
    Kind.READONLY: Decision(Verdict.ASK, phrase("the tool is not read-only")),
    Kind.WRITE: Decision(Verdict.ASK, phrase("a tool that writes asks first")),
    Kind.EXECUTE: Decision(Verdict.ASK, phrase("a tool that executes something asks first")),
}


class DefaultPolicy:
    """For programs that chose no policy: read-only tools run, and tools that write or execute ask.

    A command that can be tried asks once it is known what it would change, and a dangerous one asks before that. A tool
    without a kind runs, because the program itself provided it. If it is `served` to others, it counts as one that
    executes.
    """

    def __init__(self, *, served: bool = False) -> None:
        self._served = served
        self._remembered: set[tuple[str, Tool[Any], str]] = set()

    def remember(self, invocation: Invocation, session: Session) -> None:
        # The tool object itself, so that another tool of the same name asks again.
        self._remembered.add((session.id, invocation.tool, invocation.always_rule))

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        tool = invocation.tool
        if not (tool.dangerous or tool.asks_anyway):
            if tool.read_only and not tool.has_touches:
                return READ_ONLY  # the quick way for most calls
            if not (tool.kind_given or self._served):
                return _NO_KIND
        if tool.has_touches and (caution := invocation.info.caution) is not None and caution():
            return _ASK_DANGEROUS_COMMAND
        if self._remembered and (session.id, tool, rule := invocation.always_rule) in self._remembered:
            return Decision(Verdict.ALLOW, phrase("`{rule}` is always allowed in this session", rule=rule), rule)
        return by_kind(invocation, Mode.DEFAULT)


def by_kind(invocation: Invocation, mode: Mode, *, writes: bool | None = None) -> Decision:
    """The decision by a tool's kind and flags, where no rule applies. `writes`: whether the call writes, if known."""
    tool = invocation.tool
    if tool.dangerous:
        return _ASK_DANGEROUS
    if tool.asks_anyway:
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
    invocation = call.invocation
    said = None
    if call.decided is not None:
        (asked_about, decided), call.decided = call.decided, None
        said = decided if asked_about is invocation else None  # a hook may have changed the call since
    decision, stopped = decide(policy, invocation, call.session, said, call)
    call.decision, record = decision, call.record
    record.verdict, record.reason, record.rule = decision.verdict, decision.reason, decision.rule
    if stopped is not None:
        raise stopped
    return _ALLOW if decision.verdict is _ALLOW else Verdict(decision.verdict)


def decide(
    policy: Policy, invocation: Invocation, session: Session, said: Decision | None = None, call: Call | None = None
) -> tuple[Decision, StoppedError | None]:
    """What becomes of a call, and the early exit of one that must not run, for calls and for `explain` alike.

    `said` is what the policy has just said of it, if it was asked.
    """
    tool = invocation.tool
    if (stopped := _lacks_context(tool, session, call)) is not None:
        return Decision(Verdict.DENY, stopped.message), stopped
    try:
        decision = policy.decide(invocation, session) if said is None else said
        if decision.tentative or decision.tried or tool.has_touches:
            decision = _tried_or_asked(decision, invocation)
        if decision.verdict is _ALLOW or (verdict := Verdict(decision.verdict)) is _ALLOW:
            return decision, None
        if verdict is Verdict.DENY:
            return decision, denied(tool, decision)
        problem = invocation.info.refusal
    except DefinitionError as error:
        stopped = undescribed(tool.name, error)
        return Decision(Verdict.DENY, stopped.message), stopped
    if problem is None:
        return decision, None
    return decision, stopped_by(tool.name, problem, session.workspace, session.folders[1:], Stage.AUTHORISE)


def undescribed(tool: str, error: DefinitionError) -> StoppedError:
    """The early exit of a call that its tool cannot describe."""
    logger.warning("Tool %s cannot describe a call: %s", tool, error)
    return StoppedError(
        Stage.AUTHORISE,
        ErrorKind.EXECUTION,
        phrase("The tool `{name}` cannot say what this call would do, so it was not run.", name=tool),
        phrase("Use another tool; its author has to fix this one."),
        {"reason": clean_text(str(error))},
    )


def denied(tool: Tool[Any], decision: Decision) -> StoppedError:
    """The early exit of a call that the policy refuses."""
    return StoppedError(
        Stage.AUTHORISE,
        ErrorKind.PERMISSION,
        phrase("`{name}` was not run: {reason}.", name=tool.name, reason=decision.reason),
        WHAT_CONFINES
        if decision.reason == UNCONFINED
        else advice(
            "Do not try the same call again; try another approach, or ask the user.",
            "`ferrule explain` says what would allow it.",
        ),
    )


UNCONFINED = phrase("no sandbox works on this machine")
_NOTHING_CONFINES = advice(
    "Nothing would confine the command: it could read, change and send whatever the user can.",
    "Nothing would confine the command: it could read, change and send whatever you can.",
)
WHAT_CONFINES = advice(
    "Ask the user to run `ferrule doctor`, which says what the sandbox needs. Without one, a command runs only once "
    "the user has approved it.",
    "`ferrule doctor` says what the sandbox needs. Without one, a command runs only once you have approved it.",
)


def lacks_sandbox(invocation: Invocation) -> bool:
    """Whether nothing confines a command, and the user has not said that such commands may run."""
    return invocation.tool.has_touches and invocation.info.unconfined in ("ask", "refuse")


def asked_if_unconfined(decision: Decision, invocation: Invocation) -> Decision:
    """No rule, mode or "always" lets a command run that nothing confines: it asks and says so, or is refused."""
    if decision.verdict == Verdict.DENY or not lacks_sandbox(invocation):
        return decision
    if invocation.info.unconfined == "refuse":
        return Decision(Verdict.DENY, UNCONFINED)
    if decision.verdict == Verdict.ALLOW:
        return Decision(Verdict.ASK, UNCONFINED, warning=_NOTHING_CONFINES)
    if _NOTHING_CONFINES in decision.warning:
        return decision
    warning = joined(" ", [_NOTHING_CONFINES, decision.warning]) if decision.warning else _NOTHING_CONFINES
    reason = phrase("{reason}, and {more}", reason=decision.reason, more=UNCONFINED)
    return replace(decision, reason=reason, warning=warning)


def _tried_or_asked(decision: Decision, invocation: Invocation) -> Decision:
    """What a policy says of a call: one that may only be tried, and cannot be, asks, and so does one that nothing
    confines.
    """
    decision = asked_if_unconfined(decision, invocation)
    if invocation.info.tentative and invocation.tool.wants_context:
        return decision
    if decision.tentative:
        return replace(decision, verdict=Verdict.ASK, tentative=False)
    return replace(decision, tried="") if decision.tried else decision


def _lacks_context(tool: Tool[Any], session: Session, call: Call | None) -> StoppedError | None:
    """The early exit of a call whose tool is not for this caller, or needs something that the session lacks."""
    if not (tool.roles or tool.needs) and tool.deps_type is None:
        return None
    caller = session.caller
    if tool.roles and caller.role not in tool.roles:
        who = phrase("the role `{role}`", role=caller.role) if caller.role else phrase("a caller without a role")
        return StoppedError(
            Stage.AUTHORISE,
            ErrorKind.PERMISSION,
            phrase("`{name}` is not for {who}.", name=tool.name, who=who),
            phrase("It is for: {listed}.", listed=", ".join(sorted(tool.roles))),
        )
    deps: Any = session.deps if call is None else call.deps
    have = {
        "tenant": caller.tenant, "user": caller.user, "role": caller.role, "model": session.model_adapter,
        "deps": deps is not None,
    }  # fmt: skip
    needs = tool.needs if tool.deps_type is None else {*tool.needs, "deps"}
    if lacking := sorted(need for need in needs if not have[need]):
        return StoppedError(
            Stage.AUTHORISE,
            ErrorKind.PERMISSION,
            phrase("Missing {listed} in context: `{name}` needs it.", name=tool.name, listed=" and ".join(lacking)),
            phrase("The program that embeds Ferrule must pass `deps=…` with the run; another call will not help.")
            if lacking == ["deps"]
            else phrase("The program that embeds Ferrule must set it on the session; another call will not help."),
        )
    if tool.deps_type is not None and not is_a(deps, tool.deps_type):
        wanted = getattr(tool.deps_type, "__name__", str(tool.deps_type))
        return StoppedError(
            Stage.AUTHORISE,
            ErrorKind.PERMISSION,
            phrase("`{name}` works with deps of the type {wanted}, not {given}.", name=tool.name, wanted=wanted,
                   given=type(deps).__name__),
            phrase("The program that embeds Ferrule must pass `deps=…` with the run; another call will not help."),
        )  # fmt: skip
    return None
