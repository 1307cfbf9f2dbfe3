"""Regular expressions that are compiled when they are first used.

Compiling is pure Python: the hundreds that stand in modules took most of a program's first command.
"""

from __future__ import annotations

import re
from typing import AnyStr, Generic, cast


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, later. A mistake in the pattern is found when it is used."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern(Generic[AnyStr]):
    """Takes each method from the compiled pattern when it is first asked for, so that later uses cost no more."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # a look at what an object can do compiles nothing
            raise AttributeError(name)
        method = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, method)
        return method
