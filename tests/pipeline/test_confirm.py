"""Stage four (P4): the person sees exactly what will run, and says once, always, or no."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from ferrule import (
    Answer,
    CallInfo,
    CallRecord,
    Choice,
    Decision,
    ErrorKind,
    Invocation,
    Question,
    RawCall,
    Registry,
    RulePolicy,
    Runtime,
    Session,
    ToolContext,
    ToolError,
    ToolResult,
    Verdict,
    tool,
)
from ferrule.pipeline.confirm import Offer

if TYPE_CHECKING:
    from collections.abc import Callable


@tool(
    kind="write",
    display_name="Edit",
    signature=lambda params: params.path,
    always_rule=lambda params: f"edit:{params.path.rpartition('/')[0]}/*",
)
async def edit(path: str) -> str:
    return f"edited {path}"


@tool(kind="execute", dangerous=True)
async def wipe() -> str:
    return "wiped"


class Person:
    """Answers questions and remembers them."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []
        self.at_once = 0

    async def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        self.at_once += 1
        assert self.at_once == 1, "two questions at one time"
        await asyncio.sleep(0.001)
        self.at_once -= 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def calls(person: Person | None, *paths: str, together: bool = False, **options: Any) -> list[ToolResult]:
    async def main() -> list[ToolResult]:
        runtime = Runtime([edit, wipe], ask=person, **options)
        if together:
            return await asyncio.gather(*(runtime.run("edit", {"path": path}) for path in paths))
        return [await runtime.run("edit", {"path": path}) for path in paths]

    return asyncio.run(main())


ONCE, ALWAYS, NO = Answer(Choice.ONCE), Answer(Choice.ALWAYS), Answer(Choice.NO)


def test_once_runs_it_once() -> None:
    person = Person(ONCE)
    assert [result.success for result in calls(person, "/a/x", "/a/x")] == [True, True]
    assert len(person.questions) == 2


def test_always_remembers_the_always_rule_that_was_shown() -> None:
    """T6: `edit:/a/*` covers its folder and no other."""
    person = Person(ALWAYS)
    assert all(result.success for result in calls(person, "/a/x", "/a/y", "/b/x"))
    assert [question.rule for question in person.questions] == ["edit:/a/*", "edit:/b/*"]


def test_no_goes_to_the_model_with_its_reason() -> None:
    (result,) = calls(Person(Answer(Choice.NO, "not on a Friday")), "/a/x")
    assert result.llm_content == snapshot(
        """\
Error (permission_error): `edit` was not run: the user denied it. They said: not on a Friday

Suggestion: Do not try the same call again; try another approach, or ask the user.\
"""
    )
    assert result.metadata == {"stage": "confirm"}


def test_the_person_sees_what_will_run_and_why_it_asks() -> None:
    person = Person(NO)
    calls(person, "/a/x")
    question = person.questions[0]
    assert (question.summary, question.reason, question.rule, question.warning) == snapshot(
        ("edit /a/x", "a tool that writes asks first", "edit:/a/*", None)
    )


def test_a_dangerous_tool_brings_an_extra_warning() -> None:
    """T2."""
    person = Person(NO)

    async def main() -> None:
        await Runtime([wipe], ask=person).run("wipe")

    asyncio.run(main())
    assert person.questions[0].warning == "This tool is marked dangerous."


def test_where_there_is_nobody_to_ask_it_is_refused() -> None:
    (result,) = calls(None, "/a/x")
    assert result.llm_content == snapshot(
        """\
Error (permission_error): `edit` was not run: a tool that writes asks first, and approval isn't available here.

Suggestion: The program can give its Runtime an `ask` function, or policy=RulePolicy(allow=['edit:/a/*']).\
"""
    )


def test_only_one_question_is_asked_at_a_time() -> None:
    person = Person(ONCE)
    assert all(result.success for result in calls(person, *(f"/{n}/x" for n in range(10)), together=True))
    assert len(person.questions) == 10


