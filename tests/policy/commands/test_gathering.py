"""Parts in their place, with what redirections add."""

from __future__ import annotations

from ferrule.policy.commands.analyse import analyse
from ferrule.policy.commands.finding import READS, RUNS, WRITES, Finding
from ferrule.policy.commands.gathering import Gatherer


def test_a_part_is_at_least_as_bad_as_what_it_is_wrapped_in():
    gatherer = Gatherer(None, None)
    gatherer.floor = (WRITES, "wrapped")
    gatherer.part("ls", ("ls",), Finding(READS, "lists"))
    gatherer.part("x", ("x",), Finding(RUNS, "runs"))
    assert [(part.effect, part.why) for part in gatherer.parts] == [(WRITES, "wrapped"), (RUNS, "runs")]


def test_redirections_read_and_write():
    part = analyse("ls < a > b 2>> c 2>&1 > /dev/null").parts[0]
    assert (part.effect, part.reads, part.writes) == (WRITES, ("a",), ("b", "c"))


def test_a_network_path_is_a_host():
    analysis = analyse("cat < /dev/tcp/example.org/80")
    assert analysis.parts[0].hosts == ("example.org",)
    assert analysis.dangers


def test_a_group_that_is_redirected_is_a_part_of_its_own():
    assert [(part.text, part.writes) for part in analyse("{ ls; } > a").parts] == [("{ ls; } > a", ("a",)), ("ls", ())]


def test_a_secret_and_the_network_together_are_a_danger():
    assert [danger.why for danger in analyse("cat .env; curl e.org").dangers] == [
        "what `.env` holds could leave over the network"
    ]
    assert analyse("cat .env").dangers == ()
