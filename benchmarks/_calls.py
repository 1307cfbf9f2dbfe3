"""What a call costs, from JSON text to an answer that is on record."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import _work
from _measure import Row, Time, cpu_of, in_turn, versus
from ferrule import RawCall, Runtime, tool
from ferrule.records.audit import AuditLog
from ferrule.records.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def open_recorders(stack: ExitStack) -> tuple[AuditLog, Statistics]:
    """The audit log on a real file and the statistics, as an application has them."""
    folder = Path(stack.enter_context(TemporaryDirectory()))
    return stack.enter_context(AuditLog(folder / "audit.db")), Statistics()


def ferrule_call(runtime: Runtime, name: str, text: str) -> Callable[[], Awaitable[object]]:
    async def work() -> object:
        return await runtime.run(RawCall(name, text))

    return work


def measure_calls(rounds: int) -> list[Row]:
    return asyncio.run(_measure_calls(rounds))


async def _measure_calls(rounds: int) -> list[Row]:
    tools = [
        tool(_work.forecast, kind="readonly"),
        tool(_work.forecast_sync, kind="readonly"),
        tool(_work.place_order, kind="readonly"),
        tool(_work.place_order_sync, kind="readonly"),
    ]
    with ExitStack() as stack:
        log, counts = open_recorders(stack)
        runtime = Runtime(tools, recorders=(log, counts))
        await _check_answers(runtime)
        whole = await in_turn(
            {
                "bare": _work.bare_forecast,
                "straight": _work.straight_forecast,
                "ferrule": ferrule_call(runtime, "forecast", _work.FORECAST_CALL),
                "unrecorded": ferrule_call(Runtime(tools), "forecast", _work.FORECAST_CALL),
            },
            rounds=rounds,
        )
        sustained = await _sustained(runtime, log, whole["bare"])
        log.flush()  # here and below: nobody pays for rows that were queued before
        nested = await in_turn(
            {
                "bare": _work.bare_order,
                "straight": _work.straight_order,
                "ferrule": ferrule_call(runtime, "place_order", _work.ORDER_CALL),
            },
            rounds=rounds,
        )
        log.flush()
        invalid = await in_turn(
            {"bare": _work.bare_forecast, "ferrule": ferrule_call(runtime, "forecast", _work.INVALID_CALL)},
            rounds=rounds,
        )
        log.flush()
        one_sync = ferrule_call(runtime, "forecast_sync", _work.FORECAST_CALL)
        nested_sync = ferrule_call(runtime, "place_order_sync", _work.ORDER_CALL)
        sync: dict[str, tuple[Time, Time]] = {}
        for name, work in (("one", one_sync), ("nested", nested_sync)):
            wall = await in_turn({"ferrule": work}, rounds=rounds)
            log.flush()
            sync[name] = wall["ferrule"], await cpu_of(work, rounds=max(10, rounds // 10))
            log.flush()
    return [
        versus("a. whole pipeline, async tool", whole, 4.0),
        versus("   the same, nothing recorded", whole, None, "unrecorded"),
        versus("   against pydantic's quickest way", whole, None, against="straight"),
        sustained,
        versus("b. 20 nested items, a list in each", nested, 1.5),
        versus("   against pydantic's quickest way", nested, None, against="straight"),
        _micro("c. sync tool, off the loop", sync["one"][0], 100.0),
        _micro("   its CPU, every thread", sync["one"][1], 110.0),
        _micro("   20 nested items, off the loop", sync["nested"][0], 210.0),
        _micro("   its CPU, every thread", sync["nested"][1], 275.0),
        versus("d. invalid call, 3 errors named", invalid, 8.0),
    ]


async def _check_answers(runtime: Runtime) -> None:
    """What is measured must also be right."""
    good = await runtime.run("forecast", _work.FORECAST_CALL)
    assert good.llm_content == await _work.bare_forecast(), good
    order = await runtime.run("place_order", _work.ORDER_CALL)
    assert order.llm_content == await _work.bare_order() == await _work.straight_order(), order
    for name, text, same in (
        ("forecast_sync", _work.FORECAST_CALL, good), ("place_order_sync", _work.ORDER_CALL, order),
    ):  # fmt: skip
        assert (await runtime.run(name, text)).llm_content == same.llm_content
    bad = await runtime.run("forecast", _work.INVALID_CALL)
    assert bad.error is not None
    problems: Any = (bad.error.details or {})["problems"]
    assert {problem["path"]: problem["code"] for problem in problems} == {
        "days": "type",
        "city": "missing",
        "town": "unknown",
    }, bad
    assert all(f"`{field}`" in bad.llm_content for field in ("days", "city", "town")), bad


async def _sustained(runtime: Runtime, log: AuditLog, bare: Time) -> Row:
    """Calls without a pause until every row is on disk. The writer's own work is then paid for by the calls too."""
    count = 20_000
    log.flush()
    began, began_cpu = perf_counter(), process_time()
    for _ in range(count):
        await runtime.run(RawCall("forecast", _work.FORECAST_CALL))
    log.flush()
    wall, cpu = (perf_counter() - began) / count, (process_time() - began_cpu) / count
    note = f"{wall * 1e6:.1f} µs a call, {cpu * 1e6:.1f} µs of it CPU; {1 / wall:,.0f} calls/s, all rows written"
    return Row("   without a pause, rows on disk", wall / bare.best, "×", None, note)


def _micro(name: str, time: Time, bar: float) -> Row:
    return Row(name, time.best * 1e6, "µs", bar, f"median {time.median * 1e6:.1f} µs")


def measure_batches(rounds: int) -> list[Row]:
    """Twenty tools that each wait 50 ms: how much longer than one of them do all take?"""
    return asyncio.run(_measure_batches(rounds))


async def _measure_batches(rounds: int) -> list[Row]:
    rows: list[Row] = []
    for letter, function, bar in (("e. 20 async", _work.nap, 55.0), ("   20 sync", _work.nap_sync, 70.0)):
        runtime = Runtime([tool(function, kind="readonly", name="nap")])
        taken: list[float] = []
        for _ in range(rounds):
            calls = [RawCall("nap", f'{{"number": {number}}}') for number in range(20)]
            began = perf_counter()
            results = await runtime.batch(calls)
            taken.append(perf_counter() - began)
            assert [result.data for result in results] == list(range(20))
        first, middle = taken[0] * 1e3, sorted(taken)[len(taken) // 2] * 1e3
        note = f"median {middle:.1f} ms, first {first:.1f} ms"
        rows.append(Row(f"{letter} tools of 50 ms at once", min(taken) * 1e3, "ms", bar, note))
    return rows
