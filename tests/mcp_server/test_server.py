"""The server in one process with the SDK's client, in both eras (O7, R8, P9, P6, T10)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from inline_snapshot import snapshot
from mcp import types
from mcp.shared.exceptions import MCPError

from ferrule import Output, ToolContext, ToolError, tool
from ferrule.core.result import Attachment
from ferrule.mcp_server.opening import INSTRUCTIONS
from ferrule.policy.decide import RulePolicy
from tests.mcp_server.serving import answering, both_eras, client_of, serving, text_of

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


class Sum(TypedDict):
    total: int


@tool(kind="readonly")
async def add_numbers(numbers: list[int]) -> Sum:
    """Add numbers."""
    return {"total": sum(numbers)}


@tool(kind="readonly")
async def say_hello(name: str) -> str:
    """Say hello."""
    return f"hello {name}"


@tool(kind="write")
async def save_note(text: str) -> str:
    """Save a note."""
    return f"saved {text}"


@tool(kind="readonly")
async def fail_kindly() -> str:
    """Fail."""
    raise ToolError("It is broken.", suggestion="Bring a spare one.")


@tool(kind="readonly")
async def show_picture() -> Output:
    """Show a picture."""
    link = Attachment("text/html", uri="https://example.org/page", name="page")
    return Output(llm_content="Here it is.", attachments=[Attachment("image/png", PNG), link])


@both_eras
async def test_a_call_gives_what_the_tool_said(era: str) -> None:
    async with client_of(serving([say_hello]), era) as client:
        result = await client.call_tool("say_hello", {"name": "you"})
    assert (text_of(result), result.is_error, result.structured_content) == ("hello you", False, None)


@both_eras
async def test_structured_content_is_the_text_as_json(era: str) -> None:
    async with client_of(serving([add_numbers]), era) as client:
        listed = (await client.list_tools()).tools[0]
        result = await client.call_tool("add_numbers", {"numbers": [1, 2]})
    assert listed.output_schema is not None
    assert result.structured_content == {"total": 3}
    assert text_of(result) == '{"total":3}'


@both_eras
async def test_pictures_and_links_are_content(era: str) -> None:
    async with client_of(serving([show_picture]), era) as client:
        result = await client.call_tool("show_picture", {})
    assert [block.type for block in result.content] == ["text", "image", "resource_link"]


@both_eras
async def test_a_failure_is_a_result_in_our_words(era: str) -> None:
    async with client_of(serving([fail_kindly]), era) as client:
        result = await client.call_tool("fail_kindly", {})
        wrong = await client.call_tool("fail_kindly", {"x": 1})
    assert result.is_error
    assert text_of(result) == snapshot("""\
Error (execution_error): It is broken.

Suggestion: Bring a spare one.\
""")
    assert wrong.is_error
    assert "`x`" in text_of(wrong)


@both_eras
async def test_an_unknown_tool_is_the_protocols_own_error_with_our_suggestion(era: str) -> None:
    async with client_of(serving([say_hello]), era) as client:
        with pytest.raises(MCPError) as failed:
            await client.call_tool("say_helo", {"name": "you"})
    assert failed.value.error.code == types.INVALID_PARAMS
    assert failed.value.error.message == snapshot("""\
Error (not_found_error): There is no tool `say_helo`.

Suggestion: Did you mean `say_hello`?\
""")


@both_eras
async def test_the_person_is_asked_through_the_client_and_says_once(era: str) -> None:
    person = answering(answer="once")
    async with client_of(serving([save_note]), era, elicitation_callback=person) as client:
        first = await client.call_tool("save_note", {"text": "a"})
        second = await client.call_tool("save_note", {"text": "b"})
    assert (text_of(first), text_of(second)) == ("saved a", "saved b")
    assert len(person.seen) == 2


@both_eras
async def test_always_holds_for_the_session_and_the_rule_is_shown(era: str) -> None:
    person = answering(answer="always")
    server = serving([save_note], RulePolicy())
    async with client_of(server, era, elicitation_callback=person) as client:
        for text in ("a", "b"):
            assert text_of(await client.call_tool("save_note", {"text": text})) == f"saved {text}"
    assert len(person.seen) == 1
    assert person.seen[0].message == snapshot("""\
a tool that writes asks first:
  save_note {"text":"a"}
"Always" would mean, in this session: save_note
  it covers: any call of save_note\
""")


@both_eras
@pytest.mark.parametrize(
    ("action", "words"),
    [("cancel", "the question was closed without an answer"), ("decline", "from a client that runs without one")],
)
async def test_a_form_that_nobody_filled_in_is_not_called_the_persons_no(era: str, action: str, words: str) -> None:
    async def away(_context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action=action)  # pyright: ignore[reportArgumentType]

    async with client_of(serving([save_note], RulePolicy()), era, elicitation_callback=away) as client:
        result = await client.call_tool("save_note", {"text": "a"})
    assert result.is_error
    assert words in text_of(result)
    assert "`ferrule mcp --allow save_note`" in text_of(result)


@both_eras
async def test_a_no_is_a_refusal_with_the_persons_reason(era: str) -> None:
    person = answering(answer="no", reason="not on a Friday")
    async with client_of(serving([save_note]), era, elicitation_callback=person) as client:
        result = await client.call_tool("save_note", {"text": "a"})
    assert result.is_error
    assert text_of(result) == snapshot("""\
