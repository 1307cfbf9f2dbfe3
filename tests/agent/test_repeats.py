"""The same call with the same result again and again is a loop; one that changes something is not."""

from __future__ import annotations

from ferrule import RawCall
from ferrule.agent.calling import NOTED, Repeats, note
from ferrule.agent.limits import AgentLimits
from ferrule.core.result import ToolResult

from .room import add, keep

ENDED = AgentLimits().repeats or 0


def result(text: str, success: bool = True) -> ToolResult:
    return ToolResult("c", "t", success, text, text)


def test_only_the_same_arguments_with_the_same_result_count() -> None:
    repeats = Repeats()
    same = RawCall("add", {"a": 1, "b": 1})
    assert [repeats.count(same, result("2"), add) for _ in range(3)] == [1, 2, 3]
    assert repeats.count(same, result("3"), add) == 1
    assert repeats.count(RawCall("add", {"a": 2, "b": 1}), result("2"), add) == 1


def test_two_calls_in_turn_are_a_loop_as_well() -> None:
    repeats = Repeats()
    calls = [RawCall("add", {"a": 1, "b": 1}), RawCall("add", {"a": 2, "b": 2})]
    counts = [repeats.count(call, result("x"), add) for _ in range(ENDED) for call in calls]
    assert max(counts) == ENDED


def test_a_change_that_worked_begins_the_count_anew_and_one_that_failed_does_not() -> None:
    repeats = Repeats()
    same = RawCall("add", {"a": 1, "b": 1})
    repeats.count(same, result("2"), add)
    repeats.count(RawCall("keep", {"text": "a"}), result("no", success=False), keep)
    assert repeats.count(same, result("2"), add) == 2
    repeats.count(RawCall("keep", {"text": "a"}), result("kept"), keep)
    assert repeats.count(same, result("2"), add) == 1


def test_a_command_that_ends_with_a_code_has_run_and_begins_the_count_anew() -> None:
    """A poll that fails until a server answers is no loop, as long as something else happens in between."""
    repeats = Repeats()
    poll = RawCall("keep", {"text": "curl"})
    failed = ToolResult("c", "keep", False, "no", "no", metadata={"exit_code": 7})
    for _ in range(ENDED):
        assert repeats.count(poll, failed, keep) == 1
        assert repeats.count(RawCall("keep", {"text": "sleep"}), result("done"), keep) == 1


def test_the_note_says_what_to_do() -> None:
    assert NOTED < ENDED
    assert note(3).endswith("try another approach, or say what is blocking you.]")
