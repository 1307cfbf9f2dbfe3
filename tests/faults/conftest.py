"""Each test of this folder is run round after round in a process of its own, with chances that can be repeated.

`FERRULE_FAULTS_SEED` repeats a run, `FERRULE_FAULTS_COUNT` is how many rounds each test has.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.needs import needs
from tests.warm_start import USUAL, run_warm

_ROOT = Path(__file__).parents[2]
_SECONDS_A_ROUND = 300


@pytest.fixture
def bench() -> None:
    """Made for each round, in its process."""


@pytest.fixture
def chance() -> None:
    """A source of chances, for each round its own."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    seed = pyfuncitem.config.getoption("--faults-seed")
    rounds = pyfuncitem.config.getoption("--faults-count") or getattr(pyfuncitem.obj, "rounds", 1)
    order = {
        "module": pyfuncitem.obj.__module__, "function": pyfuncitem.originalname, "rounds": rounds,
        "parameters": pyfuncitem.callspec.params if hasattr(pyfuncitem, "callspec") else {},
        "seed": f"{seed}/{pyfuncitem.name}", "folder": str(pyfuncitem._request.getfixturevalue("tmp_path")),
    }  # fmt: skip
    arguments = ["-m", "tests.faults.rounds", json.dumps(order)]
    done = run_warm(arguments, _ROOT, USUAL, timeout=_SECONDS_A_ROUND * rounds)
    assert done.code == 0, done.err
    found = json.loads(done.out.splitlines()[-1])
    needs("needs" not in found, found.get("needs", ""))
    pyfuncitem.user_properties.extend((f"count of {what}", many) for what, many in found["counts"].items())
    if found["failed"]:
        again = f"FERRULE_FAULTS_SEED={seed} FERRULE_FAULTS_COUNT={rounds} ./test '{pyfuncitem.nodeid}'"
        words = [f"{found['failed']} of {rounds} rounds failed. Again: {again}", *found["failures"]]
        pytest.fail("\n\n".join(words), pytrace=False)
    return True