Error (permission_error): `save_note` was not run: the user denied it. They said: not on a Friday

Suggestion: Do not try the same call again; try another approach, or ask the user.\
""")


@both_eras
async def test_a_client_that_cannot_ask_gets_a_refusal_that_says_what_helps(era: str) -> None:
    async with client_of(serving([save_note], RulePolicy()), era) as client:
        result = await client.call_tool("save_note", {"text": "a"})
    assert result.is_error
    assert text_of(result) == snapshot("""\
Error (permission_error): `save_note` was not run: a tool that writes asks first, and this client cannot ask the user (it has no form elicitation).

Suggestion: The user can allow it where Ferrule is started: `ferrule mcp --allow save_note`, or with the same in settings. `--mode accept-edits` lets every edit inside the workspace run.\
""")


@both_eras
async def test_cancelling_a_call_stops_the_work(era: str) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool(kind="readonly")
    async def work_long() -> str:
        """Work for long."""
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "never"

    async with client_of(serving([work_long]), era) as client:
        call = asyncio.create_task(client.call_tool("work_long", {}))
        await started.wait()
        call.cancel()
        await asyncio.wait_for(stopped.wait(), 20)
        with pytest.raises(asyncio.CancelledError):
            await call


@both_eras
async def test_progress_reaches_the_client_before_the_result(era: str) -> None:
    @tool(kind="readonly")
    async def count_up(context: ToolContext) -> str:
        """Count."""
        for done in (1, 2, 3):
            context.progress(done, 3, f"step {done}")
            await asyncio.sleep(0.03)
        return "counted"

    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with client_of(serving([count_up]), era) as client:
        await client.call_tool("count_up", {}, progress_callback=note, meta={"progress_token": "here"})
    assert seen[-1] == (3, 3, "step 3")
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})


@both_eras
async def test_two_clients_have_sessions_of_their_own_with_a_handshake_and_share_one_without(era: str) -> None:
    @tool(kind="readonly")
    async def count_calls(context: ToolContext) -> int:
        """Count the calls of this session."""
        context.state["calls"] = context.state.get("calls", 0) + 1
        return context.state["calls"]

    server = serving([count_calls])
    async with client_of(server, era) as one, client_of(server, era) as two:
        await one.call_tool("count_calls", {})
        again = await one.call_tool("count_calls", {})
        other = await two.call_tool("count_calls", {})
    assert (text_of(again), text_of(other)) == ("2", "1" if era == "handshake" else "3")


async def test_a_session_is_closed_with_its_connection() -> None:
    closed: list[Any] = []

    async def close(session: Any) -> None:
        closed.append(session.id)

    async with client_of(serving([say_hello], close=close), "handshake") as client:
        await client.call_tool("say_hello", {"name": "you"})
        assert closed == []
    assert len(closed) == 1


@both_eras
async def test_the_client_reads_instructions(era: str) -> None:
    async with client_of(serving([say_hello]), era) as client:
        if era == "stateless":
            await client.session.discover()
        assert client.instructions in (INSTRUCTIONS, None if era == "stateless" else INSTRUCTIONS)
    assert (
        snapshot(
            "Tools that run under the user's own permission rules. Paths are relative to the workspace. Read a file before you edit it. A call that needs the user's approval asks for it or is refused; the refusal says what would allow it, so tell the user instead of working around it."
        )
        == INSTRUCTIONS
    )


async def test_a_question_that_is_answered_twice_runs_the_call_once() -> None:
    server = serving([save_note])
    async with client_of(server, "stateless", elicitation_callback=answering(answer="once")) as client:
        params = types.CallToolRequestParams(name="save_note", arguments={"text": "a"})
        asked = await client.session.send_request(types.CallToolRequest(params=params), types.InputRequiredResult)
        assert asked.input_requests is not None
        yes: dict[str, Any] = dict.fromkeys(
            asked.input_requests, types.ElicitResult(action="accept", content={"answer": "once"})
        )
        again = params.model_copy(update={"input_responses": yes, "request_state": asked.request_state})
        done = await client.session.send_request(types.CallToolRequest(params=again), types.CallToolResult)
        assert text_of(done) == "saved a"
        with pytest.raises(MCPError, match="no longer waiting for an answer"):
            await client.session.send_request(types.CallToolRequest(params=again), types.CallToolResult)


async def test_an_answer_to_one_call_is_none_to_another() -> None:
    server = serving([save_note])
    async with client_of(server, "stateless", elicitation_callback=answering(answer="once")) as client:
        params = types.CallToolRequestParams(name="save_note", arguments={"text": "a"})
        asked = await client.session.send_request(types.CallToolRequest(params=params), types.InputRequiredResult)
        assert asked.input_requests is not None
        yes: dict[str, Any] = dict.fromkeys(
            asked.input_requests, types.ElicitResult(action="accept", content={"answer": "once"})
        )
        other = types.CallToolRequestParams(
            name="save_note", arguments={"text": "b"}, input_responses=yes, request_state=asked.request_state
        )
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await client.session.send_request(types.CallToolRequest(params=other), types.CallToolResult)
