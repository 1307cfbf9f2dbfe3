"""Names of servers' tools: for every provider, reversible, and nobody's else."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ferrule.dialects.dialect import is_portable
from ferrule.mcp_client.remote_tool import server_slug, split_name, tool_name

ANY = st.text(min_size=1, max_size=90)
USUAL = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)


def test_plain_names_stay() -> None:
    assert tool_name("github", "create_issue") == "mcp__github__create_issue"
    assert tool_name("my_server", "get-sum") == "mcp__my_server__get-sum"
    assert tool_name("x", "a__b") == "mcp__x__a__b"


def test_names_that_do_not_fit_keep_what_is_readable() -> None:
    assert re.fullmatch(r"mcp__my_server-[0-9a-f]{8}__files_read-[0-9a-f]{8}", tool_name("my server", "files/read"))
    assert len(tool_name("a" * 60, "b" * 200)) <= 64
    assert re.fullmatch(r"mcp__GongJu-[0-9a-f]{8}__DuQu-[0-9a-f]{8}", tool_name("工具", "读取"))
    assert re.fullmatch(r"mcp__x-[0-9a-f]{8}__x-[0-9a-f]{8}", tool_name("\u200b", "\ue000"))


def test_a_name_that_looks_made_is_made_anew() -> None:
    made = tool_name("x", "files/read")
    own = made.removeprefix("mcp__x__")
    assert tool_name("x", own) != made
    assert is_portable(tool_name("x", "tool__01234567"))


@given(ANY, ANY)
def test_every_name_goes_to_every_provider(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
    assert is_portable(name)


@given(ANY, ANY, ANY, ANY)
def test_two_tools_never_have_one_name(server: str, tool: str, other_server: str, other: str) -> None:
    if (server, tool) != (other_server, other):
        assert tool_name(server, tool) != tool_name(other_server, other)


@given(USUAL, USUAL, USUAL, USUAL)
def test_nor_do_tools_with_usual_names(server: str, tool: str, other_server: str, other: str) -> None:
    if (server, tool) != (other_server, other):
        assert tool_name(server, tool) != tool_name(other_server, other)


@given(ANY, ANY)
def test_the_server_can_be_told_from_the_tool(server: str, tool: str) -> None:
    parts = split_name(tool_name(server, tool))
    assert parts is not None
    assert parts[0] == server_slug(server)
    assert "__" not in parts[0]


def test_other_names_are_no_servers() -> None:
    assert [split_name(name) for name in ("Read", "mcp__", "mcp__x", "mcp__x__", "mcp____y")] == [None] * 5
