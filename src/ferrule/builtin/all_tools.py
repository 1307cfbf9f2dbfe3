"""The list of built-ins; the only place that names them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.builtin.get_current_date_time import get_current_date_time
from ferrule.builtin.get_current_directory import get_current_directory

if TYPE_CHECKING:
    from ferrule.core.tool import Tool


def builtin_tools() -> list[Tool[Any]]:
    """Every tool Ferrule brings."""
    return [get_current_date_time, get_current_directory]
