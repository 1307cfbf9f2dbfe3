import asyncio

import pytest
from inline_snapshot import snapshot

from ferrule import Done, PartialOutput, Pending, RawCall, Runtime, ToolContext, ToolError, tool
from ferrule.testing import Recorded, ScriptedCaller, call


@tool(kind="readonly")
async def find(name: str) -> dict[str, str]:
    """Find a file by its name."""
    return {"path": f"/docs/{name}.txt"}


@tool(kind="readonly")
def read(path: str) -> str:
    """Read a file."""
    if "secret" in path:
        raise ToolError("That file is locked.", suggestion="Read another one.")
    return f"the words of {path}"


def test_a_turn_is_one_call_or_several_or_a_function_of_what_came_back():
    caller = ScriptedCaller(
        [
            call("find", {"name": "plan"}),
            lambda earlier: call("read", {"path": earlier.result("call_1").data["path"]}),
            [call("read", '{"path": "/a"}', id="a"), call("read", {"path": "/b"})],
        ]
    )
    caller.run(Runtime([find, read]))
    assert [result.call_id for result in caller.results] == ["call_1", "call_2", "a", "call_4"]
    assert [len(turn) for turn in caller.turns] == [1, 1, 2]
    assert caller.result("call_2").data == "the words of /docs/plan.txt"
    assert caller.expect_success() == caller.results
    assert caller.text == snapshot("""\
{"path":"/docs/plan.txt"}

the words of /docs/plan.txt

the words of /a

the words of /b\
""")


def test_the_transcript_shows_what_the_model_wrote_and_read():
    caller = ScriptedCaller([call("find", {"nmae": "plan"}), call("read", b'{"path": "secret"}'), call("find")])
    caller.run(Runtime([find, read]))
    assert caller.transcript == snapshot("""\
[call_1] find {"nmae": "plan"}
Error (validation_error): The arguments of `find` have 2 problems:
- `name`: required, but missing (expected string)
- `nmae`: unknown field. Did you mean `name`?

Suggestion: Call `find` again with {"name": string}.

[call_2] read {"path": "secret"}
Error (execution_error): That file is locked.

Suggestion: Read another one.

[call_3] find {}
Error (validation_error): The arguments of `find` have 1 problem:
- `name`: required, but missing (expected string)

Suggestion: Call `find` again with {"name": string}.\
""")


def test_failures_fail_the_test_with_their_own_words():
    caller = ScriptedCaller([call("find", {"name": "a"}), call("read", {"path": "secret"})])
    caller.run(Runtime([find, read]))
    with pytest.raises(AssertionError) as failure:
        caller.expect_success()
    assert str(failure.value) == snapshot("""\
1 of 2 calls failed.
call_2 read: Error (execution_error): That file is locked.

Suggestion: Read another one.\
""")


def test_a_result_that_is_not_there_names_those_that_are():
    caller = ScriptedCaller([call("find", {"name": "a"})])
    with pytest.raises(AssertionError, match="The calls that have one: none"):
        caller.result("call_1")
    caller.run(Runtime([find]))
    with pytest.raises(AssertionError, match=r"no result of a call `call_7`\. The calls that have one: `call_1`"):
        caller.result("call_7")


def test_events_of_tools_and_of_the_calls_they_make_are_kept():
    @tool(kind="readonly")
    async def outer(context: ToolContext) -> str:
        """Call another tool."""
        context.partial("looking")
        return (await context.call("find", {"name": "x"})).llm_content

    caller = ScriptedCaller([call("outer")])
    runtime = Runtime([find, outer])
    caller.run(runtime)
    assert [type(event) for event in caller.events] == [Pending, PartialOutput, Pending, Done, Done]
    asyncio.run(runtime.run("find", {"name": "y"}))
    assert len(caller.events) == 5  # the subscription ended with the script


def test_a_script_can_be_played_again_and_raw_calls_keep_their_ids():
    caller = ScriptedCaller([RawCall("find", {"name": "a"}, id="mine"), call("find", {"name": "b"})])
    runtime = Runtime([find])
    first = caller.run(runtime)
    assert caller.run(runtime) == first
    assert [one.call_id for one in caller.results] == ["mine", "call_2"]


def test_two_calls_with_one_id_are_refused():
    caller = ScriptedCaller([call("find", {"name": "a"}, id="call_2"), call("find", {"name": "b"})])
    with pytest.raises(ValueError, match="Two calls of the script have the id `call_2`"):
        caller.run(Runtime([find]))


def test_a_pinned_version_is_asked_for():
    recorded = Recorded()
    caller = ScriptedCaller([call("find", {"name": "a"}, version="9")])
    caller.run(Runtime([find], recorders=[recorded]))
    assert recorded.only.outcome == "not_found_error"
