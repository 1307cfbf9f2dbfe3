import pytest

from ferrule import RulePolicy, Runtime, ToolContext, ToolError, tool
from ferrule.testing import Recorded, ScriptedCaller, call


@tool(kind="readonly")
async def look(name: str) -> str:
    """Look at something."""
    if name == "locked":
        raise ToolError("It is locked.", kind="permission_error")
    return name


@tool(kind="write")
async def save(name: str) -> str:
    """Save something."""
    return name


@tool(kind="readonly")
async def twice(name: str, context: ToolContext) -> str:
    """Look twice."""
    await context.call("look", {"name": name})
    return (await context.call("look", {"name": name})).llm_content


def record(*calls: tuple[str, str]) -> Recorded:
    recorded = Recorded()
    runtime = Runtime([look, save, twice], policy=RulePolicy(deny=["save"]), recorders=[recorded])
    ScriptedCaller([call(name, {"name": argument}) for name, argument in calls]).run(runtime)
    return recorded


def test_filters_find_calls_and_follow_each_other():
    recorded = record(("look", "a"), ("look", "locked"), ("save", "a"), ("nothing", "a"))
    assert recorded.tools == ["look", "look", "save", "nothing"]
    assert recorded.of("look").succeeded.only.arguments == {"name": "a"}
    assert recorded.failed.tools == ["look", "save", "nothing"]
    assert recorded.ended_with("not_found_error").tools == ["nothing"]


def test_a_tools_own_permission_error_is_not_a_refusal():
    assert record(("look", "locked"), ("save", "a")).refused.tools == ["save"]


def test_calls_that_a_tool_made_are_found_by_the_call():
    recorded = record(("twice", "a"))
    assert recorded.made_by("call_1").tools == ["look", "look"]
    assert recorded.of("twice").only.parent_id is None


def test_only_means_one():
    with pytest.raises(AssertionError, match=r"there are 2: \['look', 'look'\]"):
        record(("look", "a"), ("look", "b")).only  # noqa: B018
