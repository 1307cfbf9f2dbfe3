"""Stage four: a person sees exactly what will run, and says once, always, or no."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ferrule.core.call import Approval
from ferrule.core.errors import ErrorKind, Stage, StoppedError, ToolError, out_of_resources
from ferrule.core.phrases import joined, phrase
from ferrule.core.turns import Turns
from ferrule.pipeline.authorise import JudgesEffects, denied, settle
from ferrule.pipeline.cleaning import stopped_by
from ferrule.pipeline.stages import Decision, Verdict

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from ferrule.core.call import Effects
    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.authorise import Policy
    from ferrule.pipeline.stages import Call


logger = logging.getLogger("ferrule.pipeline")


class Choice(StrEnum):
    """How a user can answer: this once, always (as `Question.rule` says), or no."""

    ONCE = "once"
    ALWAYS = "always"
    NO = "no"


@dataclass(slots=True, frozen=True)
class Answer:
    """The user's answer; the reason for a "no" goes to the model."""

    choice: Choice
    reason: str = ""


@dataclass(slots=True, frozen=True)
class Offer:
    """What "always" would remember: a rule, one call it would cover, and a similar one that it wouldn't."""

    rule: str
    covers: str = ""
    not_covers: str = ""
    rules: tuple[str, ...] = ()
    """The same as rules that a settings file takes, one by one; none where it only holds for a session."""
    instead: str = ""
    """What the person can do where no rule would be enough; a whole sentence."""


@dataclass(slots=True, frozen=True)
class Question:
    """What the user is shown. `rule` is what "always" would remember; if it is empty, "always" means once.

    `covers` is a call that the rule would allow, and `not_covers` a similar one that would still ask. `rules` are what
    a settings file could keep of it.
    """

    invocation: Invocation
    reason: str
    rule: str
    warning: str | None = None
    covers: str = ""
    not_covers: str = ""
    rules: tuple[str, ...] = ()
    effects: Effects | None = None
    """What the call did when it was tried, and what it was kept from: a yes makes it real."""
    preview: str = ""
    """What a yes would change, as a diff or a sentence; empty where that cannot be told."""

    @property
    def summary(self) -> str:
        return self.invocation.summary


@runtime_checkable
class Offers(Protocol):
    """A policy that says what an «always» would remember; with any other policy the tool's own rule is shown."""

    def offer(self, invocation: Invocation, session: Session) -> Offer | None:
        """None where no «always» can be given."""
        ...


class Asker(Protocol):
    """Puts a question to a person. May be async or not, and may answer with a plain word: once, always or no."""

    def __call__(self, question: Question) -> Awaitable[Answer | str] | Answer | str: ...


class Asking:
    """Whoever answers questions, asked one at a time, however many calls run."""

    def __init__(self, asker: Asker | None) -> None:
        self.asker = asker
        self._turns = Turns()

    def turn(self) -> AbstractAsyncContextManager[bool]:
        """`async with` it to ask; says whether others had to be answered first."""
        return self._turns.of("the user")

    async def ask(self, question: Question) -> Answer:
        said = self.asker(question) if self.asker is not None else Choice.NO
        return _understood(question.invocation.tool.name, await said if isinstance(said, Awaitable) else said)


async def confirm(call: Call, policy: Policy, asking: Asking) -> None:
    """Stage four: return if the call is approved, and raise `StoppedError` if not.

    What the user takes to answer is not the call's time, nor that of the tool that made the call.
    """
    if asking.asker is None:
        await foreseen(call.invocation, call.session)  # what must fail anyway says so, and not that approval is missing
        raise _nobody_to_ask(call, policy)
    record, began = call.record, perf_counter()
    try:
        with call.parent.asking_person() if call.parent is not None else nullcontext():
            answer = await _answer_to(call, policy, asking)
    finally:
        record.waited += perf_counter() - began
    record.answer = answer.choice.value
    if answer.choice is Choice.NO:
        raise _refused(call.invocation, answer)


