from __future__ import annotations

import itertools

from ferrule.policy.commands.finding import READS, RUNS, WRITES, worse


def test_running_is_worse_than_writing_is_worse_than_reading():
    for one, other in itertools.product((READS, WRITES, RUNS), repeat=2):
        assert worse(one, other) is worse(other, one)
    assert (worse(READS, WRITES), worse(WRITES, RUNS), worse(READS, RUNS)) == (WRITES, RUNS, RUNS)
