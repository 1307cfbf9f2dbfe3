"""A server's life: lazy, shared, restarted, left alone when it keeps failing, and never in anyone's way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.mcp_client import connection, http_transport
from ferrule.mcp_client.connection import Connection
from ferrule.mcp_client.remote_tool import Definition, DefinitionStore
from ferrule.mcp_client.server_config import NotSigningIn, Ports, ServerConfig
from ferrule.process.references import Variables
from tests.mcp_client.peers import Used, alive, modern, plain, until, using
from tests.mcp_client.signing_in_peer import signing_in
from tests.mcp_client.test_http_transport import Peer, peer, words

ECHO = Definition(
    {
        "name": "echo",
        "description": "Say it again.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "annotations": {"readOnlyHint": True},
    }
)


def remembered(used_before: Path, config: ServerConfig, *more: Definition) -> None:
    """As if the server had been asked before."""
    DefinitionStore(used_before / "data" / "definitions").save(config, [ECHO, *more])


async def test_a_server_that_dies_in_a_call_is_back_for_the_next(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        assert (await used.call("die")).llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` ended while the call ran: it ended with exit code 7. It last said: 'a bug ate me'. Whether the call took effect is unknown.

Suggestion: Check what was done before you call it again; the next call starts the server again.\
""")  # noqa: E501
        assert (await used.call("echo", text="back")).llm_content == "back"


@pytest.mark.parametrize("command", [None, ("/nothing/here",)])
async def test_at_every_moment_of_its_start_it_is_starting_or_there_or_has_a_problem(
    tmp_path: Path, command: tuple[str, ...] | None
) -> None:
    """Whoever looks in between, as one does whose patience is over, is never told of a server that is nobody."""
    used = Used([plain() if command is None else ServerConfig("peer", command)], tmp_path)
    server = used.servers.joined["peer"].server
    starting = asyncio.ensure_future(used.servers.start())
    seen: list[tuple[bool, bool, bool]] = []
    try:
        while not starting.done():
            await asyncio.sleep(0)
            seen.append((server.starting, server.offered is not None, bool(server.problem)))
    finally:
        await used.servers.close()
    begun = seen[seen.index((True, False, False)) :]
    assert {(True, False, False), begun[-1]} == set(begun)
    assert begun[-1] == (False, command is None, command is not None)


