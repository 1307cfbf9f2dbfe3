"""From what is written to a connection: values filled in, folders found, nothing sent that was not meant."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ferrule.mcp_client.server_config import ConfigProblem, ServerConfig
from tests.mcp_client.peers import plain, using

OUTSIDE = "a character outside ASCII or a blank at its ends"


async def test_a_folder_of_its_own_starts_at_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "workspace" / "sub").mkdir(parents=True)
    async with using(tmp_path, plain(folder="sub")) as used:
        told = json.loads((await used.call("surroundings")).llm_content)
        assert told["cwd"] == str((tmp_path / "workspace" / "sub").resolve())


async def test_places_in_a_command_are_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEHAVIOUR", "twice")
    config = plain()
    command = (*config.command[:3], "${BEHAVIOUR}")
    async with using(tmp_path, replace(config, command=command)) as used:
        assert (await used.call("echo", text="x")).llm_content == "first"


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with using(tmp_path, replace(plain(), command=("no-such-program", "x"))) as used:
        assert used.problem() == "there is no program `no-such-program`"


async def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ferrule.mcp_client.connection", None)
    async with using(tmp_path, plain()) as used:
        assert "pip install 'ferrule[mcp]'" in used.problem()


@pytest.mark.parametrize(
    ("header", "value", "said"),
    [
        ("X", "${KEY}", "the value for the header `X` contains a line break, which no header may"),
        ("X", "clé ${NAME}", f"the value for the header `X` contains {OUTSIDE}, which no header may"),
        ("X Y", "z", "`X Y` is not a valid header name"),
    ],
)  # fmt: skip
async def test_a_header_that_cannot_be_sent_is_named_and_its_value_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str, value: str, said: str
) -> None:
    """O7: whatever finds it wrong later would quote it, to the person's terminal and to the model."""
    monkeypatch.setenv("KEY", "hunter2hunter2\nEvil: yes")
    monkeypatch.setenv("NAME", "someone else")
    config = ServerConfig("peer", url="http://127.0.0.1:9/mcp", headers={header: value})
    async with using(tmp_path, config) as used:
        assert used.problem() == said


async def test_why_a_server_fails_never_tells_what_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "hunter2hunter2")
    config = replace(plain(), command=("no-such-program-${KEY}",))
    async with using(tmp_path, config) as used:
        assert used.problem() == "there is no program `no-such-program-[KEY]`"


ASKING = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

class Named(BaseModel):
    name: str

server = MCPServer("asking")

@server.tool()
async def book(ctx: Context) -> str:
    return str(await ctx.elicit("Who?", Named))

server.run("stdio")
"""


async def test_a_server_of_the_older_way_to_ask_is_spoken_to_in_its_revision(tmp_path: Path) -> None:
    script = tmp_path / "asking.py"
    script.write_text(ASKING)
    config = ServerConfig("peer", (sys.executable, str(script)))
    async with using(tmp_path, config) as used:
        failed = await used.call("book")
        assert "wanted to ask something for `book` and could not" in failed.llm_content
    async with using(tmp_path, replace(config, protocol="2025-11-25")) as used:
        asked = await used.call("book")
        assert "asked the user something while this ran: 'Who?'" in asked.llm_content
    with pytest.raises(ConfigProblem, match="`protocol` is `2025-11-25`, or left out"):
        replace(config, protocol="2024-11-05")
