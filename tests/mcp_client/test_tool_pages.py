"""Pages of tools: what is none is left out, and the rest is as it came."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.mcp_client.bounds import TOOLS
from ferrule.mcp_client.connection import sift

GOOD = {"name": "good", "inputSchema": {"type": "object"}}
ODD = st.none() | st.text(max_size=3) | st.just({}) | st.just({"name": "x", "inputSchema": None})


@given(st.lists(st.just(GOOD) | ODD, max_size=6))
def test_every_tool_stays_and_nothing_else_does(tools: list[Any]) -> None:
    left_out: list[str] = []
    page = sift({"tools": tools, "nextCursor": "n"}, "2025-11-25", left_out.append)
    assert page == {"tools": [one for one in tools if one is GOOD], "nextCursor": "n"}
    assert len(left_out) == len(tools) - len(page["tools"])


@pytest.mark.parametrize("page", [{}, {"tools": "none"}, {"tools": None}])
def test_a_page_that_is_none_is_left_to_the_session(page: dict[str, Any]) -> None:
    assert sift(page, "2025-11-25", pytest.fail) is page


def test_no_more_are_looked_at_than_are_used() -> None:
    page = sift({"tools": [GOOD] * (TOOLS * 2)}, "2025-11-25", pytest.fail)
    assert len(page["tools"]) == TOOLS + 1
