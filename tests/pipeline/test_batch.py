"""P5, P8: many calls at once give what running them one by one would have given."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule import (
    CallRecord,
    RawCall,
    Registry,
    RulePolicy,
    Runtime,
    Session,
    ToolContext,
    ToolError,
    ToolResult,
    Touch,
    reads,
    tool,
    writes,
)
from tests.collisions import collide

if TYPE_CHECKING:
    from collections.abc import Sequence


# A world of resources that calls read and write; running calls in another order would show.


class World:
    """What calls read and write, and who ran when."""

    def __init__(self) -> None:
        self.state: dict[str, int] = {"/a": 1, "/a/b": 2, "/a/b/c": 3, "/d": 4, "host:x": 5}
        self.running: dict[int, tuple[Touch, ...]] = {}
        self.overlapped: list[tuple[tuple[Touch, ...], tuple[Touch, ...]]] = []

    def under(self, resource: str) -> list[str]:
        if resource == "*":
            return sorted(self.state)
        name = resource.removeprefix("path:")
        return sorted(key for key in self.state if key == name or key.startswith(name + "/"))

    def runtime(self) -> Runtime:
        async def step(number: int, touched: list[list[Any]], turns: int, fail: bool, extra: int = 0) -> int:
            touches = touches_of(touched)
            self.overlapped += [(touches, other) for other in self.running.values()]
            self.running[number] = touches
            try:
                seen = sum(self.state[key] for touch in touches for key in self.under(touch.resource))
                for _ in range(turns):
                    await asyncio.sleep(0)
                for touch in touches:
                    if touch.write:
                        for key in self.under(touch.resource):
                            self.state[key] = (self.state[key] * 31 + number + seen + extra) % 1_000_003
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                del self.running[number]
            if fail:
                raise ToolError(f"call {number} failed after seeing {seen}")
            return seen + extra

        both = [
            tool(step, name=name, kind=kind, touches=lambda params: touches_of(params.touched))  # pyright: ignore[reportArgumentType]
            for name, kind in (("look", "readonly"), ("change", "write"))
        ]
        return Runtime(both, policy=RulePolicy(mode="bypass"))


def touches_of(touched: list[list[Any]]) -> tuple[Touch, ...]:
    return tuple(Touch(resource, write) for resource, write in touched)


RESOURCES = ["*", "path:/a", "path:/a/b", "path:/a/b/c", "path:/d", "host:x"]
steps = st.fixed_dictionaries(
    {
        "touched": st.lists(st.tuples(st.sampled_from(RESOURCES), st.booleans()).map(list), max_size=2),
        "turns": st.integers(0, 4),
        "fail": st.booleans(),
        "ref": st.one_of(st.none(), st.integers(0, 7)),
    }
)


def arguments(number: int, step: dict[str, Any], extra: Any) -> dict[str, Any]:
    given = {key: step[key] for key in ("touched", "turns", "fail")}
    return {"number": number, **given, **({} if extra is None else {"extra": extra})}


def name_of(step: dict[str, Any]) -> str:
    return "change" if any(write for _, write in step["touched"]) else "look"


async def one_by_one(plan: list[dict[str, Any]]) -> tuple[dict[str, int], list[tuple[bool, Any]]]:
    world = World()
    runtime = world.runtime()
    results: list[tuple[bool, Any]] = []
    for number, step in enumerate(plan):
        extra = None
        if (ref := step["ref"]) is not None and ref < number:
            succeeded, extra = results[ref]
            if not succeeded:
                results.append((False, "used a failed result"))
                continue
        result = await runtime.run(name_of(step), arguments(number, step, extra))
        results.append((result.success, result.data if result.success else result.llm_content))
    return world.state, results


async def all_together(
    plan: list[dict[str, Any]], concurrency: int | None
) -> tuple[dict[str, int], list[tuple[bool, Any]], World]:
    world = World()
    calls = [
        RawCall(
            name_of(step),
            arguments(
                number, step, {"$ref": f"c{step['ref']}"} if step["ref"] is not None and step["ref"] < number else None
            ),
            id=f"c{number}",
        )
        for number, step in enumerate(plan)
    ]
    results = await world.runtime().batch(calls, concurrency=concurrency)
    assert [result.call_id for result in results] == [call.id for call in calls]
    plain = [
        (
            result.success,
            result.data
            if result.success
            else "used a failed result"
            if "uses the result of" in result.llm_content
            else result.llm_content,
        )
        for result in results
    ]
    return world.state, plain, world


@settings(max_examples=150)
@given(plan=st.lists(steps, max_size=8), concurrency=st.sampled_from([None, 1, 2]))
def test_a_batch_gives_what_running_it_one_by_one_gives(plan: list[dict[str, Any]], concurrency: int | None) -> None:
    """P5: for any touches, failures, durations and references, at any concurrency."""
    expected_state, expected = asyncio.run(one_by_one(plan))
    state, results, world = asyncio.run(all_together(plan, concurrency))
    assert results == expected
    assert state == expected_state
    assert not any(collide(left, right) for left, right in world.overlapped)


def test_independent_calls_really_run_at_the_same_time() -> None:
    together = 0
    most = 0

    @tool(kind="write", touches=lambda params: (writes("path", params.path),))
    async def save(path: str) -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.01)
        together -= 1

    async def main(paths: Sequence[str], **options: Any) -> int:
        nonlocal most
        most = 0
        runtime = Runtime([save], policy=RulePolicy(mode="bypass"))
        await runtime.batch([RawCall("save", {"path": path}) for path in paths], **options)
        return most

    assert asyncio.run(main([f"/f{n}" for n in range(20)])) == 20
    assert asyncio.run(main(["/same"] * 5)) == 1
    assert asyncio.run(main(["/a", "/a/b", "/c"])) == 2
    assert asyncio.run(main([f"/f{n}" for n in range(20)], concurrency=3)) == 3


def test_calls_of_an_unsafe_tool_never_run_together_in_a_batch() -> None:
    """T2: not concurrency-safe."""
    inside = 0

    @tool(kind="readonly", concurrency_safe=False, touches=lambda params: ())
    async def shell() -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        await asyncio.sleep(0.002)
        inside -= 1

    async def main() -> list[ToolResult]:
        return await Runtime([shell]).batch([RawCall("shell") for _ in range(5)])

    assert all(result.success for result in asyncio.run(main()))


def test_results_come_in_the_order_asked() -> None:
    @tool(kind="readonly")
    async def wait(n: int) -> int:
        await asyncio.sleep(0.002 * (5 - n))
        return n

    async def main() -> list[Any]:
        return [result.data for result in await Runtime([wait]).batch([RawCall("wait", {"n": n}) for n in range(5)])]

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_no_calls_give_no_results() -> None:
    assert asyncio.run(Runtime().batch([])) == []


class Found(BaseModel):
    path: str


@tool(kind="readonly")
async def find(name: str) -> Found:
    return Found(path=f"/src/{name}")


@tool(kind="readonly")
async def show(path: str, times: int = 1) -> str:
    return f"<{path}>" * times


@tool(kind="readonly")
async def fail() -> str:
    raise ToolError("no")


@tool(kind="readonly")
async def blob() -> Any:
    return {"x": b"\xff\xfe"}


def chain(*calls: RawCall, **options: Any) -> list[ToolResult]:
    return asyncio.run(Runtime([find, show, fail, blob]).batch(list(calls), **options))


def test_a_call_may_use_an_earlier_calls_result() -> None:
    """P8: chains."""
    results = chain(
        RawCall("find", {"name": "a.py"}, id="f"),
        RawCall("show", '{"path": {"$ref": "f.path"}, "times": 2}', id="s"),
    )
    assert results[1].data == "</src/a.py></src/a.py>"


def test_a_call_whose_source_failed_is_not_run_and_says_why() -> None:
    results = chain(RawCall("fail", id="f"), RawCall("show", {"path": {"$ref": "f"}}))
    assert results[1].llm_content == snapshot(
        """\