async def _answer_to(call: Call, policy: Policy, asking: Asking) -> Answer:
    invocation, session, decision = call.invocation, call.session, call.decision
    async with asking.turn() as waited:
        if waited:  # an «always» given meanwhile counts for this call too, and so does another mode
            decision = settle(call, policy.decide(invocation, session))
            if decision.verdict == Verdict.ALLOW:
                return Answer(Choice.ALWAYS)
            if decision.verdict == Verdict.DENY:
                raise denied(invocation.tool, decision)
        offer = _offer(invocation, policy, session)
        shown = invocation.tool.params.dump(invocation.params), invocation.info
        question = replace(_question(invocation, decision, offer), preview=await foreseen(invocation, session))
        answer = await asking.ask(question)
        if answer.choice is not Choice.NO and _bound(invocation) != shown:
            raise _changed(invocation.tool.name)
        if answer.choice is Choice.ALWAYS:
            if offer is None:
                return Answer(Choice.ONCE, answer.reason)
            policy.remember(invocation, session)
    return answer


async def confirm_effects(call: Call, effects: Effects, policy: Policy, asking: Asking) -> Approval:
    """Ask whether what a tried call did may be made real: rules and the mode decide, or else the user."""
    invocation, session, record = call.invocation, call.session, call.record
    record.effects = effects.as_data()
    decision = await _judged(call, effects, policy)
    if decision.verdict != Verdict.ASK:
        return _unasked(decision)
    offer = _offer(invocation, policy, session)
    if asking.asker is None:
        why = phrase("{reason}, and approval isn't available here", reason=decision.reason)
        return Approval(False, why, _what_helps(invocation, offer, policy))
    with call.context.asking_person() if call.context is not None else nullcontext():
        async with asking.turn() as waited:
            # As in `_answer_to`.
            if waited and (decision := await _judged(call, effects, policy)).verdict != Verdict.ASK:
                return _unasked(decision)
            left_out = f"… the changes of {effects.left_out:,} more files are not shown\n" if effects.left_out else ""
            question = _question(invocation, decision, offer)
            answer = await asking.ask(replace(question, effects=effects, preview=effects.diff + left_out))
            if answer.choice is Choice.ALWAYS and offer is not None:
                policy.remember(invocation, session)
    record.answer = answer.choice.value
    if answer.choice is not Choice.NO:
        return Approval(True, answer.choice.value)
    no = phrase("the user denied it. They said: {reason}", reason=answer.reason) if answer.reason else _SAID_NO
    return Approval(False, no, phrase("Do not try the same call again; try another approach, or ask the user."))


async def _judged(call: Call, effects: Effects, policy: Policy) -> Decision:
    """What rules and the mode say of the effects, on the record."""
    invocation, session, record = call.invocation, call.session, call.record
    if not isinstance(policy, JudgesEffects):
        decision = Decision(Verdict.ASK, effects.reason)
    elif len(effects.files) < _MANY:
        decision = policy.decide_effects(invocation, effects, session)
    else:  # takes long, and must not block the event loop
        decision = await asyncio.to_thread(policy.decide_effects, invocation, effects, session)
    record.verdict, record.reason, record.rule = decision.verdict, decision.reason, decision.rule
    return decision


def _unasked(decision: Decision) -> Approval:
    allowed = decision.verdict == Verdict.ALLOW
    return Approval(allowed, decision.reason, refused=allowed or not decision.tentative)


async def foreseen(invocation: Invocation, session: Session) -> str:
    """What its tool says that the call would change; one that would fail ends here, with the tool's own words."""
    tool = invocation.tool
    if not tool.has_preview:
        return ""
    try:
        return await asyncio.wait_for(tool.preview(invocation.params, session), tool.preview_seconds)
    except ToolError as error:
        raise stopped_by(tool.name, error, session.workspace, session.folders[1:], Stage.CONFIRM) from None
    except TimeoutError:
        return ""
    except Exception as error:
        logger.exception("The preview of `%s` failed", tool.name, exc_info=not out_of_resources(error))
        return ""