class Counting:
    """A policy that always asks, and counts how often it decided."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.decided: list[str] = []

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        self.decided.append(invocation.params.path)
        return self.decision

    def remember(self, invocation: Invocation, session: Session) -> None: ...


def test_a_call_that_asks_is_decided_once() -> None:
    """P4: the user is asked about the decision that was taken; only a call that waits its turn is decided again."""
    policy = Counting(Decision(Verdict.ASK, "it may matter"))
    runtime = Runtime([edit], policy=policy, ask=Person(ONCE))
    assert asyncio.run(runtime.run("edit", {"path": "/a/1"})).success
    assert policy.decided == ["/a/1"]


def test_a_call_that_may_only_be_tried_and_cannot_be_asks() -> None:
    """P4: a tool without a context has no way to hold its effects back, so the user decides before it runs."""
    policy = Counting(Decision(Verdict.ALLOW, "it is tried first", tentative=True))
    person = Person(NO)
    result = asyncio.run(Runtime([edit], policy=policy, ask=person).run("edit", {"path": "/a/1"}))
    assert [question.reason for question in person.questions] == ["it is tried first"]
    assert result.error is not None
    assert result.error.kind == ErrorKind.PERMISSION


def test_an_always_counts_for_those_that_wait_their_turn() -> None:
    person = Person(ALWAYS)
    assert all(result.success for result in calls(person, *(f"/a/{n}" for n in range(10)), together=True))
    assert len(person.questions) == 1


@tool(kind="execute", describe=lambda params, session: CallInfo(tentative=True))
async def command(context: ToolContext, path: str) -> str:
    """Run a command, which can be tried first."""
    return "tried" if context.tentative else "run for real"


def decided_anew(decision: Decision) -> ToolResult:
    """The second of two calls, of which each asks; the policy changes its mind while the first question stands."""
    policy = Counting(Decision(Verdict.ASK, "it may matter"))

    async def person(question: Question) -> Answer:
        await asyncio.sleep(0.01)
        policy.decision = decision
        return ONCE

    async def main() -> ToolResult:
        runtime = Runtime([command], policy=policy, ask=person)
        return (await asyncio.gather(*(runtime.run("command", {"path": path}) for path in ("/a/1", "/a/2"))))[1]

    return asyncio.run(main())


def test_what_the_policy_says_while_a_call_waits_its_turn_counts() -> None:
    """P4: a denial is the policy's and not the user's, and what may only be tried does not run for real."""
    denied = decided_anew(Decision(Verdict.DENY, "mode plan runs only read-only tools"))
    assert denied.llm_content == snapshot(
        """\
