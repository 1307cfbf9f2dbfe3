"""The calls of one answer: one result each, whatever becomes of them."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import ErrorKind, RawCall, StoppedError
from ferrule.agent.agent_events import AgentEvent, CallAsked
from ferrule.agent.calling import Calling
from ferrule.agent.conversation import Conversation
from ferrule.core.errors import Stage
from ferrule.core.events import Done

from .room import Records, Waiting, runtime


async def test_every_call_is_announced_before_any_of_them_runs() -> None:
    events: list[AgentEvent] = []
    calls = [RawCall("add", {"a": 1, "b": n}, id=f"c{n}") for n in range(3)]
    where = runtime()
    results = await Calling(calls, where, where.session, None, events.append, 1000, Conversation()).run()
    assert [one.data for one in results] == [1, 2, 3]
    assert [type(one) for one in events[:3]] == [CallAsked] * 3
    assert sum(isinstance(one, Done) for one in events) == 3


async def test_refused_calls_do_not_run_and_are_on_the_record() -> None:
    records = Records()
    where = runtime(recorders=[records])
    calls = [RawCall("keep", {"text": "x"}, id="c")]
    why = StoppedError(Stage.VALIDATE, ErrorKind.VALIDATION, "Not whole.")
    (result,) = await Calling(calls, where, where.session, None, lambda event: None, 1000, Conversation()).refuse(why)
    assert (result.success, result.llm_content) == (False, "Error (validation_error): Not whole.")
    assert [one.outcome for one in records.all] == ["validation_error"]
    assert "kept" not in where.session.state


async def test_calls_that_were_cancelled_before_they_began_have_results_too() -> None:
    waiting = Waiting()
    where = runtime(waiting.tool)
    calls = [RawCall("wait", id="a"), RawCall("keep", {"text": "x"}, id="b")]
    calling = Calling(calls, where, where.session, None, lambda event: None, 1000, Conversation())
    running = asyncio.ensure_future(calling.run())
    await waiting.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [one.call_id for one in calling.interrupted("Stopped.")] == ["a", "b"]
    assert "kept" not in where.session.state
