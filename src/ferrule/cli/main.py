"""The `ferrule` command. Each subcommand's module is imported when it is used, so that starting stays instant."""

from __future__ import annotations

import os
import sys

from ferrule._version import __version__

_COMMANDS = {
    "audit": "See and check the record of every call.",
    "call": "Call one tool and print its result.",
    "diff": "Show what a change did.",
    "doctor": "Check this installation and say what is missing.",
    "history": "List the changes that tools made.",
    "lint": "Check tool definitions for what confuses models.",
    "redo": "Make again what was undone.",
    "stats": "Show how often each tool ran, failed and was refused.",
    "tools": "List the tools and their definitions.",
    "undo": "Take back what tools changed.",
}


def main() -> None:
    """Run the command line; never shows a traceback for what a person can mend."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"ferrule {__version__}")  # noqa: T201 - before anything else is imported
        return
    from ferrule.cli.words import choose_language

    choose_language(sys.argv[1:])
    from ferrule.cli.group import run

    try:
        run(_COMMANDS)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone. Point stdout elsewhere so that the exit does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
