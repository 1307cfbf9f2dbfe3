"""A policy that stands for somebody's yes, where a test is about what comes after the decision."""

from __future__ import annotations

from ferrule import Decision, Invocation, Session, Verdict


class SaysYes:
    def decide(self, invocation: Invocation, session: Session) -> Decision:
        return Decision(Verdict.ALLOW, "somebody said yes")

    def remember(self, invocation: Invocation, session: Session) -> None: ...
