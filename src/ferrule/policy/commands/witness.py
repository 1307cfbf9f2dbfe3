"""A second reading by tree-sitter's bash grammar: a command counts as understood when both find the same commands.

Two readers that share no code seldom share a mistake. Where tree-sitter finds an error, a command that the first
reading lacks, or lacks one that it has, the text is not understood, and asks.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from .syntax import Reading

_COMMANDS = "(command_name) @c (declaration_command) @c (unset_command) @c (test_command) @c"


class NotInstalled(Exception):  # noqa: N818 - it is a state of the machine, not a fault
    """The grammar is not there."""


@cache
def _second_reader() -> tuple[Callable[[bytes], Node], Callable[[Node], list[Node]]]:
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser, Query, QueryCursor
    except ImportError as missing:
        raise NotInstalled from missing
    language = Language(tree_sitter_bash.language())
    parser = Parser(language)
    query = Query(language, _COMMANDS)
    return lambda text: parser.parse(text).root_node, lambda root: QueryCursor(query).captures(root).get("c", [])


def disagreement(reading: Reading) -> str | None:
    """Why the second reading is not the first; None where both find the same commands."""
    parse, commands = _second_reader()
    source = reading.source
    encoded = source.encode()
    root = parse(encoded)
    if root.has_error:
        return "the shell grammar finds an error in it"
    seconds = [node.start_byte for node in commands(root)]
    # To the grammar `time` is a program like any other, and what follows it are arguments.
    firsts = reading.starts
    if reading.timed:
        firsts = [reading.timed.get(start, start) for start in firsts]
        firsts += [time for start, time in reading.timed.items() if start not in reading.starts]
    blind = reading.blind
    if len(encoded) != len(source):
        firsts = [len(source[:start].encode()) for start in firsts]
        blind = [(len(source[:start].encode()), len(source[:end].encode())) for start, end in blind]
    if blind:
        seconds = [start for start in seconds if not any(low <= start < high for low, high in blind)]
        firsts = [start for start in firsts if not any(low <= start < high for low, high in blind)]
    return None if sorted(firsts) == sorted(seconds) else "two readings of it find different commands"
