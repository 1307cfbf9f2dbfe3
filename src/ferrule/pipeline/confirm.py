"""Stage four: the user sees exactly what will run, and answers once, always, or no."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ferrule.core.call import Approval
from ferrule.core.errors import ErrorKind, Stage, StoppedError, ToolError, out_of_resources
from ferrule.core.events import Question
from ferrule.core.phrases import advice, joined, phrase
from ferrule.core.turns import Turns
from ferrule.pipeline.authorise import WHAT_CONFINES, JudgesEffects, authorise, lacks_sandbox
from ferrule.pipeline.cleaning import stopped_by
from ferrule.pipeline.stages import Decision, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from ferrule.core.call import Effects
    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.authorise import Policy
    from ferrule.pipeline.stages import Call


logger = logging.getLogger("ferrule.pipeline")

_MANY = 500
"""Changed files from which on a policy decides about them in a thread."""
_DENIED = advice("Do not try the same call again; try another approach, or ask the user.")


class Choice(StrEnum):
    """How a user can answer: this once, always (as `Question.rule` says), or no. With `LATER` an agent's turn pauses
    until somebody has decided; where nothing can wait it is a refusal.
    """

    ONCE = "once"
    ALWAYS = "always"
    NO = "no"
    LATER = "later"


@dataclass(slots=True, frozen=True)
class Answer:
    """The user's answer; the reason for a "no" goes to the model."""

    choice: Choice
    reason: str = ""


@dataclass(slots=True, frozen=True)
class Offer:
    """What "always" would remember: a rule, a call that it covers, and a similar one that it doesn't."""

    rule: str
    covers: str = ""
    not_covers: str = ""
    rules: tuple[str, ...] = ()
    """The rules as a settings file takes them; none if it is for the session only."""
    instead: str = ""
    """What the user can do if no rule would be enough; a whole sentence."""
    exact: tuple[str, ...] = ()
    """The rules for this very call and as little else as rules can say; what a refusal suggests."""


@runtime_checkable
class Offers(Protocol):
    """A policy that says what "always" would remember. With any other policy the tool's own rule is shown."""

    def offer(self, invocation: Invocation, session: Session) -> Offer | None:
        """None if "always" is not possible."""
        ...


class Asker(Protocol):
    """Asks the user. May be async or not, and may return a plain word: once, always, no or later."""

    def __call__(self, question: Question, /) -> Awaitable[Answer | str] | Answer | str: ...


class CallKeeper(Protocol):
    """Keeps what happens to the calls of a turn that can pause and go on elsewhere."""

    def answer(self, question: Question) -> Answer | None:
        """The answer that was given to this very question meanwhile."""
        ...

    def has_answer(self, call_id: str) -> bool:
        """Whether there is an answer to a question about this call."""
        ...

    def answered(self, question: Question, answer: Answer) -> None:
        """The asker has answered; the answer still counts if the call has to wait for something else."""
        ...

    def wait_for(self, call: Call, question: Question | None) -> None:
        """The turn waits for the answer to a question, or for the result of a call that is run elsewhere."""
        ...

    def is_waiting(self, call_id: str) -> bool: ...

    def hold(self, call_id: str, why: StoppedError) -> None:
        """A call must not run yet, because one before it waits. It may ask for its approval."""
        ...

    async def begin(self, call: Call) -> None:
        """A call is about to run. Raises `StoppedError` if it must not yet, or if that cannot be kept."""
        ...

    async def begin_inside(self, call_id: str, name: str) -> None:
        """A tool that `call_id` runs is about to run `name`: then that call must not run again either."""
        ...

    def given(self, call: Call) -> tuple[bool, Any]:
        """Whether a result was given for a call that began before the pause, and that result.

        Raises `StoppedError` if the call failed, or still has no result.
        """
        ...


class Asking:
    """The asker of a runtime, which gets one question at a time."""

    def __init__(self, asker: Asker | None) -> None:
        self.asker = asker
        self._turns = Turns()

    def turn(self) -> AbstractAsyncContextManager[bool]:
        """`async with` it to ask; says whether it had to wait for other questions."""
        return self._turns.of("the user")

    async def ask(self, question: Question) -> Answer:
        said = self.asker(question) if self.asker is not None else Choice.NO
        return _understood(question.invocation.tool.name, await said if isinstance(said, Awaitable) else said)


