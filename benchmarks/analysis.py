"""Understanding a command before it runs, against the bare parse by tree-sitter that it cannot do without.

    python benchmarks/analysis.py [--rounds 400]

Exits with 1 when a command of twenty parts takes 1 ms or more.
"""

from __future__ import annotations

import argparse
import gc
import sys
from time import perf_counter
from typing import TYPE_CHECKING

import tree_sitter_bash
from tree_sitter import Language, Parser

from ferrule.policy.commands.analyse import analyse

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_SECONDS = 0.001
TWENTY_PARTS = (
    "git status && git diff --stat | head -20; grep -rn foo src/ | sort | uniq -c | sort -rn | head; "
    'for f in *.py; do wc -l "$f"; done; ls -la; cat a.txt | tr a b | cut -d: -f1; '
    "find . -name '*.py' | xargs grep x; echo done; pwd; date; whoami; cd src && make"
)
COMMANDS = {
    "one part": "git log --oneline -10",
    "five parts, a pipe": "cat access.log | grep -v bot | cut -d' ' -f1 | sort | uniq -c",
    "a script in a script": 'bash -lc \'cd src && for f in *.c; do gcc -c "$f" -o "${f%.c}.o" || exit 1; done\'',
    "twenty parts": TWENTY_PARTS,
    "what is not understood": "x" * 2_000 + " $((" * 50,
}


def best(work: Callable[[], object], rounds: int) -> float:
    """The fastest of many rounds: whatever else the machine does only ever adds time."""
    shortest = float("inf")
    for _ in range(rounds):
        began = perf_counter()
        work()
        shortest = min(shortest, perf_counter() - began)
    return shortest


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=400)
    rounds: int = arguments.parse_args().rounds
    parser = Parser(Language(tree_sitter_bash.language()))
    worst = 0.0
    gc.disable()
    for name, command in COMMANDS.items():
        text = command.encode()
        ours, bare = best(lambda c=command: analyse(c), rounds), best(lambda t=text: parser.parse(t), rounds)
        parts = len(analyse(command).parts)
        print(f"{name:24} {parts:3} parts  {ours * 1e6:7.0f} µs  {ours / bare:5.1f} times the bare parse")
        if command is TWENTY_PARTS:
            worst = ours
    print(f"{'met' if worst < MOST_SECONDS else 'MISSED'}: twenty parts under {MOST_SECONDS * 1e3:.0f} ms")
    return 0 if worst < MOST_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