Error (validation_error): `show` was not run: it uses the result of `f`, which failed.

Suggestion: Fix that call first, then make both calls again.\
"""
    )


@pytest.mark.parametrize("target", ["later", "own"])
def test_a_call_cannot_use_its_own_result_or_a_later_one(target: str) -> None:
    results = chain(RawCall("show", {"path": {"$ref": target}}, id="own"), RawCall("find", {"name": "x"}, id="later"))
    assert [result.success for result in results] == [False, True]
    assert f"no earlier call has the id `{target}`" in results[0].llm_content


def test_a_path_the_result_does_not_have_is_refused_before_anything_runs() -> None:
    results = chain(RawCall("find", {"name": "x"}, id="f"), RawCall("show", {"path": {"$ref": "f.pathh"}}))
    assert "has no `pathh`" in results[1].llm_content
    assert "Did you mean `path`?" in results[1].llm_content


def test_other_mistakes_of_a_chained_call_are_found_before_it_waits() -> None:
    results = chain(RawCall("find", {"name": "x"}, id="f"), RawCall("show", {"path": {"$ref": "f.path"}, "tims": 2}))
    assert "`tims`: unknown field. Did you mean `times`?" in results[1].llm_content
    assert "`path`" not in results[1].llm_content.split("\n")[1]


def test_a_result_of_the_wrong_type_is_a_validation_error() -> None:
    results = chain(RawCall("find", {"name": "x"}, id="f"), RawCall("show", {"path": "p", "times": {"$ref": "f.path"}}))
    assert "`times`: expected integer" in results[1].llm_content


def test_a_result_that_cannot_be_an_argument_harms_only_the_call_that_uses_it() -> None:
    results = chain(RawCall("blob", id="b"), RawCall("show", {"path": {"$ref": "b.x"}}), RawCall("find", {"name": "x"}))
    assert [result.success for result in results][1:] == [False, True]


def test_values_can_be_given_by_name() -> None:
    results = chain(RawCall("show", {"path": {"$ref": "input.where"}}), given={"input": {"where": "here"}})
    assert results[0].data == "<here>"


def test_a_schemas_ref_is_no_reference_and_its_call_is_mended_as_ever() -> None:
    @tool(kind="readonly")
    async def keep(schema: dict[str, Any], times: int) -> int:
        return times

    call = {"schema": {"$ref": "#/$defs/x"}, "times": "3"}

    async def main() -> tuple[ToolResult, ToolResult]:
        runtime = Runtime([keep])
        return await runtime.run("keep", call), (await runtime.batch([RawCall("keep", call)]))[0]

    alone, together = asyncio.run(main())
    assert (alone.data, together.data) == (3, 3)
    assert alone.metadata == together.metadata


def test_a_tool_whose_own_check_crashes_harms_no_other_call() -> None:
    def crash(params: Any) -> Any:
        raise KeyError("bug")

    @tool(kind="readonly", check=crash)
    async def buggy() -> None: ...

    @tool(kind="readonly", touches=crash)
    async def silent() -> str:
        return "ran"

    async def main() -> list[bool]:
        runtime = Runtime([buggy, silent, find])
        results = await runtime.batch([RawCall("buggy"), RawCall("silent"), RawCall("find", {"name": "x"})])
        return [result.success for result in results]

    # A tool that cannot say what it touches is not let run: it might write.
    assert asyncio.run(main()) == [False, False, True]


class Keeper:
    """Keeps records."""

    def __init__(self) -> None:
        self.records: list[CallRecord] = []

    def record(self, record: CallRecord) -> None:
        self.records.append(record)


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_cancelling_a_batch_stops_what_runs_and_records_every_call_once(turns: int) -> None:
    stopped: list[int] = []

    @tool(kind="write", touches=lambda params: (writes("path", "/one") if params.n % 2 else reads("host", "x"),))
    async def wait(n: int) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            stopped.append(n)

    async def main() -> Keeper:
        keeper = Keeper()
        runtime = Runtime([wait], recorders=[keeper], policy=RulePolicy(mode="bypass"))
        calls = [RawCall("wait", {"n": n}, id=f"c{n}") for n in range(6)]
        task = asyncio.create_task(runtime.batch(calls, concurrency=4))
        await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1
        return keeper

    keeper = asyncio.run(main())
    assert sorted(record.call_id for record in keeper.records) == [f"c{n}" for n in range(6)]
    assert {record.outcome for record in keeper.records} == {"cancelled_error"}


def test_a_batch_inside_a_tool_knows_its_parent() -> None:
    @tool(kind="readonly")
    async def outer(context: ToolContext) -> list[Any]:
        results = await context.batch([RawCall("find", {"name": "x"}), RawCall("find", {"name": "y"})])
        return [result.success for result in results]

    async def main() -> Keeper:
        keeper = Keeper()
        runtime = Runtime([outer, find], recorders=[keeper])
        assert (await runtime.run(RawCall("outer", id="top"))).data == [True, True]
        return keeper

    records = asyncio.run(main()).records
    assert [(record.tool, record.parent_id) for record in records] == [
        ("find", "top"),
        ("find", "top"),
        ("outer", None),
    ]


def test_a_batch_runs_in_the_session_it_was_given() -> None:
    @tool(kind="readonly")
    async def who(context: ToolContext) -> str:
        return context.session_id

    session = Session(id="mine")
    results = asyncio.run(Runtime([who]).batch([RawCall("who")], session=session))
    assert results[0].data == "mine"


def test_many_calls_on_different_files_all_run_at_the_same_time() -> None:
    running: set[int] = set()
    all_run = asyncio.Event()

    @tool(kind="readonly", touches=lambda params: (reads("path", f"/{params.n}"),))
    async def wait_for_the_others(n: int) -> None:
        running.add(n)
        if len(running) == 100:
            all_run.set()
        await all_run.wait()

    calls = [RawCall("wait_for_the_others", {"n": n}) for n in range(100)]
    results = asyncio.run(asyncio.wait_for(Runtime([wait_for_the_others]).batch(calls), 60))
    assert all(result.success for result in results)


def test_a_chained_call_is_recorded_with_what_it_ran_with() -> None:
    """P8, O3."""
    keeper = Keeper()

    async def main() -> None:
        runtime = Runtime([find], recorders=[keeper])
        await runtime.batch(
            [RawCall("find", {"name": "x"}, id="a"), RawCall("find", {"name": {"$ref": "a.path"}}, id="b")]
        )

    asyncio.run(main())
    arguments = {record.call_id: record.arguments for record in keeper.records}
    assert "$ref" not in str(arguments["b"])


def test_a_reference_to_an_id_that_two_calls_have_is_refused() -> None:
    """P8."""

    async def main() -> list[ToolResult]:
        twice = [RawCall("find", {"name": "x"}, id="a"), RawCall("find", {"name": "y"}, id="a")]
        return await Runtime([find]).batch([*twice, RawCall("find", {"name": {"$ref": "a.path"}})])

    results = asyncio.run(main())
    assert [result.success for result in results] == [True, True, False]
    assert "two earlier calls have the id `a`" in results[2].llm_content


def test_what_is_no_call_is_refused_to_the_programmer() -> None:
    with pytest.raises(TypeError, match="RawCall"):
        asyncio.run(Runtime([find]).batch(["find"]))  # type: ignore[list-item]


def test_a_batch_cancelled_twice_still_leaves_a_record_of_every_call() -> None:
    """O3."""

    @tool(kind="readonly")
    async def stop_slowly(n: int) -> None:
        """Stop slowly."""
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.2)

    keeper = Keeper()

    async def main() -> None:
        runtime = Runtime([stop_slowly], recorders=[keeper])
        calls = [RawCall("stop_slowly", {"n": n}, id=f"c{n}") for n in range(6)]
        task = asyncio.create_task(runtime.batch(calls, concurrency=2))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert sorted(record.call_id for record in keeper.records) == [f"c{n}" for n in range(6)]


def test_a_call_sees_the_registry_as_the_calls_before_it_left_it() -> None:
    """P5: as if one after the other."""
    registry = Registry()

    @tool(kind="execute")
    def switch_off(name: str) -> None:
        """Switch off."""
        registry.disable(name)

    @tool(kind="execute")
    def bring_in() -> None:
        """Bring in."""
        registry.register(find)

    registry.register_many([show, switch_off, bring_in])

    async def main() -> list[bool]:
        runtime = Runtime(registry, policy=RulePolicy(mode="bypass"))
        calls = [
            RawCall("switch_off", {"name": "show"}),
            RawCall("show", {"path": "x"}),
            RawCall("bring_in"),
            RawCall("find", {"name": "x"}),
        ]
        return [result.success for result in await runtime.batch(calls)]

    assert asyncio.run(main()) == [True, False, True, True]


def test_one_path_written_two_ways_is_one_path() -> None:
    """P5."""
    done: list[str] = []

    @tool(kind="write", touches=lambda params: [writes("path", params.path)])
    async def put(path: str, delay: float) -> None:
        """Put."""
        await asyncio.sleep(delay)
        done.append(path)

    paths = ["/w/a.txt", "/w/./a.txt", "/w/x/../a.txt", "/w//a.txt"]

    async def main() -> None:
        runtime = Runtime([put], policy=RulePolicy(mode="bypass"))
        await runtime.batch([RawCall("put", {"path": p, "delay": 0.05 - n / 100}) for n, p in enumerate(paths)])

    asyncio.run(main())
    assert done == paths


@pytest.mark.parametrize(
    "text",
    [
        '{"path": {"$ref": "a.path"},}',
        '```json\n{"path": {"$ref": "a.path"}}\n```',
        '{"path": {"\\u0024ref": "a.path"}}',
        '{"path": {"$ref": "a.path"}, "times": "1"}',
    ],
)
def test_a_reference_is_found_in_arguments_that_need_mending(text: str) -> None:
    """P8."""
    results = chain(RawCall("find", {"name": "x"}, id="a"), RawCall("show", text))
    assert results[1].data == "</src/x>"