Error (permission_error): `command` was not run: mode plan runs only read-only tools.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
"""
    )
    assert decided_anew(Decision(Verdict.ALLOW, "it was allowed")).llm_content == "run for real"
    assert decided_anew(Decision(Verdict.ALLOW, "it is tried", tentative=True)).llm_content == "tried"


@pytest.mark.parametrize("answer", [RuntimeError("terminal gone"), None, "yes", Answer("perhaps")])  # type: ignore[arg-type]
def test_an_asker_that_fails_or_mumbles_lets_nothing_run_and_holds_up_nobody(answer: Any) -> None:
    person = Person(answer, ONCE)
    first, second = calls(person, "/a/x", "/b/x")
    assert not first.success
    assert second.success


@pytest.mark.parametrize(("word", "runs"), [("once", True), ("always", True), ("no", False)])
def test_a_plain_word_means_what_it_says(word: Any, runs: bool) -> None:
    (result,) = calls(Person(Answer(word)), "/a/x")
    assert result.success is runs


def test_what_the_person_said_is_on_the_record() -> None:
    records: list[CallRecord] = []

    class Keeper:
        def record(self, record: CallRecord) -> None:
            records.append(record)

    calls(Person(ONCE, NO, ALWAYS), "/a/x", "/b/x", "/c/x", recorders=[Keeper()])
    assert [(record.verdict, record.answer, record.outcome) for record in records] == [
        ("ask", "once", "success"),
        ("ask", "no", "permission_error"),
        ("ask", "always", "success"),
    ]


def cancelled_while_asking(then: Callable[[Runtime], Any]) -> Any:
    async def main() -> Any:
        asked = asyncio.Event()

        async def hangs(question: Question) -> Answer:
            if asked.is_set():
                return ONCE
            asked.set()
            await asyncio.sleep(60)
            return ONCE

        runtime = Runtime([edit], ask=hangs)
        task = asyncio.create_task(runtime.run(RawCall("edit", {"path": "/a/x"}, id="c")))
        await asyncio.wait_for(asked.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.wait_for(then(runtime), 5)

    return asyncio.run(main())


def test_a_question_nobody_answers_can_be_given_up_and_the_next_one_asked() -> None:
    assert cancelled_while_asking(lambda runtime: runtime.run("edit", {"path": "/b/x"})).success


def test_one_runtime_may_serve_one_loop_after_the_other() -> None:
    """Locks belong to a loop, and a runtime does not."""
    runtime = Runtime([edit], ask=Person(ONCE))

    async def main() -> list[ToolResult]:
        return await asyncio.gather(*(runtime.run("edit", {"path": f"/{n}/x"}) for n in range(3)))

    for _ in range(3):
        assert all(result.success for result in asyncio.run(main()))


def test_a_policy_that_allows_asks_nobody() -> None:
    person = Person(NO)
    assert calls(person, "/a/x", policy=RulePolicy(mode="accept-edits"))[0].success
    assert person.questions == []


@pytest.mark.parametrize("answer", ["once", Choice.ONCE, Answer(Choice.ONCE)])
def test_an_asker_may_be_a_plain_function_and_answer_in_a_word(answer: Any) -> None:
    """P4."""

    @tool(kind="write")
    def save() -> str:
        """Save."""
        return "saved"

    assert asyncio.run(Runtime([save], ask=lambda question: answer).run("save")).success


@pytest.mark.parametrize("answer", [True, None, "maybe", 5])
def test_an_answer_that_is_none_lets_nothing_run_and_says_what_one_is(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """P4."""

    @tool(kind="write")
    def save() -> str:
        """Save."""
        return "saved"

    result = asyncio.run(Runtime([save], ask=lambda question: answer).run("save"))
    assert result.error is not None
    assert result.error.kind == "permission_error"
    assert "must answer `once`, `always` or `no`" in (result.error.suggestion or "")
    assert f"`ask` returned {answer!r} about `save`" in caplog.text


def test_an_always_is_for_its_session_and_its_tool_alone() -> None:
    """P4, O4."""
    asked: list[str] = []

    def make(answer: str) -> Any:
        @tool(kind="write", name="wipe", always_rule=lambda params: "rule")
        def wipe() -> str:
            """Wipe."""
            return answer

        return wipe

    def ask(question: Question) -> str:
        asked.append(question.rule)
        return "always"

    async def go() -> None:
        registry = Registry([make("first")])
        runtime = Runtime(registry, ask=ask)
        here, there = Session(), Session()
        for session in (here, here, there, there):
            await runtime.run("wipe", session=session)
        assert len(asked) == 2
        registry.register(make("second"), replace=True)
        await runtime.run("wipe", session=here)
        assert len(asked) == 3

    asyncio.run(go())


class Offering:
    """A policy that says what «always» would remember."""

    def __init__(self, offer: Offer | None) -> None:
        self.given = offer
        self.remembered = 0

    def decide(self, invocation: Any, session: Session) -> Decision:
        return Decision(Verdict.ASK, "why not")

    def remember(self, invocation: Any, session: Session) -> None:
        self.remembered += 1

    def offer(self, invocation: Any, session: Session) -> Offer | None:
        return self.given


def test_a_policy_says_what_always_would_cover_and_what_not() -> None:
    """P4: the rule, one future call it covers, and one near it that it does not."""
    person, policy = Person(ALWAYS), Offering(Offer("Edit(/a/**)", "/a/y", "/b/y"))
    assert calls(person, "/a/x", policy=policy)[0].success
    question = person.questions[0]
    assert (question.rule, question.covers, question.not_covers) == ("Edit(/a/**)", "/a/y", "/b/y")
    assert policy.remembered == 1


def test_where_nothing_can_be_remembered_always_means_once() -> None:
    person, policy = Person(ALWAYS), Offering(None)
    assert calls(person, "/a/x", policy=policy)[0].success
    assert (person.questions[0].rule, policy.remembered) == ("", 0)


@pytest.mark.parametrize(
    ("offer", "said"),
    [(Offer("Edit(/a/**)"), "policy=RulePolicy(allow=['Edit(/a/**)'])"), (None, "No rule can pre-approve this")],
)
def test_with_nobody_to_ask_the_offer_is_what_would_help(offer: Offer | None, said: str) -> None:
    (result,) = calls(None, "/a/x", policy=Offering(offer))
    assert said in result.llm_content


@pytest.mark.parametrize("said", ["once", "always"])
def test_what_changed_while_the_person_was_asked_is_not_run(said: str) -> None:
    """An approval is bound to what was shown."""

    async def ask(question: Question) -> str:
        question.invocation.params.path = "/etc/passwd"
        return said

    runtime = Runtime([edit], ask=ask)
    result = asyncio.run(runtime.run("edit", {"path": "src/a.py"}))
    assert result.llm_content == snapshot("""\