async def test_a_server_that_is_killed_in_a_call_is_back_for_the_next(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with using(tmp_path, plain(notes=notes)) as used:
        pid = json.loads((await used.call("surroundings")).llm_content)["pid"]
        call = asyncio.create_task(used.call("slow"))
        await until(lambda: "slow began" in notes.read_text())
        os.kill(pid, signal.SIGKILL)
        result = await call
        assert result.llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` ended while the call ran: it was ended by signal 9. Whether the call took effect is unknown.

Suggestion: Check what was done before you call it again; the next call starts the server again.\
""")  # noqa: E501
        assert (await used.call("echo", text="back")).llm_content == "back"


async def test_an_error_with_the_code_of_a_closed_connection_is_no_end(tmp_path: Path) -> None:
    """-32000 is what many servers answer for whatever goes wrong."""
    async with using(tmp_path, plain()) as used:
        before = used.servers.joined["peer"].server.offered
        result = await used.call("refuse", code=-32000)
        assert result.error is not None
        assert result.error.message == "The MCP server `peer` refused `refuse`: `a` must be even"
        assert used.servers.joined["peer"].server.offered == before


async def test_many_calls_start_it_once(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    config = plain(notes=notes)
    remembered(tmp_path, config)
    used = Used([config], tmp_path)
    results = await asyncio.gather(*(used.call("echo", text=str(at)) for at in range(20)))
    assert [result.llm_content for result in results] == [str(at) for at in range(20)]
    assert notes.read_text().count("started") == 1
    await used.servers.close()


async def test_calls_from_several_loops_share_one_connection(tmp_path: Path) -> None:
    """The server belongs to the loop that started it; whoever calls it from another is served there."""
    notes = tmp_path / "notes"
    async with using(tmp_path, plain(notes=notes)) as used:
        call = RawCall(used.named("echo"), {"text": "from a thread"})
        threads = [asyncio.to_thread(used.runtime.run_sync, call) for _ in range(5)]
        own = [used.call("echo", text="from here") for _ in range(5)]
        results = await asyncio.gather(*threads, *own)
        assert [one.llm_content for one in results] == ["from a thread"] * 5 + ["from here"] * 5
    assert notes.read_text().count("started") == 1


async def test_a_loop_that_waits_for_the_call_itself_is_not_waited_for(tmp_path: Path) -> None:
    """In a notebook: `run_sync` blocks the very loop that the server's answer would arrive on."""
    async with using(tmp_path, plain()) as used:
        result = used.runtime.run_sync(RawCall(used.named("echo"), {"text": "x"}))
    assert result.error is not None
    assert "This needs the event loop that `run_sync` blocks while it waits." in result.error.message


async def test_one_that_does_not_start_says_why_and_is_left_alone_for_longer_each_time(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    config = plain("exit", notes)
    remembered(tmp_path, config)
    used = Used([config], tmp_path)
    first = await used.call("echo", text="x")
    assert first.llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` cannot be used: it ended with exit code 3. It last said: 'no configuration'.

Suggestion: The next call tries again. The user can see more with `ferrule mcp test peer`.\
""")  # noqa: E501
    await used.call("echo", text="x")
    assert notes.read_text().count("started") == 2
    third = await used.call("echo", text="x")
    assert third.error is not None
    assert third.error.suggestion == snapshot(
        "It is tried again in 1 s. The user can see more with `ferrule mcp test peer`."
    )
    assert notes.read_text().count("started") == 2
    await used.servers.close()


async def test_a_variable_that_is_missing_is_named(tmp_path: Path) -> None:
    async with using(tmp_path, plain(env={"TOKEN": "${NO_SUCH_VARIABLE}"})) as used:
        assert used.problem() == "the variable `NO_SUCH_VARIABLE` is not set"


async def test_giving_up_on_a_call_tells_the_server(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with using(tmp_path, plain(notes=notes)) as used:
        call = asyncio.create_task(used.call("slow"))
        await until(lambda: "slow began" in notes.read_text())
        call.cancel()
        await asyncio.wait({call})
        await until(lambda: "cancelled" in notes.read_text())
        assert (await used.call("echo", text="still here")).success
        assert notes.read_text().count("started") == 1


async def test_a_time_limit_ends_a_call_in_the_newer_era_too(tmp_path: Path) -> None:
    async with using(tmp_path, modern(timeout=0.5)) as used:
        result = await used.call("slow")
        assert result.error is not None
        assert result.error.kind is ErrorKind.TIMEOUT
        assert (await used.call("echo", text="still here")).success


async def test_one_that_hangs_is_found_out_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule.mcp_client import bounds

    monkeypatch.setattr(bounds, "PING_SECONDS", 0.2)
    notes = tmp_path / "notes"
    async with using(tmp_path, plain("hang", notes, timeout=0.3)) as used:
        pid = int(notes.read_text().split()[1])
        result = await used.call("echo", text="x")
        assert result.error is not None
        assert result.error.kind is ErrorKind.TIMEOUT
        await until(lambda: not alive(pid))
        await used.call("echo", text="x")
        await until(lambda: notes.read_text().count("started") == 2)


async def test_its_surroundings_are_clean_and_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2hunter2")
    monkeypatch.setenv("SOME_API_KEY", "do-not-pass-on")
    async with using(tmp_path, plain(env={"TOKEN": "${MY_SECRET}", "PLAIN": "${NOT_SET:-fallback}"})) as used:
        told = json.loads((await used.call("surroundings")).llm_content)
        assert told["env"]["TOKEN"] == "hunter2hunter2"
        assert told["env"]["PLAIN"] == "fallback"
        assert "SOME_API_KEY" not in told["env"]
        assert "MY_SECRET" not in told["env"]
        assert told["cwd"] == str((tmp_path / "workspace").resolve())


async def test_a_tool_that_changed_since_it_was_known_is_not_run_on_the_old_leave(tmp_path: Path) -> None:
    config = plain()
    old = {"name": "add", "description": "Harmless.", "inputSchema": {"type": "object"}}
    gone = {"name": "gone", "inputSchema": {"type": "object"}}
    remembered(tmp_path, config, Definition(old), Definition(gone))
    used = Used([config], tmp_path)
    went = used.named("gone")
    changed, vanished = await asyncio.gather(
        used.call("add", a=1, b=2), used.runtime.run(RawCall(went, {})), return_exceptions=False
    )
    assert changed.llm_content == snapshot("""\
Error (permission_error): `add` of the MCP server `peer` has changed since this call was allowed. Nothing was run.

Suggestion: Read the tool's current description and parameters, and call it again.\
""")
    assert vanished.llm_content == snapshot("""\
Error (not_found_error): The MCP server `peer` no longer offers `gone`. Nothing was run.

Suggestion: Use another tool; its list of tools was refreshed.\
""")
    assert (await used.call("add", a=1, b=2)).llm_content == "3"
    await used.servers.close()


async def test_a_sign_in_that_nobody_waits_for_any_more_is_given_up(tmp_path: Path) -> None:
    """And the next call begins a new one."""
    shown: list[str] = []
    began, ended = asyncio.Event(), asyncio.Event()

    async def show(name: str, url: str) -> None:
        shown.append(name)
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    with signing_in() as url:
        guarded = ServerConfig("peer", url=url)
        remembered(tmp_path, guarded)
        used = Used([guarded], tmp_path, ports=Ports(show_url=show))
        for times in (1, 2):
            call = asyncio.create_task(used.call("echo", text="x"))
            await began.wait()
            began.clear()
            call.cancel()
            await ended.wait()
            ended.clear()
            assert len(shown) == times
        await used.servers.close()


async def test_signing_in_takes_the_persons_time_and_not_the_calls(tmp_path: Path) -> None:
    async def show(name: str, url: str) -> None:
        await asyncio.sleep(1.2)
        raise NotSigningIn("you did not sign in")

    with signing_in() as url:
        guarded = ServerConfig("peer", url=url, timeout=1.0)
        remembered(tmp_path, guarded)
        used = Used([guarded], tmp_path, ports=Ports(show_url=show))
        result = await used.call("echo", text="x")
        await used.servers.close()
    assert "cannot be used: you did not sign in." in result.llm_content


@pytest.mark.slow
async def test_what_changes_while_it_is_listed_is_listed_again(tmp_path: Path) -> None:
    """Both while it starts and while it is listed anew: a word that comes in between is not lost."""
    async with using(tmp_path, plain("grows-meanwhile")) as used:
        await until(lambda: list(used.servers.joined["peer"].tools) == ["tool_3"])


@pytest.mark.slow
async def test_a_server_that_never_takes_our_greeting_costs_no_more_than_the_time_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: neither taking back what it was asked nor saying goodbye to it holds up whoever waits."""
    for module, name in ((connection, "_SECONDS_TO_CLOSE"), (http_transport, "_SECONDS_TO_SAY_GOODBYE")):
        monkeypatch.setattr(module, name, 1000.0)
    with deaf() as (config, hears):
        used = Used([config], tmp_path)
        starting = asyncio.create_task(used.servers.start())
        await asyncio.wait({starting}, timeout=60)
        assert starting.done()
        assert used.problem() == "it did not list its tools within 2 s"
        hears.set()
        await used.servers.close()


@contextmanager
def deaf() -> Generator[tuple[ServerConfig, threading.Event]]:
    """A server with a session that answers what it is asked, and leaves everything else without an answer."""
    hears = threading.Event()

    class Deaf(Peer):
        def do_POST(self) -> None:
            if not hears.is_set() and self.headers.get("mcp-session-id"):
                hears.wait()
            super().do_POST()

        def send_body(self, body: bytes, kind: str = "application/json", **headers: str) -> None:
            super().send_body(body, kind, mcp_session_id="s", **headers)

        def do_DELETE(self) -> None:
            hears.wait()
            self.send_error(405)

    with peer(words("x"), Deaf) as (config, _):
        yield replace(config, start_timeout=2.0), hears


async def test_what_is_spent_on_the_keyring_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    open_within = Connection.open

    async def ask(self: Variables, texts: object, seconds: float) -> None:
        given.append(seconds)
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 29)

    async def note(self: Connection, seconds: float, whole: float | None = None) -> None:
        given.append(seconds)
        await open_within(self, seconds, whole)

    monkeypatch.setattr(Variables, "ask_keyring", ask)
    monkeypatch.setattr(Connection, "open", note)
    async with using(tmp_path, plain("silent")) as used:
        assert used.problem() == "it did not answer within 30 s"  # which is what somebody chose, and not what was left
    assert [one <= most for one, most in zip(given, (30, 1), strict=True)] == [True, True]
    assert given[0] > 1


async def test_the_time_to_start_is_also_the_time_to_list(tmp_path: Path) -> None:
    async with using(tmp_path, plain("lists-nothing", start_timeout=3.0)) as used:
        assert used.problem() == "it did not list its tools within 3 s"
