"""Bad peers: each is a clear error, within bounds, and the others go on."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.mcp_client import bounds
from tests.mcp_client.peers import plain, until, using

MEMORY = 400 << 20


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@pytest.mark.parametrize("behaviour", ["huge", "huge-id-last"])
async def test_a_result_of_100_mb_is_refused_and_the_server_stays(tmp_path: Path, behaviour: str) -> None:
    async with using(tmp_path, plain(behaviour)) as used:
        before = memory()
        result = await used.call("echo", text="x")
        assert result.llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` gave no usable result for `echo`: the answer takes 100,000,082 bytes; more than 33,554,432 are not read.

Suggestion: Ask for less at once, if the tool can; the same call would fail the same way.\
""")  # noqa: E501
        assert memory() - before < MEMORY
        assert used.servers.joined["peer"].server.offered is not None


async def test_a_result_of_ten_million_values_is_refused_before_any_is_made(tmp_path: Path) -> None:
    async with using(tmp_path, plain("bomb")) as used:
        before = memory()
        result = await used.call("echo", text="x")
        assert "the answer contains more than 500,000 values, which are not read" in result.llm_content
        assert memory() - before < MEMORY


async def test_a_message_that_never_ends_takes_no_memory_and_ends_with_its_call(tmp_path: Path) -> None:
    async with using(tmp_path, plain("endless", timeout=1.0), plain(name="other")) as used:
        before = memory()
        slow = asyncio.create_task(used.call("echo", text="x"))
        assert (await used.call("echo", "other", text="meanwhile")).success
        assert (await slow).error.kind is ErrorKind.TIMEOUT  # type: ignore[union-attr]
        assert memory() - before < MEMORY


async def test_a_message_that_is_cut_off_ends_the_call(tmp_path: Path) -> None:
    async with using(tmp_path, plain("cut")) as used:
        assert (await used.call("echo", text="x")).llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` ended while the call ran: it ended with exit code 0 in the middle of a message. Whether the call took effect is unknown.

Suggestion: Check what was done before you call it again; the next call starts the server again.\
""")  # noqa: E501


async def test_an_answer_that_is_garbage_ends_the_call(tmp_path: Path) -> None:
    async with using(tmp_path, plain("garbage-answer")) as used:
        assert (await used.call("echo", text="x")).llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` gave no usable result for `echo`: the answer is not a protocol message: '{"jsonrpc":"2.0","id":1000000000,"result":oops}'.

Suggestion: Its author has to fix this. The call may have run: check what was done before you call it again.\
""")  # noqa: E501


async def test_an_answer_that_is_cut_before_its_id_ends_the_only_call_there_is(tmp_path: Path) -> None:
    """R6: no time limit is set, so a call that waited would never end."""
    async with using(tmp_path, plain("cut-answer")) as used:
        assert (await used.call("echo", text="x")).llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` gave no usable result for `echo`: the answer is not a protocol message: '{"jsonrpc":"2.0","result":{"content":[{"type":"text","te'.

Suggestion: Its author has to fix this. The call may have run: check what was done before you call it again.\
""")  # noqa: E501


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behaviour", "sample"),
    [
        ("says-instead", "Traceback (most recent call last): ZeroDivisionError"),
        ("spreads-answers", '{ "jsonrpc": "2.0", "id": 1000000000, "result": {'),
    ],
)
async def test_what_was_written_instead_of_an_answer_is_said_when_time_is_up(
    tmp_path: Path, behaviour: str, sample: str
) -> None:
    async with using(tmp_path, plain(behaviour, timeout=2)) as used:  # in which it has certainly written it
        result = await used.call("echo", text="x")
        assert result.error is not None
        assert result.error.kind is ErrorKind.TIMEOUT
        said = "was stopped. Meanwhile the server wrote something that is not a protocol message: "
        assert f"{said}'{sample}" in result.error.message


async def test_a_server_that_mumbles_and_answers_is_heard(tmp_path: Path) -> None:
    """R6: what it writes beside its answers may hold anything, even the ids of calls."""
    async with using(tmp_path, plain("mumbles")) as used:
        assert [(await used.call("echo", text=word)).llm_content for word in ("one", "two")] == ["one", "two"]
        slow = await used.runtime.run(RawCall(used.named("slow"), {}), timeout=2)
        assert slow.error is not None
        assert "INFO handling a call" in slow.error.message
        assert (await used.call("echo", text="three")).llm_content == "three"


@pytest.mark.slow
async def test_one_that_never_starts_to_answer_is_quoted(tmp_path: Path) -> None:
    async with using(tmp_path, plain("says-usage", start_timeout=3)) as used:
        assert used.problem() == snapshot(
            "it did not answer within 3 s (its output contains something that is not a protocol message: 'Usage: server [OPTIONS]')"  # noqa: E501
        )


async def test_a_server_that_only_writes_garbage_is_given_up(tmp_path: Path) -> None:
    async with using(tmp_path, plain("garbage")) as used:
        assert used.problem() == snapshot(
            "it wrote more than 1,000 lines that are not protocol messages (its output contains something that is not a protocol message: 'Welcome to my server!')"  # noqa: E501
        )


async def test_a_greeting_is_passed_over(tmp_path: Path) -> None:
    async with using(tmp_path, plain("greets")) as used:
        assert (await used.call("echo", text="fine")).llm_content == "fine"


