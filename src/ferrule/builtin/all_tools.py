"""The list of built-ins; the only place that names them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.builtin.edit import edit
from ferrule.builtin.get_current_date_time import get_current_date_time
from ferrule.builtin.get_current_directory import get_current_directory
from ferrule.builtin.multi_edit import multi_edit
from ferrule.builtin.read import read
from ferrule.builtin.read_file import read_file
from ferrule.builtin.write import write

if TYPE_CHECKING:
    from ferrule.core.tool import Tool


def builtin_tools() -> list[Tool[Any]]:
    """Every tool Ferrule brings."""
    return [read, write, edit, multi_edit, read_file, get_current_date_time, get_current_directory]