Error (permission_error): `edit` was not run: what it would do has changed since the user was shown it.

Suggestion: Make the call again, so that the user sees what it would do now.\
""")


def test_a_link_that_was_turned_while_the_person_was_asked_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    link = tmp_path / "link"
    link.symlink_to("a")

    @tool(kind="write", signature=lambda params: str(Path(params.path).resolve()))
    async def touch(path: str) -> str:
        Path(path).touch()
        return "touched"

    def ask(question: Question) -> str:
        link.unlink()
        link.symlink_to("b")
        return "once"

    result = asyncio.run(Runtime([touch], ask=ask).run("touch", {"path": str(link / "x")}))
    assert not result.success
    assert not (tmp_path / "b/x").exists()


def test_nobody_is_asked_for_a_call_that_would_fail_whatever_they_say() -> None:
    def gone(params: Any, session: Session) -> CallInfo:
        problem = ToolError(f"`{params.path}` is gone.", suggestion="Name another.")
        return CallInfo(refusal=problem if params.path == "a" else None)

    @tool(kind="write", describe=gone)
    async def erase(path: str) -> str:
        return f"erased {path}"

    asked: list[str] = []

    def ask(question: Question) -> str:
        asked.append(question.invocation.params.path)
        return "once"

    runtime = Runtime([erase], ask=ask)
    failed = asyncio.run(runtime.run("erase", {"path": "a"}))
    assert failed.llm_content == "Error (execution_error): `a` is gone.\n\nSuggestion: Name another."
    assert asyncio.run(runtime.run("erase", {"path": "b"})).llm_content == "erased b"
    assert asked == ["b"]
    # It guards nothing: what is allowed is run, and has to refuse by itself.
    allowed = Runtime([erase], policy=RulePolicy(allow=["erase"]))
    assert asyncio.run(allowed.run("erase", {"path": "a"})).llm_content == "erased a"


class Kept:
    def __init__(self) -> None:
        self.records: list[CallRecord] = []

    def record(self, record: CallRecord) -> None:
        self.records.append(record)


def test_an_early_refusal_is_cleaned_and_recorded_like_one_of_the_tool_itself(tmp_path: Path) -> None:
    gone = ToolError("`/home/ada/secret/plan.txt` is gone.", kind=ErrorKind.PERMISSION, suggestion="See /etc/motd.")

    @tool(kind="write", describe=lambda params, session: CallInfo(refusal=gone))
    async def erase() -> str:
        raise gone

    kept = Kept()
    session = Session(workspace=tmp_path)
    early = asyncio.run(Runtime([erase], recorders=[kept], session=session).run("erase", {}))
    late = asyncio.run(Runtime([erase], policy=RulePolicy(allow=["erase"]), session=session).run("erase", {}))
    assert early.llm_content == late.llm_content
    assert "ada" not in early.llm_content
    said = kept.records[0]
    assert (said.verdict, said.stage, said.outcome, said.answer) == ("ask", "authorise", ErrorKind.PERMISSION, None)


def test_a_refusal_that_cannot_be_told_stops_the_call_and_nobody_is_asked() -> None:
    def broken(params: Any, session: Session) -> CallInfo:
        raise OSError("the disk is gone")

    ran: list[str] = []

    @tool(kind="write", describe=broken)
    async def erase() -> None:
        ran.append("erase")

    def ask(question: Question) -> str:
        ran.append("ask")
        return "once"

    result = asyncio.run(Runtime([erase], ask=ask).run("erase", {}))
    assert not result.success
    assert result.error is not None
    assert "the disk is gone" in result.error.details["reason"]  # type: ignore[index]
    assert ran == []
