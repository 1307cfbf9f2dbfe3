"""What a turn used, against what it may use."""

from __future__ import annotations

from ferrule.agent.limits import AgentLimits, Meter
from ferrule.core.model import Usage


def test_nothing_is_reached_at_first() -> None:
    assert Meter(AgentLimits(steps=1, tokens=1, cost=1, seconds=60)).problem() is None


def test_what_a_sub_agent_uses_counts_above_too_and_stops_it() -> None:
    above = Meter(AgentLimits(tokens=100))
    below = Meter(AgentLimits(tokens=1000), above)
    below.add(Usage(90, 20))
    assert above.usage == Usage(90, 20)
    problem = below.problem()
    assert problem is not None
    assert (problem.limit, problem.problem) == ("tokens", "The turn used 110 tokens; its limit is 100.")


def test_one_step_is_one_step() -> None:
    meter = Meter(AgentLimits(steps=1))
    meter.steps = 1
    assert meter.problem() == (
        "The turn had 1 step, which is its limit.",
        "Nothing is lost: say how to continue, or raise the limit.",
        "steps",
    )


def test_an_answer_without_its_cost_ends_a_turn_whose_cost_is_limited() -> None:
    meter = Meter(AgentLimits(cost=0.01))
    meter.add(Usage(cost=None))  # nothing was read or written
    assert meter.problem() is None
    meter.add(Usage(1000, 1000))
    assert meter.problem() == (
        "An answer came without its cost, so the limit of $0.01 cannot hold.",
        "Limit tokens instead, or choose a model whose price is known.",
        "",  # a higher one would not help
    )


def test_time_is_counted_from_the_beginning() -> None:
    meter = Meter(AgentLimits(seconds=1e-9))
    assert meter.seconds_left == 0
    assert meter.problem() == meter.out_of_time
    assert Meter(AgentLimits()).seconds_left is None
