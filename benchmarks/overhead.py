"""What Ferrule costs, measured against the bare work in the same run: `python benchmarks/overhead.py`.

Prints a table and exits with 1 when a bar is missed. `--peers` also measures other tool runtimes, those that are
installed; `--install` also builds the wheel and installs it into an empty environment.
"""

from __future__ import annotations

import argparse

from _calls import measure_batches, measure_calls
from _definitions import measure_definitions
from _imports import measure_imports
from _measure import report


def main() -> int:
    arguments = argparse.ArgumentParser(description="What Ferrule costs against the bare work.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--peers", action="store_true", help="also measure other tool runtimes, where installed")
    arguments.add_argument("--install", action="store_true", help="also measure what an installation brings")
    arguments.add_argument("--quick", action="store_true", help="fewer rounds: rougher figures in less time")
    chosen = arguments.parse_args()
    scale = 0.25 if chosen.quick else 1
    # Definitions first: what later parts leave on the heap would be paid for here.
    definitions = measure_definitions(rounds=round(8 * scale))
    rows = [
        *measure_calls(rounds=round(300 * scale)),
        *measure_batches(rounds=round(12 * scale)),
        *definitions,
        *measure_imports(rounds=round(12 * scale)),
    ]
    if chosen.install:
        from _install import measure_install

        rows += measure_install()
    if chosen.peers:
        from _peers import measure_peer_definitions, measure_peers

        rows += measure_peer_definitions(rounds=max(2, round(4 * scale)))
        rows += measure_peers(rounds=round(100 * scale))
    return report(rows, as_json=chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())