def _understood(tool: str, said: object) -> Answer:
    """Whatever an asker gave, as an answer; what cannot be read as one does not permit the call."""
    try:
        if isinstance(said, Answer):
            return Answer(Choice(said.choice), said.reason)
        return Answer(Choice(said))  # pyright: ignore[reportArgumentType]
    except ValueError:
        raise StoppedError(
            Stage.CONFIRM,
            ErrorKind.PERMISSION,
            phrase("`{tool}` was not run: {said} is not a valid answer.", tool=tool, said=repr(said)),
            phrase("The program that embeds Ferrule must answer with Answer(Choice.ONCE), Choice.ALWAYS or Choice.NO."),
        ) from None


def _bound(invocation: Invocation) -> tuple[object, ...]:
    """What the person's answer is about. A link that leads elsewhere by now, or other parameters, are another call."""
    return invocation.tool.params.dump(invocation.params), invocation.described_now()


def _changed(tool: str) -> StoppedError:
    return StoppedError(
        Stage.CONFIRM,
        ErrorKind.PERMISSION,
        phrase("`{tool}` was not run: what it would do has changed since the user was shown it.", tool=tool),
        phrase("Make the call again, so that the user sees what it would do now."),
    )


def _refused(invocation: Invocation, answer: Answer) -> StoppedError:
    """The early exit of a call that the person said no to."""
    name = invocation.tool.name
    return StoppedError(
        Stage.CONFIRM,
        ErrorKind.PERMISSION,
        phrase("`{name}` was not run: the user denied it. They said: {reason}", name=name, reason=answer.reason)
        if answer.reason
        else phrase("`{name}` was not run: the user denied it.", name=name),
        phrase("Do not try the same call again; try another approach, or ask the user."),
    )


def _offer(invocation: Invocation, policy: Policy, session: Session) -> Offer | None:
    if isinstance(policy, Offers):
        return policy.offer(invocation, session)
    return Offer(invocation.always_rule)


def _question(invocation: Invocation, decision: Decision, offer: Offer | None) -> Question:
    marked = [phrase("This tool is marked dangerous.")] if invocation.tool.dangerous else []
    warnings = [*marked, decision.warning] if decision.warning else marked
    offer = offer or Offer("")
    warning = joined(" ", warnings) if warnings else None
    return Question(invocation, decision.reason, offer.rule, warning, offer.covers, offer.not_covers, offer.rules)


_MANY = 500
_SAID_NO = phrase("the user denied it")


def _nobody_to_ask(call: Call, policy: Policy) -> StoppedError:
    invocation = call.invocation
    offer = policy.offer(invocation, call.session) if isinstance(policy, Offers) else None
    return StoppedError(
        Stage.CONFIRM,
        ErrorKind.PERMISSION,
        phrase(
            "`{tool}` was not run: {reason}, and approval isn't available here.",
            tool=invocation.tool.name,
            reason=call.decision.reason,
        ),
        _what_helps(invocation, offer, policy),
    )


def _what_helps(invocation: Invocation, offer: Offer | None, policy: Policy) -> str:
    """How the person can let a call run where nobody can be asked."""
    if not isinstance(policy, Offers):
        return phrase(
            "The program can give its Runtime an `ask` function, or policy=RulePolicy(allow=[{quoted}]).",
            quoted=repr(invocation.tool.name),
        )
    if offer is not None and offer.instead:
        return offer.instead
    if offer is not None and offer.rule:
        return phrase(
            "The user can allow it: `--allow '{rule}'` on the command line, or that rule in their settings.",
            rule=offer.rule,
        )
    return phrase(
        "No rule can pre-approve this. Try another approach, or ask the user to run it where they can answer."
    )
