"""Hooks refuse, change and add; they never allow, and one that does not work refuses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import RawCall, RulePolicy, Runtime, tool
from ferrule.core.context import Session
from ferrule.core.result import ToolResult
from ferrule.core.tool import Invocation
from ferrule.pipeline.hooks import Hook, HookReply
from ferrule.pipeline.stages import CallRecord, Decision, Verdict

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


class Kept:
    def __init__(self) -> None:
        self.records: list[CallRecord] = []

    def record(self, record: CallRecord) -> None:
        self.records.append(record)


@tool(kind="readonly")
def look(path: str) -> str:
    """Look at something."""
    RAN.append(path)
    return f"saw {path}"


@tool(kind="write")
def change(path: str) -> str:
    """Change something."""
    RAN.append(path)
    return f"changed {path}"


async def ask(hook: Hook, name: str = "look", **policy: Any) -> ToolResult:
    return await Runtime([look, change], hooks=[hook], policy=RulePolicy(**policy)).run(name, {"path": "a"})


async def test_a_hook_that_says_nothing_changes_nothing():
    result = await ask(Hook("quiet", before=lambda call, session: None, after=lambda call, result, session: None))
    assert (result.llm_content, RAN) == ("saw a", ["a"])


async def test_a_hook_can_refuse_and_the_model_reads_why():
    result = await ask(Hook("guard", before=lambda call, session: HookReply(deny="not on Sundays.")))
    assert RAN == []
    assert result.llm_content == snapshot("""\
Error (permission_error): `look` was not run: the hook `guard` refused it: not on Sundays.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
""")


async def test_a_hook_can_change_the_input_and_the_record_says_what_ran():
    kept = Kept()
    hook = Hook("move", before=lambda call, session: HookReply(arguments={"path": "b"}))
    runtime = Runtime([look], hooks=[hook], recorders=[kept])
    await runtime.run("look", {"path": "a"})
    assert RAN == ["b"]
    assert json.loads(kept.records[0].arguments) == {"path": "b"}


async def test_a_changed_input_is_validated_and_authorised_anew():
    result = await ask(Hook("bad", before=lambda call, session: HookReply(arguments={"way": 1})))
    assert not result.success
    assert "changed the input to one that is not valid" in result.llm_content
    result = await ask(Hook("ok", before=lambda call, session: HookReply(arguments={"path": "b"})), "change")
    assert result.error is not None
    assert result.error.kind == "permission_error"
    assert RAN == []


class NotTheSecret:
    """A policy that looks at the input."""

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        is_secret = b"secret" in invocation.tool.params.dump(invocation.params)
        verdict = Verdict.DENY if is_secret else Verdict.ALLOW
        return Decision(verdict, "it is a secret")

    def remember(self, invocation: Invocation, session: Session) -> None:
        raise AssertionError


async def test_what_was_decided_about_a_call_does_not_count_for_what_a_hook_makes_of_it():
    """A service hands its decision on; the policy decides again about another input."""
    hook = Hook("swap", before=lambda call, session: HookReply(arguments={"path": "secret"}))
    runtime = Runtime([look], hooks=[hook], policy=NotTheSecret())
    invocation = runtime.build(RawCall("look", {"path": "a"}))
    decision = runtime.policy.decide(invocation, runtime.session)
    assert decision.verdict is Verdict.ALLOW
    result = await runtime.execute(invocation, decision=decision)
    assert result.error is not None
    assert result.error.kind == "permission_error"
    assert RAN == []


async def test_a_hook_can_add_words_before_and_after():
    hook = Hook(
        "notes",
        before=lambda call, session: HookReply(context="Mind the style guide."),
        after=lambda call, result, session: HookReply(context=f"It has {len(result.llm_content)} characters."),
    )
    result = await ask(hook)
    assert result.llm_content == "saw a\n\nMind the style guide.\n\nIt has 5 characters."
    assert result.metadata["hooks"] == ["Mind the style guide.", "It has 5 characters."]


async def test_a_hook_after_a_call_can_hold_its_result_back():
    result = await ask(Hook("leak guard", after=lambda call, result, session: HookReply(deny="it holds a secret")))
    assert RAN == ["a"]
    assert "saw a" not in result.llm_content
    assert result.llm_content == snapshot("""\