async def confirm(
    call: Call, policy: Policy, asking: Asking, show: Callable[[Question], None], keeper: CallKeeper | None = None
) -> None:
    """Stage four: return if the call is approved, and raise `StoppedError` if not. `show` gets the question, too.

    The time that the user takes doesn't count for the call, nor for the call that made it.
    """
    if not _can_be_asked(call, asking, keeper):
        await foreseen(call.invocation, call.session)  # a call that would fail anyway says so instead
        raise _unavailable(call, policy)
    if call.decision.tried == "first":
        return
    record, began = call.record, perf_counter()
    try:
        with call.parent.asking_person() if call.parent is not None else nullcontext():
            answer = await _answer_to(call, policy, asking, show, keeper)
    finally:
        record.waited += perf_counter() - began
    record.answer = answer.choice.value
    if answer.choice is Choice.LATER:
        name, reason = call.invocation.tool.name, call.decision.reason
        said = phrase("`{name}` has not run yet: it waits for approval, because {reason}.", name=name, reason=reason)
        raise StoppedError(Stage.CONFIRM, ErrorKind.DEFERRED, said)
    if answer.choice is Choice.NO:
        raise denial(call.invocation.tool.name, answer.reason)


def denial(name: str, reason: str) -> StoppedError:
    """The early exit of a call that the user denied."""
    said = advice("`{name}` was not run: the user denied it.", "`{name}` was not run: you denied it.", name=name)
    if reason:
        said = advice(
            "`{name}` was not run: the user denied it. They said: {reason}",
            "`{name}` was not run: you denied it: {reason}",
            name=name,
            reason=reason,
        )
    return StoppedError(Stage.CONFIRM, ErrorKind.PERMISSION, said, _DENIED)


def _can_be_asked(call: Call, asking: Asking, keeper: CallKeeper | None) -> bool:
    if keeper is not None and (call.decision.deferred or keeper.has_answer(call.raw.id)):
        return True
    return asking.asker is not None and not call.decision.deferred


def _unavailable(call: Call, policy: Policy) -> StoppedError:
    said = phrase(
        "`{tool}` was not run: {reason}, and approval isn't available here.",
        tool=call.invocation.tool.name,
        reason=call.decision.reason,
    )
    what_helps = _what_helps(call.invocation, _offer(call.invocation, policy, call.session), policy)
    return StoppedError(Stage.CONFIRM, ErrorKind.PERMISSION, said, what_helps)


async def _ask(
    call: Call,
    question: Question,
    policy: Policy,
    asking: Asking,
    show: Callable[[Question], None],
    keeper: CallKeeper | None,
) -> Answer:
    """The answer that was given meanwhile, or the asker's. "Later" is kept for the turn, if it can wait."""
    answer = keeper.answer(question) if keeper is not None else None
    if answer is None:
        show(question)
        later = call.decision.deferred or asking.asker is None
        answer = Answer(Choice.LATER) if later else await asking.ask(question)
        if keeper is not None and answer.choice is not Choice.LATER:
            keeper.answered(question, answer)
    if answer.choice is Choice.LATER:
        if keeper is None:
            raise _unavailable(call, policy)
        keeper.wait_for(call, question)
    return answer


async def _answer_to(
    call: Call, policy: Policy, asking: Asking, show: Callable[[Question], None], keeper: CallKeeper | None
) -> Answer:
    invocation, session = call.invocation, call.session
    async with asking.turn() as waited:
        # An "always" meanwhile applies to this call too, and so does a change of mode.
        if waited and authorise(call, policy) is Verdict.ALLOW:
            return Answer(Choice.ALWAYS)
        decision = call.decision
        offer = _offer(invocation, policy, session)
        # A link that leads elsewhere after the answer, or other parameters, are another call than the one shown.
        shown = invocation.tool.params.dump(invocation.params), invocation.info
        question = replace(_question(invocation, decision, offer), preview=await foreseen(invocation, session))
        answer = await _ask(call, question, policy, asking, show, keeper)
        if answer.choice not in (Choice.NO, Choice.LATER) and shown != (
            invocation.tool.params.dump(invocation.params),
            invocation.described_now(),
        ):
            said = advice(
                "`{tool}` was not run: what it would do has changed since the user was shown it.",
                "`{tool}` was not run: what it would do has changed since you were shown it.",
                tool=invocation.tool.name,
            )
            what_helps = advice(
                "Make the call again, so that the user sees what it would do now.",
                "Make the call again to see what it would do now.",
            )
            raise StoppedError(Stage.CONFIRM, ErrorKind.PERMISSION, said, what_helps)
        if answer.choice is Choice.ALWAYS:
            if offer is None:
                return Answer(Choice.ONCE, answer.reason)
            policy.remember(invocation, session)
    return answer


