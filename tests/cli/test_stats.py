"""`ferrule stats` (O3)."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from .terminal import Terminal

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
    assert table[0].split() == ["TOOL", "CALLS", "DONE", "FAILED", "REFUSED", "P50", "P95", "ASKED", "ANSWER", "P50"]
    assert "echo_text" not in ferrule("stats", "--since", "2999-01-01").out


def test_what_the_user_takes_to_answer_is_a_number_of_its_own(ferrule: Command) -> None:
    """O1: it does not make the tool slow."""
    command = ferrule.arguments("call", "save_note", '{"text": "x"}')
    with Terminal(command, ferrule.workspace, {**ferrule.environment, "TERM": "linux"}) as terminal:
        terminal.wait("[y/a/s/N]")
        time.sleep(1.5)
        terminal.type("y\n")
        assert terminal.ended() == 0
    (usage,) = ferrule("stats", "--json").json
    assert usage["asked"] == 1
    assert usage["wait_p50"] > 1.4 > usage["max"]
    row = ferrule("audit", "show", "1", "--json").json
    assert row["waited"] == usage["wait_p50"]
    assert row["duration"] == usage["max"]
    shown = dict(line.split(None, 1) for line in ferrule("audit", "show", "1").out.splitlines())
    assert shown["waited"].endswith(" ms")
    assert re.search(r" 1  +\d+\.\d s$", ferrule("stats").out.splitlines()[1])


def test_a_wrong_time_is_told_what_a_time_looks_like(ferrule: Command) -> None:
    done = ferrule("stats", "--since", "yesterday")
    assert done.code == 2
    assert "'yesterday' is not a time; write 2h, 3d, or 2026-01-31." in done.err