Error (permission_error): `look` ran, but the hook `leak guard` held its result back: it holds a secret.

Suggestion: Do not run it again to see the result; go on without it, or ask the user.\
""")


async def broken(call: Invocation, session: Session) -> HookReply | None:
    raise RuntimeError("no disk")


async def endless(call: Invocation, session: Session) -> HookReply | None:
    await asyncio.sleep(3600)
    return None


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (Hook("h", before=broken), "the hook `h` failed (RuntimeError: no disk)"),
        (Hook("h", before=endless, timeout=0.05), "the hook `h` gave no answer within 0.05 s"),
        (Hook("h", before=lambda call, session: "yes"), "answered with str, where `HookReply` or nothing was expected"),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_a_hook_that_does_not_work_refuses(hook: Hook, words: str):
    result = await ask(hook)
    assert RAN == []
    assert words in result.llm_content
    assert "a failing hook refuses" in result.llm_content


async def broken_after(call: Invocation, result: ToolResult, session: Session) -> HookReply | None:
    raise RuntimeError("no disk")


async def test_a_hook_after_a_call_that_does_not_work_holds_its_result_back():
    """The model must not take it for a call that can be made again."""
    result = await ask(Hook("h", after=broken_after), "change", mode="bypass")
    assert RAN == ["a"]
    assert result.llm_content == snapshot("""\
Error (permission_error): `change` ran, but the hook `h` held its result back: it failed (RuntimeError: no disk).