async def test_an_error_without_an_id_is_for_the_only_call_there_is(tmp_path: Path) -> None:
    """R6: no time limit is set, so a call that waited would never end."""
    async with using(tmp_path, plain("refuses-nobody")) as used:
        result = await used.call("echo", text="x")
        assert result.error is not None
        assert result.error.message == "The MCP server `peer` refused `echo`: I cannot read this"


async def test_answers_to_nobody_are_passed_over_and_the_call_ends_in_time(tmp_path: Path) -> None:
    async with using(tmp_path, plain("wrong-ids", timeout=0.5)) as used:
        result = await used.call("echo", text="x")
        assert result.llm_content == snapshot("""\
Error (timeout_error): `mcp__peer__echo` ran longer than its time limit of 0.5 s and was stopped.

Suggestion: Ask for less at once, or for a longer time limit.\
""")


async def test_the_first_answer_counts(tmp_path: Path) -> None:
    async with using(tmp_path, plain("twice")) as used:
        assert [(await used.call("echo", text="x")).llm_content for _ in range(3)] == ["first"] * 3


@pytest.mark.slow
async def test_a_flood_of_notifications_stops_nobody(tmp_path: Path) -> None:
    async with using(tmp_path, plain("flood"), plain(name="other")) as used:
        assert (await used.call("echo", text="x")).llm_content == "x"
        assert (await used.call("echo", "other", text="y")).llm_content == "y"


async def test_a_flood_of_complaints_is_kept_short(tmp_path: Path) -> None:
    async with using(tmp_path, plain("stderr")) as used:
        log = used.servers.joined["peer"].server.log
        await until(lambda: log.left_out > 0)
        assert (await used.call("echo", text="x")).llm_content == "x"
        assert len(log.text) <= bounds.STDERR_KEPT


async def test_10_000_tools_are_too_many(tmp_path: Path) -> None:
    async with using(tmp_path, plain("many")) as used:
        assert len(used.registry) == bounds.TOOLS
        assert used.servers.joined["peer"].problems == snapshot(["it offers more than 2,000 tools; the first are used"])


@pytest.mark.parametrize(("behaviour", "tools"), [("pages", 200), ("circle", 1)])
async def test_a_list_without_end_ends(tmp_path: Path, behaviour: str, tools: int) -> None:
    async with using(tmp_path, plain(behaviour)) as used:
        assert len(used.registry) == tools
        assert len([one for one in used.servers.joined["peer"].problems if "list of tools" in one]) == 1


async def test_absurd_schemas_are_left_out_and_the_others_work(tmp_path: Path) -> None:
    async with using(tmp_path, plain("schemas")) as used:
        assert used.servers.joined["peer"].problems == snapshot(
            [
                "the tool `huge` is left out: its schema takes 1,488,924 bytes; more than 500,000 are not read",
                "the tool `remote` is left out: its schema refers to https://example.org/schema.json, and nothing is ever fetched",  # noqa: E501
            ]
        )
        assert (await used.call("echo", text="fine")).success
        assert (await used.call("wrong", a=1)).llm_content == snapshot("""\
Error (execution_error): The tool `mcp__peer__wrong` is not defined correctly and cannot be called.

Suggestion: Use another tool; its author has to fix this one.\
""")
        deep = "{}"
        for _ in range(100):
            deep = '{"a":' + deep + "}"
        looped = await used.runtime.run(RawCall(used.named("loop"), deep))
        assert looped.llm_content.splitlines()[0] == snapshot(
            "Error (validation_error): The arguments of `mcp__peer__loop` were not accepted: they are nested 101 deep, where at most 64 is allowed."  # noqa: E501
        )


async def test_a_schema_that_is_too_deep_is_left_out(tmp_path: Path) -> None:
    async with using(tmp_path, plain("deep")) as used:
        assert used.servers.joined["peer"].problems == snapshot(
            ["the tool `deep` is left out: its schema is nested deeper than 100 levels"]
        )
        assert (await used.call("echo", text="fine")).success


async def test_a_list_that_no_parser_follows_is_an_error(tmp_path: Path) -> None:
    async with using(tmp_path, plain("abyss")) as used:
        said = "its tools could not be listed: it answered: the answer is not a protocol message: '{"
        assert used.problem().startswith(said)


async def test_a_list_that_is_none_is_an_error(tmp_path: Path) -> None:
    async with using(tmp_path, plain("odd-list")) as used:
        assert used.problem() == snapshot(
            "its tools could not be listed: it does not follow the protocol: `tools`: Input should be a valid list"
        )


async def test_definitions_that_are_none_cost_only_themselves(tmp_path: Path) -> None:
    async with using(tmp_path, plain("some-odd")) as used:
        assert (await used.call("echo", text="still here")).llm_content == "still here"
        assert used.servers.joined["peer"].problems == snapshot(
            [
                "number 1 of its tools is left out: `inputSchema`: Field required",
                "the tool `none` is left out: `inputSchema`: Input should be a valid dictionary",
                "number 3 of its tools is left out: Input should be a valid dictionary",
                "number 4 of its tools is left out: Input should be a valid dictionary",
                "the tool `untyped` is left out: `inputSchema.type`: Field required",
                "the tool `listed` is left out: `inputSchema.type`: Input should be 'object'",
            ]
        )
