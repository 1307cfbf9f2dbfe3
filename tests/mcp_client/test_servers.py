"""Servers in use: their tools join, run through the pipeline, come and go, and end with us (O7, R5, R6, R8, P9)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from inline_snapshot import snapshot

from ferrule import Progress, RegistryEvent, RulePolicy
from ferrule.core.call import RawCall
from ferrule.pipeline.run import Runtime
from ferrule.registry.registry import Registry
from tests.mcp_client.peers import Used, alive, modern, plain, until, using


async def test_tools_of_both_eras_join_and_run(tmp_path: Path) -> None:
    async with using(tmp_path, plain(name="old"), modern(name="new")) as used:
        offered = {name: one.server.offered for name, one in used.servers.joined.items()}
        assert offered["old"] is not None
        assert offered["new"] is not None
        assert (offered["old"].protocol, offered["new"].protocol) == ("2025-11-25", "2026-07-28")
        assert (await used.call("echo", "old", text="hello")).llm_content == "hello"
        assert (await used.call("echo", "new", text="hello")).llm_content == "hello"
        assert {"mcp__old__echo", "mcp__new__echo"} <= set(used.registry.names())


async def test_results_pass_through(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        added = await used.call("add", a=1, b=2)
        assert (added.data, added.llm_content) == ({"sum": 3}, "3")
        image = await used.call("image")
        assert [one.media_type for one in image.attachments] == ["image/png"]
        assert image.llm_content == snapshot("[image/png, 70 bytes]")
        resources = await used.call("resources")
        assert [(one.media_type, one.uri) for one in resources.attachments] == snapshot(
            [("text/plain", "file:///a.txt"), ("text/plain", "note:1"), ("audio/wav", None)]
        )
        assert resources.llm_content == snapshot("""\
[note:1]
a note\
""")


async def test_failures_are_told(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        assert (await used.call("fail")).llm_content == snapshot("Error (execution_error): The disk is full.")
        assert (await used.call("refuse")).llm_content == snapshot("""\
Error (validation_error): The MCP server `peer` refused `refuse`: `a` must be even

Suggestion: Change the arguments to what the message asks for, or try another approach.\
""")
        assert (await used.call("lie")).llm_content == snapshot("""\
Error (execution_error): `mcp__peer__lie` ran, but what it returned does not fit its declared type: `sum`: expected number, got string "four".

Suggestion: This is a bug in the tool, not a problem with the arguments. It has already taken effect; calling it again would repeat it.\
""")  # noqa: E501
        assert (await used.call("promise")).llm_content == snapshot("""\
Error (execution_error): `mcp__peer__promise` ran, but what it returned does not fit its declared type: expected object, got null.

Suggestion: This is a bug in the tool, not a problem with the arguments. It has already taken effect; calling it again would repeat it.\
""")  # noqa: E501
        assert (await used.call("nonsense")).llm_content == snapshot("""\
Error (execution_error): `nonsense` of the MCP server `peer` gave a result that does not fit the protocol: content: expected an object or a list, got string "this is not a list".

Suggestion: It has already taken effect; calling it again would repeat it. Its author has to fix this.\
""")  # noqa: E501
        assert (await used.call("echo")).llm_content == snapshot("""\
Error (validation_error): The arguments of `mcp__peer__echo` have 1 problem:
- `text`: required, but missing (expected string)

