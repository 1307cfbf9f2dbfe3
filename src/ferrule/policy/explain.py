"""Why a call would run, ask or be refused: what it would do, the rules about that, and what would be needed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import DefinitionError
from ferrule.core.phrases import phrase
from ferrule.pipeline.authorise import decide, lacks_sandbox
from ferrule.pipeline.stages import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation
    from ferrule.policy.decide import RulePolicy
    from ferrule.policy.findings import Finding, Judgement
    from ferrule.policy.rules import Rule


@dataclass(slots=True, frozen=True)
class Explained:
    """One thing a call would do."""

    what: str
    effect: str
    why: str
    verdict: Verdict
    because: str
    rule: str | None = None
    file: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict.value}


@dataclass(slots=True, frozen=True)
class Explanation:
    """A decision, taken apart."""

    tool: str
    verdict: Verdict
    reason: str
    rule: str | None
    file: str | None
    parts: tuple[Explained, ...]
    dangers: tuple[str, ...]
    needed: str
    """What would let it run without a question; empty when it runs."""
    box: str = ""
    """Of a command: the box that it would get, `look` or `work`; empty where it would not run at all."""
    box_why: str = ""
    """What that means for it; a whole sentence."""
    shows: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    """The paths that the box would show or hide, by what they are."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "tool": self.tool, "verdict": self.verdict.value, "reason": self.reason, "rule": self.rule,
            "file": self.file, "parts": [part.to_dict() for part in self.parts], "dangers": list(self.dangers),
            "needed": self.needed, "box": self.box or None, "box_why": self.box_why,
            "shows": {name: list(paths) for name, paths in self.shows.items()},
        }  # fmt: skip


def explain(policy: RulePolicy, invocation: Invocation, session: Session) -> Explanation:
    """The decision on a call that is not run: what the same call made now by the same caller would come to.

    Hooks, which are programs, are not asked.
    """
    judged = None
    with suppress(DefinitionError):  # which `decide` meets again, and words
        judged = policy.judge(invocation, session)
    decision, stopped = decide(policy, invocation, session, judged.decision if judged is not None else None)
    by_policy = judged is not None and decision is judged.decision and decision.verdict == Verdict.DENY
    if judged is None or (stopped is not None and not by_policy):
        message, needed = (stopped.message, stopped.suggestion) if stopped is not None else (decision.reason, "")
        return Explanation(invocation.tool.name, Verdict.DENY, message, None, None, (), (), needed or "")
    judged = replace(judged, decision=decision)
    findings = judged.findings
    if judged.request.commands and len(findings) > 1 and not (findings[0].denied or findings[0].asked):
        findings = findings[1:]  # of a tool that runs commands, the commands are what matters
    box, box_why = _box(judged, confined=not invocation.info.unconfined)
    dangers = {danger.part: danger.why for analysis in judged.request.commands for danger in analysis.dangers}
    tried = bool(judged.request.commands) and invocation.info.tentative
    allowed = decision.reason if decision.verdict is Verdict.ALLOW and not decision.tentative else ""
    return Explanation(
        tool=invocation.tool.name,
        verdict=Verdict(decision.verdict),
        reason=decision.reason,
        rule=judged.by.text if judged.by is not None else None,
        file=judged.by.source.place if judged.by is not None else None,
        parts=tuple(_explained(finding, dangers.get(finding.what, ""), allowed, tried=tried) for finding in findings),
        dangers=tuple(
            phrase("{part}: {why}", part=danger.part, why=danger.why)
            for analysis in judged.request.commands
            for danger in analysis.dangers
        ),
        needed=_needed(policy, invocation, session, judged),
        box=box,
        box_why=box_why,
    )


def _box(judged: Judgement, *, confined: bool) -> tuple[str, str]:
    """The box that a command would get, and what that means."""
    decision = judged.decision
    if not judged.request.commands or decision.verdict is Verdict.DENY:
        return "", ""
    if not confined:
        return "", phrase("Nothing confines it: it has all of your permissions, your network and your secrets.")
    if decision.tentative or decision.tried:
        return "look", phrase(
            "It is tried in the look box: no network, no secret files, and nothing it changes stays until approved."
        )
    if decision.verdict is Verdict.ASK:
        return "work", phrase(
            "Once approved it runs in the work box: it may change the workspace, except what is guarded."
        )
    return "work", phrase("It runs in the work box: it may change the workspace, except what is guarded.")


def _explained(finding: Finding, danger: str, allowed: str, *, tried: bool) -> Explained:
    rule: Rule | None
    if finding.denied is not None:
        rule, verdict, because = finding.denied, Verdict.DENY, phrase("`{text}` denies it", text=finding.denied.text)
    elif finding.asked is not None:
        rule, verdict, because = finding.asked, Verdict.ASK, phrase("`{text}` asks about it", text=finding.asked.text)
    elif allowed and not finding.leave:
        rule, verdict, because = None, Verdict.ALLOW, allowed
    elif danger and not allowed:
        rule, verdict, because = None, Verdict.ASK, phrase("it is dangerous: {why}", why=danger)
    elif finding.leave:
        rule, verdict, because = finding.rule, Verdict.ALLOW, finding.leave
    elif tried:
        rule, verdict, because = None, Verdict.ALLOW, phrase("it is tried first: {why}", why=finding.need)
    else:
        rule, verdict, because = None, Verdict.ASK, finding.need
    return Explained(
        finding.what,
        finding.effect,
        finding.why,
        verdict,
        because,
        rule.text if rule is not None else None,
        rule.source.place if rule is not None else None,
    )


def _needed(policy: RulePolicy, invocation: Invocation, session: Session, judged: Judgement) -> str:
    decision, by = judged.decision, judged.by
    if decision.verdict is Verdict.ALLOW and not decision.tentative:
        return ""
    if by is not None and by.verdict is Verdict.DENY:
        if by.source.file is None:
            return phrase("Nothing overrides it: `{text}` is a rule of {place}.", text=by.text, place=by.source.place)
        return phrase(
            "Remove `{text}` from {place}; no other rule or mode overrides a denial.",
            text=by.text,
            place=by.source.place,
        )
    if policy.mode == "plan":
        return phrase("Another mode: plan changes nothing.")
    if by is not None:
        return phrase(
            "Approval each time, or removing `{text}` from {place}; an allow rule does not override it.",
            text=by.text,
            place=by.source.place,
        )
    if lacks_sandbox(invocation):
        return phrase(
            "A sandbox: `ferrule doctor` says what it needs. Without one every command asks, unless your own settings "
            'have `shell.unconfined = "allow"`.'
        )
    offer = policy.offer(invocation, session)
    if decision.tentative:
        return phrase("To keep its changes without being asked: {rule}", rule=offer.rule) if offer else ""
    if offer is None and not judged.can_be_always:
        return phrase(
            'Approval each time. No rule can pre-approve it; `permissions.dangerous = "allow"` does, for all commands.'
        )
    return phrase("Approval, or an allow rule: {rule}", rule=offer.rule) if offer else phrase("Approval each time.")