Suggestion: Do not run it again to see the result; go on without it, or ask the user.\
""")


async def test_no_mode_overrides_a_hook():
    result = await ask(Hook("no", before=lambda call, session: HookReply(deny="no")), "change", mode="bypass")
    assert (result.success, RAN) == (False, [])


async def test_a_hook_is_only_asked_about_its_tools():
    hook = Hook("writes", before=lambda call, session: HookReply(deny="no"), tools=("chan*",))
    assert (await ask(hook)).success
    assert not (await ask(hook, "change", mode="bypass")).success


async def test_hooks_are_asked_in_order_and_see_what_the_one_before_made():
    seen: list[str] = []

    def first(call: Invocation, session: Session) -> HookReply:
        seen.append(call.params.path)
        return HookReply(arguments={"path": "b"})

    def second(call: Invocation, session: Session) -> None:
        seen.append(call.params.path)

    await Runtime([look], hooks=[Hook("1", before=first), Hook("2", before=second)]).run("look", {"path": "a"})
    assert seen == ["a", "b"]


async def test_calls_whose_input_a_hook_may_change_keep_their_order_in_a_batch():
    order: list[str] = []

    @tool(kind="write", touches=lambda params: [])
    async def slow(path: str) -> str:
        """Take a while."""
        order.append(f"begin {path}")
        await asyncio.sleep(0.01)
        order.append(f"end {path}")
        return path

    hook = Hook("all to one", before=lambda call, session: HookReply(arguments={"path": "same"}))
    runtime = Runtime([slow], hooks=[hook], policy=RulePolicy(mode="bypass"))
    await runtime.batch([RawCall("slow", {"path": "a"}), RawCall("slow", {"path": "b"})])
    assert order == ["begin same", "end same"] * 2


async def test_a_kept_result_does_not_gather_words():
    @tool(kind="readonly", cache=60)
    def kept() -> str:
        """Say the same again."""
        return "x"

    runtime = Runtime([kept], hooks=[Hook("n", before=lambda call, session: HookReply(context="note"))])
    assert [(await runtime.run("kept", {})).llm_content for _ in range(2)] == ["x\n\nnote"] * 2


async def test_a_flood_of_words_is_cut():
    result = await ask(Hook("flood", before=lambda call, session: HookReply(context="x" * 50_000)))
    assert len(result.llm_content) < 10_100


# A hook that misbehaves is a hook that fails, and what the result and the record say of it is true.


async def after(hook: Hook) -> tuple[ToolResult, CallRecord]:
    kept = Kept()
    result = await Runtime([look], hooks=[hook], recorders=[kept]).run("look", {"path": "a"})
    return result, kept.records[0]


@pytest.mark.parametrize("reply", [{"deny": 5}, {"arguments": 5}, {"context": 5}])
async def test_a_reply_of_the_wrong_type_refuses_the_call(reply: dict[str, Any]):
    result, record = await after(Hook("h", before=lambda call, session: HookReply(**reply)))
    assert RAN == []
    assert "hook `h` failed (TypeError: HookReply: `" in result.llm_content
    assert (record.stage, record.outcome) == ("authorise", "permission_error")


@pytest.mark.parametrize("reply", [{"deny": 5}, {"context": 5}])
async def test_a_reply_of_the_wrong_type_after_a_call_says_that_it_ran(reply: dict[str, Any]):
    result, record = await after(Hook("h", after=lambda call, result, session: HookReply(**reply)))
    assert RAN == ["a"]
    assert "`look` ran, but the hook `h` held its result back" in result.llm_content
    assert (record.stage, record.outcome) == ("format", "permission_error")


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
async def test_a_hook_that_exits_or_cancels_itself_refuses_the_call(error: BaseException):
    """S1: every call leaves its record."""

    async def leaving(call: Invocation, session: Session) -> None:
        raise error

    result, record = await after(Hook("h", before=leaving))
    assert RAN == []
    assert f"the hook `h` failed ({type(error).__name__}" in result.llm_content
    assert record.outcome == "permission_error"


async def test_a_hook_that_cancels_itself_does_not_end_the_batch():
    def leaving(call: Invocation, session: Session) -> None:
        if call.params.path == "b":
            raise asyncio.CancelledError

    runtime = Runtime([look], hooks=[Hook("h", before=leaving)])
    results = await runtime.batch([RawCall("look", {"path": path}) for path in "abc"])
    assert [result.success for result in results] == [True, False, True]


async def test_a_hooks_own_time_out_is_not_taken_for_its_time_limit():
    def busy(call: Invocation, session: Session) -> None:
        raise TimeoutError("the database is busy")

    result, _ = await after(Hook("h", before=busy))
    assert "failed (TimeoutError: the database is busy)" in result.llm_content


async def test_text_of_a_hook_can_always_be_encoded():
    result, _ = await after(Hook("h", before=lambda call, session: HookReply(context="a\ud800\x1b[2Jb")))
    assert result.llm_content.encode().endswith(rb"a\u{d800}\x1b[2Jb")


async def test_a_single_name_is_not_taken_for_a_list_of_its_letters():
    """S1: a guard that matches nothing would be no guard."""
    with pytest.raises(TypeError, match=r"Write tools=\['look'\]"):
        Hook("h", before=lambda call, session: HookReply(deny="no"), tools="look")  # pyright: ignore[reportArgumentType]


async def test_repairs_of_input_that_a_hook_replaced_are_not_on_the_record():
    kept = Kept()
    hook = Hook("move", before=lambda call, session: HookReply(arguments={"path": "b"}))
    await Runtime([look], hooks=[hook], recorders=[kept]).run("look", '{"path": "a",}')
    assert kept.records[0].repairs == ()


async def test_the_reason_of_a_refusal_is_bounded_on_the_record_too():
    result, record = await after(Hook("h", before=lambda call, session: HookReply(deny="x" * 1_000_000)))
    assert result.error is not None
    assert record.error == result.error.message
    assert len(record.error or "") <= 20_000
