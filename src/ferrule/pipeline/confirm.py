"""Stage four: a person sees exactly what will run, and says once, always, or no."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.pipeline.turns import Turns

if TYPE_CHECKING:
    from ferrule.core.call import Invocation
    from ferrule.core.context import Session
    from ferrule.pipeline.authorise import Decision, Policy


class Choice(StrEnum):
    ONCE = "once"
    ALWAYS = "always"
    NO = "no"


@dataclass(slots=True, frozen=True)
class Answer:
    """What the person said; the reason of a «no» goes to the model."""

    choice: Choice
    reason: str = ""


@dataclass(slots=True, frozen=True)
class Question:
    """What the person is shown. `rule` is what «always» would remember."""

    invocation: Invocation
    reason: str
    rule: str
    warning: str | None = None

    @property
    def summary(self) -> str:
        return self.invocation.summary


class Asker(Protocol):
    """Puts a question to a person. May be async or not, and may answer with a plain word: once, always or no."""

    def __call__(self, question: Question) -> Awaitable[Answer | str] | Answer | str: ...


class Confirm:
    """Asks one question at a time, however many calls run."""

    def __init__(self, asker: Asker | None) -> None:
        self._asker = asker
        self._turns = Turns()

    async def __call__(self, invocation: Invocation, decision: Decision, policy: Policy, session: Session) -> Answer:
        tool = invocation.tool
        if self._asker is None:
            raise Stopped(
                Stage.CONFIRM,
                ErrorKind.PERMISSION,
                f"`{tool.name}` was not run: {decision.reason}, and there is nobody to ask.",
                f"The person can allow it: --allow {tool.name} on the command line, or "
                f"KindPolicy(allow=[{tool.name!r}]) in a program.",
            )
        async with self._turns.of("the person"):
            # An «always» given while this call waited its turn counts for it too.
            again = policy.decide(invocation, session)
            if again.verdict == "allow":
                return Answer(Choice.ALWAYS)
            if again.verdict == "deny":
                return Answer(Choice.NO, again.reason)
            said = self._asker(_question(invocation, decision))
            answer = _understood(tool.name, await said if isinstance(said, Awaitable) else said)
            if answer.choice is Choice.ALWAYS:
                policy.remember(invocation, session)
        return answer


def _understood(tool: str, said: object) -> Answer:
    """Whatever an asker gave, as an answer; what cannot be one is no leave to run."""
    try:
        if isinstance(said, Answer):
            return Answer(Choice(said.choice), said.reason)
        return Answer(Choice(said))  # pyright: ignore[reportArgumentType]
    except ValueError:
        raise Stopped(
            Stage.CONFIRM,
            ErrorKind.PERMISSION,
            f"`{tool}` was not run: the answer {said!r} is none.",
            "The program that embeds Ferrule must answer with Answer(Choice.ONCE), Choice.ALWAYS or Choice.NO.",
        ) from None


def refused(invocation: Invocation, answer: Answer) -> Stopped:
    """The early exit of a call that the person said no to."""
    said = f" They said: {answer.reason}" if answer.reason else ""
    return Stopped(
        Stage.CONFIRM,
        ErrorKind.PERMISSION,
        f"`{invocation.tool.name}` was not run: the person said no.{said}",
        "Do not try the same call again; go on another way, or ask the person.",
    )


def _question(invocation: Invocation, decision: Decision) -> Question:
    warning = "This tool is marked dangerous." if invocation.tool.dangerous else None
    return Question(invocation, decision.reason, invocation.abstract_rule, warning)
