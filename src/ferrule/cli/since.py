"""Times, as people write them: a moment in the past (`2h`, `3d`, `2026-01-31`), and seconds."""

from __future__ import annotations

import math
import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.words import _

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

if TYPE_CHECKING:
    _ParamType = click.ParamType[float]
else:
    _ParamType = click.ParamType  # generic only from click 8.4 on


class Since(_ParamType):
    """Gives seconds since 1970."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        if found := re.fullmatch(r"([0-9]{1,6})([smhdw])", value):
            return time.time() - int(found[1]) * _SECONDS[found[2]]
        try:
            return datetime.fromisoformat(value).astimezone().timestamp()
        except ValueError:
            self.fail(_("{value} is not a time; write 2h, 3d, or 2026-01-31.").format(value=repr(value)), param, ctx)


class Seconds(_ParamType):
    """A number above zero that a clock can reach."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            self.fail(_("{value} is not a number of seconds above 0.").format(value=repr(value)), param, ctx)
        return seconds


SECONDS = Seconds()
SINCE = Since()
