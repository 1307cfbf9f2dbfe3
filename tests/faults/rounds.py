"""Runs one test of this folder, round after round, in a process of its own: `python -m tests.faults.rounds ORDER`.

A test here forks, follows system calls, mounts disks and kills: none of that belongs in the process that runs the
tests. What comes out is one JSON document with the counts and the failures.
"""

from __future__ import annotations

import gc
import importlib
import json
import pkgutil
import random
import sys
import traceback
from pathlib import Path
from typing import Any

import ferrule
from tests.faults.bench import COUNTS, Bench
from tests.faults.tracing import NotHere

_MOST_SHOWN = 3


def run(order: dict[str, Any]) -> dict[str, Any]:
    test = getattr(importlib.import_module(order["module"]), order["function"])
    failures: list[str] = []
    for number in range(order["rounds"]):
        bench = Bench(Path(order["folder"]) / str(number))
        try:
            test(bench=bench, chance=random.Random(f"{order['seed']}/{number}"), **order["parameters"])
        except NotHere as missing:
            return {"needs": str(missing)}
        except Exception:
            failures.append(f"Round {number + 1}:\n{traceback.format_exc()}")
        finally:
            bench.close()
    return {"counts": COUNTS, "failed": len(failures), "failures": failures[:_MOST_SHOWN]}


def import_all() -> None:
    """Every module, so that no fork has to."""
    for module in pkgutil.walk_packages(ferrule.__path__, "ferrule."):
        if module.name != "ferrule.__main__":
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    import_all()
    print(json.dumps(run(json.loads(sys.argv[1]))))
