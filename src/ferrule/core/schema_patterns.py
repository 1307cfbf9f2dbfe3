"""How much work a regular expression of a schema may make, so that none can hold a call up."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

BACKTRACKS = 10_000
"""Steps back that a pattern with look-around or back-references may take on one string."""
COMPILED_BYTES = 6 << 20
"""How large one compiled pattern may be; counted repeats of repeats are what reaches it."""

LINEAR_COST = 4.0
"""For each character and each place in the pattern, in the units of `schema_cost`, a second run included."""
BACKTRACKING_COST = BACKTRACKS * 1.2
_CLASS_STATES = 25
_MOST = 10**9
"""Where counting ends; far above anything that compiles."""
# What is not closed reaches to the end, so that no text is looked at twice.
_ATOM = re.compile(
    r"\\[pP]\{[^}]*(?:\}|\Z)|\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)"
    r"|\((?:\?(?:[:=!>]|<[=!]|P?<\w+>))?|\)|\{\d+(?:,\d*)?\}|.",
    re.DOTALL,
)


def pattern_options() -> Any:
    """For the validator: linear matching where the pattern allows it, bounded backtracking where not."""
    from jsonschema_rs import FancyRegexOptions

    return FancyRegexOptions(backtrack_limit=BACKTRACKS, size_limit=COMPILED_BYTES, dfa_size_limit=COMPILED_BYTES)


@lru_cache(maxsize=4096)
def is_linear(pattern: str) -> bool:
    """Whether the pattern is matched in one pass; look-around and back-references are not."""
    from jsonschema_rs import RegexOptions, ValidationError, validator_for

    options = RegexOptions(size_limit=COMPILED_BYTES, dfa_size_limit=COMPILED_BYTES)
    try:
        validator_for({"pattern": pattern}, pattern_options=options)
    except ValidationError:
        return False
    return True


def cost_per_character(pattern: str) -> float:
    """An upper bound, in evaluations, of what matching costs for each character of the text."""
    return states(pattern) * LINEAR_COST if is_linear(pattern) else BACKTRACKING_COST


def states(pattern: str) -> int:
    """How many places in the pattern a match can be at once, counted repeats written out."""
    groups = [0]
    last = 0
    for found in _ATOM.finditer(pattern):
        part = found[0]
        if part[0] == "{" and len(part) > 1:
            low, _, high = part[1:-1].partition(",")
            times = int(high or low) if len(part) < 12 else _MOST
            groups[-1] = min(groups[-1] + last * max(times - 1, 0), _MOST)
            last = 0
        elif part[0] == "(":
            groups.append(0)
        elif part == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif part not in "*+?|":
            last = _CLASS_STATES if part[:2] in ("\\p", "\\P") else 1
            groups[-1] += last
    return max(1, sum(groups))
