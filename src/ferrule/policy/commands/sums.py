"""Where bash works values out as sums: a variable that holds `a[$(rm x)]` there runs `rm x`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .expansion import Loose, expand, holds_number, is_number
from .syntax import Word

if TYPE_CHECKING:
    from .surroundings import Surroundings
    from .syntax import Arithmetic, Condition

_COMPARES_NUMBERS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_LOOKS_AT_VARIABLE = frozenset({"-v", "-R"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def doubts_of_sum(arithmetic: Arithmetic, here: Surroundings) -> list[str]:
    """What in a sum may be more than numbers; what it sets are numbers from then on."""
    doubts = [] if arithmetic.doubt is None else [arithmetic.doubt]
    for name in arithmetic.names:
        if name.startswith("="):
            here.set_number(name[1:])
        elif not holds_number(name, here.variables):
            doubts.append(f"a sum works out `{name}`, which may hold anything and so run code")
        elif not isinstance(here.variables.get(name), Loose):
            here.set_number(name)
    return doubts


def doubts_of_condition(condition: Condition, here: Surroundings) -> list[str]:
    """What in `[[ … ]]` is worked out as a sum and may be more than a number."""
    doubts: list[str] = []
    items = condition.items
    for at, item in enumerate(items):
        if not isinstance(item, str):
            continue
        if item in _LOOKS_AT_VARIABLE:
            following = items[at + 1] if at + 1 < len(items) else ""
            if not isinstance(following, Word) or following.pieces or not _NAME.fullmatch(following.text):
                doubts.append("`[[ -v ]]` looks at a variable whose name is not plain, which can run code")
        elif item in _COMPARES_NUMBERS:
            sides = items[max(0, at - 1) : at] + items[at + 1 : at + 2]
            if not all(isinstance(side, Word) and _is_number(side, condition.source, here) for side in sides):
                doubts.append(f"`[[ {item} ]]` works out what may be more than a number, and so run code")
    return doubts


def _is_number(word: Word, source: str, here: Surroundings) -> bool:
    if word.pieces is None and holds_number(word.text, here.variables):
        return True
    return all(is_number(value) for value in expand(word, here.variables, source))
