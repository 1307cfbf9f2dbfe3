"""`ferrule stats` (O3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Command


def test_it_counts_what_was_done_failed_and_refused(ferrule: Command) -> None:
    ferrule("call", "echo_text", '{"text": "one"}')
    ferrule("call", "echo_text", "{}")
    ferrule("call", "save_note", '{"text": "one"}')
    usages = {usage["tool"]: usage for usage in ferrule("stats", "--json").json}
    assert (usages["echo_text"]["count"], usages["echo_text"]["success"], usages["echo_text"]["failure"]) == (2, 1, 1)
    assert usages["save_note"]["denied"] == 1
    assert usages["echo_text"]["p95"] > 0
    table = ferrule("stats").out.splitlines()
    assert table[0].split() == ["TOOL", "CALLS", "DONE", "FAILED", "REFUSED", "P50", "P95"]
    assert "echo_text" not in ferrule("stats", "--since", "2999-01-01").out


def test_a_wrong_time_is_told_what_a_time_looks_like(ferrule: Command) -> None:
    done = ferrule("stats", "--since", "yesterday")
    assert done.code == 2
    assert "'yesterday' is not a time; write 2h, 3d, or 2026-01-31." in done.err