async def confirm_effects(
    call: Call,
    effects: Effects,
    policy: Policy,
    asking: Asking,
    show: Callable[[Question], None],
    keeper: CallKeeper | None = None,
) -> Approval:
    """Decide whether the effects of a tried call may be kept: by rules and the mode, or else by the user."""
    invocation, session, record = call.invocation, call.session, call.record
    record.effects = effects.as_data()
    decision = await _judged(call, effects, policy)
    if decision.verdict != Verdict.ASK:
        return _unasked(decision)
    offer = _offer(invocation, policy, session)
    if not _can_be_asked(call, asking, keeper):
        why = phrase("{reason}, and approval isn't available here", reason=decision.reason)
        return Approval(False, why, _what_helps(invocation, offer, policy))
    with call.context.asking_person() if call.context is not None else nullcontext():
        async with asking.turn() as waited:
            if waited and (decision := await _judged(call, effects, policy)).verdict != Verdict.ASK:
                return _unasked(decision)
            left_out = f"… the changes of {effects.left_out:,} more files are not shown\n" if effects.left_out else ""
            preview = effects.diff + left_out
            question = replace(_question(invocation, decision, offer), effects=effects, preview=preview)
            try:
                answer = await _ask(call, question, policy, asking, show, keeper)
            except StoppedError as stopped:
                return Approval(False, stopped.display or phrase("the answer was not valid"), stopped.suggestion or "")
            if answer.choice is Choice.ALWAYS and offer is not None:
                policy.remember(invocation, session)
    record.answer = answer.choice.value
    if answer.choice is Choice.LATER:
        return Approval(False, phrase("it waits for approval, because {reason}", reason=decision.reason))
    if answer.choice is not Choice.NO:
        return Approval(True, answer.choice.value)
    no = advice("the user denied it", "you denied it")
    if answer.reason:
        no = advice("the user denied it. They said: {reason}", "you denied it: {reason}", reason=answer.reason)
    return Approval(False, no, _DENIED)


async def _judged(call: Call, effects: Effects, policy: Policy) -> Decision:
    """The policy's decision about the effects, noted in the record."""
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
    """The tool's preview of what the call would change. A call that would fail ends here, with the tool's message."""
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
    """An asker's reply as an answer; raises `StoppedError` for anything else, which is the program's fault."""
    try:
        if isinstance(said, Answer):
            return Answer(Choice(said.choice), said.reason)
        return Answer(Choice(said))  # pyright: ignore[reportArgumentType]
    except ValueError:
        logger.error('`ask` returned %r about `%s`. It must return "once", "always" or "no".', said, tool)  # noqa: TRY400
        raise StoppedError(
            Stage.CONFIRM,
            ErrorKind.PERMISSION,
            phrase("`{tool}` was not run: {said} is not a valid answer.", tool=tool, said=repr(said)),
            phrase("The program that embeds Ferrule must answer `once`, `always` or `no`; another call will not help."),
        ) from None


def _offer(invocation: Invocation, policy: Policy, session: Session) -> Offer | None:
    if lacks_sandbox(invocation):
        return None
    if isinstance(policy, Offers):
        return policy.offer(invocation, session)
    return Offer(invocation.always_rule)


def _question(invocation: Invocation, decision: Decision, offer: Offer | None) -> Question:
    offer = offer or Offer("")
    warning = warning_of(invocation, decision)
    return Question(
        invocation, decision.reason, offer.rule, warning, offer.covers, offer.not_covers, offer.rules, exact=offer.exact
    )


def warning_of(invocation: Invocation, decision: Decision) -> str | None:
    """What a question says besides its reason, wherever it is asked."""
    marked = phrase("This tool is marked dangerous.") if invocation.tool.dangerous else ""
    caution = invocation.info.caution
    warning = decision.warning or (caution() if caution is not None else "")
    return joined(" ", filter(None, (marked, warning))) or None


def _what_helps(invocation: Invocation, offer: Offer | None, policy: Policy) -> str:
    """How the user can allow a call although approval isn't available."""
    if lacks_sandbox(invocation):
        return WHAT_CONFINES
    if offer is not None and offer.instead:
        return offer.instead
    rules = (offer.exact or offer.rules or (offer.rule,)) if offer is not None and offer.rule else ()
    if not getattr(policy, "has_settings", False):
        if not rules:
            return phrase("No rule can pre-approve this. The program can give its Runtime an `ask` function.")
        return phrase(
            "The program can give its Runtime an `ask` function, or policy=RulePolicy(allow=[{quoted}]).",
            quoted=", ".join(map(repr, rules)),
        )
    if rules:
        return advice(
            "The user can allow it: `--allow '{rule}'` on the command line, or that rule in their settings.",
            "Allow it with `--allow '{rule}'`, or with that rule in your settings.",
            rule="' --allow '".join(rule.replace("'", "'\\''") for rule in rules),
        )
    return advice(
        "No rule can pre-approve this. Try another approach, or ask the user to run it where they can answer.",
        "No rule can pre-approve this. Run it at a terminal, where you can answer, or with `--yes`.",
    )
