"""Who may run what: rules, modes, and what a user is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.core.access import NOTHING, Mode, Touch, reads, writes
    from ferrule.core.call import Approval, Barrier, CallInfo, Effects, FileEffect
    from ferrule.core.events import Question
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.authorise import Policy
    from ferrule.pipeline.confirm import Answer, Choice, Offer
    from ferrule.pipeline.stages import Decision, Verdict
    from ferrule.policy.decide import RulePolicy
    from ferrule.policy.findings import Judgement
    from ferrule.policy.patterns import RuleError

__all__ = [
    "NOTHING",
    "Answer",
    "Approval",
    "Barrier",
    "CallInfo",
    "Choice",
    "Decision",
    "Effects",
    "FileEffect",
    "Invocation",
    "Judgement",
    "Mode",
    "Offer",
    "Policy",
    "Question",
    "RuleError",
    "RulePolicy",
    "Touch",
    "Verdict",
    "reads",
    "writes",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "core.access": ("NOTHING", "Mode", "Touch", "reads", "writes"),
        "core.call": ("CallInfo", "Approval", "Barrier", "Effects", "FileEffect"),
        "core.events": ("Question",),
        "core.tool": ("Invocation",),
        "pipeline.authorise": ("Policy",),
        "pipeline.stages": ("Decision", "Verdict"),
        "pipeline.confirm": ("Answer", "Choice", "Offer"),
        "policy.decide": ("Judgement", "RulePolicy"),
        "policy.rules": ("RuleError",),
    },
)