Suggestion: Call `mcp__peer__echo` again with {"text": string}.\
""")


async def test_progress_is_passed_on(tmp_path: Path) -> None:
    async with using(tmp_path, plain(), modern(name="new")) as used:
        for server in ("peer", "new"):
            seen = [
                event
                async for event in used.runtime.stream(RawCall(used.named("progress", server), {}))
                if isinstance(event, Progress)
            ]
            assert [(one.done, one.total, one.message) for one in seen] == [
                (1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")
            ]  # fmt: skip


async def test_tools_come_and_go_while_in_use(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        events: list[RegistryEvent] = []
        used.registry.subscribe(events.append)
        await used.call("grow")
        await until(lambda: "mcp__peer__extra" in used.registry)
        await used.call("grow")
        await until(lambda: "mcp__peer__extra" not in used.registry)
        assert [(one.change, one.name, one.origin) for one in events] == [
            ("registered", "mcp__peer__extra", "mcp"),
            ("unregistered", "mcp__peer__extra", "mcp"),
        ]


async def test_tools_come_while_in_use_in_the_newer_era(tmp_path: Path) -> None:
    async with using(tmp_path, modern()) as used:
        await used.call("grow")
        await until(lambda: "mcp__peer__extra" in used.registry)


async def test_what_stays_the_same_stays_the_same_tool(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        before = used.registry.get("mcp__peer__add")
        await used.call("grow")
        await until(lambda: "mcp__peer__extra" in used.registry)
        assert used.registry.get("mcp__peer__add") is before


async def test_known_tools_are_there_before_the_server_is(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with using(tmp_path, plain(notes=notes)) as used:
        names = used.registry.names()
    again = Used([plain(notes=notes)], tmp_path)
    assert again.registry.names() == names
    assert notes.read_text().count("started") == 1
    assert (await again.call("echo", text="here")).llm_content == "here"
    assert notes.read_text().count("started") == 2
    await again.servers.close()


async def test_another_command_is_another_server(tmp_path: Path) -> None:
    async with using(tmp_path, plain()):
        pass
    assert Used([plain(env={"MORE": "1"})], tmp_path).registry.names() == []


async def test_a_name_that_is_taken_stays_with_its_owner(tmp_path: Path) -> None:
    from ferrule.core.function_tool import raw_tool

    used = Used([plain()], tmp_path)
    mine = raw_tool("mcp__peer__echo", {}, lambda arguments: "mine")
    used.registry.register(mine)
    await used.servers.start()
    assert used.registry.get("mcp__peer__echo") is mine
    assert used.servers.joined["peer"].problems == snapshot(
        ["the tool `echo` is left out: another tool has its name already"]
    )
    await used.servers.close()


async def test_servers_start_together_and_a_bad_one_harms_nobody(tmp_path: Path) -> None:
    async with using(
        tmp_path, plain(), plain("exit", name="bad"), plain("silent", name="mute", start_timeout=0.5)
    ) as used:
        assert (await used.call("echo", text="fine")).success
        assert used.problem("bad") == "it ended with exit code 3"
        assert used.problem("mute") == "it did not answer within 0.5 s"


async def test_one_server_is_started_for_one_tool(tmp_path: Path) -> None:
    notes, others = tmp_path / "notes", tmp_path / "others"
    used = Used([plain(notes=notes), plain(name="other", notes=others)], tmp_path)
    await used.servers.start_for("mcp__peer__echo")
    assert "mcp__peer__echo" in used.registry
    assert not others.exists()
    await used.servers.close()


async def test_nothing_is_left_of_a_server(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with using(tmp_path, plain("child", notes)) as used:
        pid = json.loads((await used.call("surroundings")).llm_content)["pid"]
        child = int(notes.read_text().split("child ")[1])
        assert alive(pid)
        assert alive(child)
    assert not alive(pid)
    assert not alive(child)


def test_the_end_of_the_loop_is_the_end_of_its_servers(tmp_path: Path) -> None:
    used = Used([plain()], tmp_path)

    async def pid() -> int:
        await used.servers.start()
        return json.loads((await used.call("surroundings")).llm_content)["pid"]

    first = asyncio.run(pid())
    assert not alive(first)
    second = asyncio.run(pid())
    assert second != first
    assert not alive(second)


async def test_disabled_tools_stay_disabled(tmp_path: Path) -> None:
    from ferrule.mcp_client.servers import Servers

    registry = Registry(disabled=["mcp__peer__echo"])
    servers = Servers([plain()], registry, folders=[tmp_path], data=tmp_path / "data")
    await servers.start()
    assert "mcp__peer__echo" not in registry.names()
    result = await Runtime(registry).run(RawCall("mcp__peer__echo", {"text": "x"}))
    assert not result.success
    await servers.close()


async def test_of_a_server_that_was_agreed_to_nothing_else_is_offered(tmp_path: Path) -> None:
    """R7, issue 18: neither a tool that changed since, nor one that came since; a plugin's server elsewhere too."""
    from ferrule.mcp_client.remote_tool import AgreedServer
    from ferrule.mcp_client.servers import Servers

    registry = Registry()
    before = Used([plain()], tmp_path)
    await before.servers.start()
    known = before.servers.joined["peer"].tools["echo"].definition
    await before.servers.close()
    for digests in ({"echo": known.digest}, {"echo": "0" * 64}, {}):
        agreed = AgreedServer("peer", digests, [], {"echo": "readonly"}, plain, tmp_path / "tokens")
        servers = Servers([], registry, folders=[tmp_path], data=tmp_path / "agreed", agreed=[agreed])
        await servers.start()
        assert registry.names() == (["mcp__peer__echo"] if digests.get("echo") == known.digest else [])
        await servers.close()
        for name in registry.names():
            registry.unregister(name)
    assert not (tmp_path / "agreed/definitions").exists()


async def test_a_server_that_is_off_is_not_there(tmp_path: Path) -> None:
    assert Used([plain(enabled=False)], tmp_path).servers.joined == {}


async def test_the_tools_of_closed_servers_are_gone_and_a_later_call_starts_nothing(tmp_path: Path) -> None:
    """R5, R8: every listener of the registry hears of it, and a tool that somebody kept does not run."""
    notes = tmp_path / "notes"
    heard: list[RegistryEvent] = []
    registry = Registry()
    registry.subscribe(heard.append)
    allowed = RulePolicy(allow=["mcp__*"])
    runtime = Runtime(registry, mcp_servers={"peer": plain(notes=notes)}, policy=allowed)
    async with runtime:
        kept = registry.get("mcp__peer__echo")
        assert kept is not None
        came, names = len(heard), registry.names()
        assert (await runtime.run(kept, {"text": "here"})).llm_content == "here"
    assert registry.names() == []
    assert [(one.change, one.name, one.origin) for one in heard[came:]] == [
        ("unregistered", name, "mcp") for name in names
    ]
    assert [one.tool for one in heard if one.name == "mcp__peer__echo"] == [kept, kept]
    missing = await runtime.run("mcp__peer__echo", {"text": "here"})
    assert missing.llm_content == snapshot("""\
Error (not_found_error): There is no tool `mcp__peer__echo`.

Suggestion: The MCP server `peer` is closed: the `async with` of its Runtime has ended.\
""")
    closed = await Runtime([kept], policy=allowed).run(kept, {"text": "here"})
    assert closed.llm_content == snapshot("""\
Error (not_found_error): The MCP server `peer` is closed. Nothing was run.

Suggestion: Use another tool.\
""")
    assert notes.read_text().count("started") == 1
    async with runtime:
        assert (await runtime.run("mcp__peer__echo", {"text": "again"})).llm_content == "again"


async def test_servers_that_were_only_stopped_start_again(tmp_path: Path) -> None:
    """A command that lists tools ends the servers that it asked; the list stays."""
    async with using(tmp_path, plain()) as used:
        await used.servers.stop()
        assert (await used.call("echo", text="here")).llm_content == "here"
