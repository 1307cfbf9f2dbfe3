import asyncio

import pytest
from inline_snapshot import snapshot

from ferrule import Answer, Choice, Runtime, tool
from ferrule.testing import ScriptedAsker, ScriptedCaller, call


@tool(kind="write")
async def save(name: str) -> str:
    """Save something."""
    return f"saved {name}"


def play(ask: ScriptedAsker, *names: str) -> ScriptedCaller:
    caller = ScriptedCaller([call("save", {"name": name}) for name in names])
    caller.run(Runtime([save], ask=ask))
    return caller


def test_answers_are_given_in_order():
    with ScriptedAsker("once", Answer(Choice.NO, "not that one"), Choice.ALWAYS) as ask:
        caller = play(ask, "a", "b", "c", "d")
    assert [result.success for result in caller.results] == [True, False, True, True]
    assert "They said: not that one" in caller.result("call_2").llm_content
    assert [question.summary for question in ask.questions] == snapshot(
        ['save {"name":"a"}', 'save {"name":"b"}', 'save {"name":"c"}']
    )


def test_an_unexpected_question_is_refused_and_fails_the_test():
    ask = ScriptedAsker("once")
    caller = play(ask, "a", "b")
    assert not caller.result("call_2").success
    with pytest.raises(AssertionError) as failure:
        ask.check()
    assert str(failure.value) == snapshot("""\
Questions came that the script has no answer to (1 expected):
- save {"name":"b"} (a tool that writes asks first)\
""")


def test_a_question_that_never_came_fails_the_test():
    with pytest.raises(AssertionError) as failure, ScriptedAsker("once", "no", "always") as ask:
        play(ask, "a")
    assert str(failure.value) == snapshot("3 questions were expected and 1 came. Answers never used: no, always.")


def test_a_failure_under_way_is_told_of_the_wrong_question():
    with pytest.raises(AssertionError, match="mine") as failure, ScriptedAsker() as ask:
        play(ask, "a")
        raise AssertionError("mine")
    assert "Questions came" in failure.value.__notes__[0]


def test_questions_of_a_batch_come_one_at_a_time():
    async def batch(ask: ScriptedAsker) -> list[bool]:
        caller = ScriptedCaller([[call("save", {"name": str(number)}) for number in range(5)]])
        return [result.success for result in await caller.play(Runtime([save], ask=ask))]

    with ScriptedAsker("once", "no", "always") as ask:
        assert asyncio.run(batch(ask)) == [True, False, True, True, True]


def test_an_answer_that_nobody_can_give_is_refused():
    with pytest.raises(ValueError, match="maybe"):
        ScriptedAsker("maybe")
