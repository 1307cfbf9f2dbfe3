"""Understanding a command before it may run: every program that it would start, and what each would do."""

from __future__ import annotations

from .parts import Analysis
from .syntax import Unreadable

_INSTALL = "the shell grammar is missing, so no command can be understood; install `ferrule[shell]`"


def analyse(command: str, *, directory: str | None = None, home: str | None = None) -> Analysis:
    """What `command` would do in bash. Nothing is run, and nothing on the disk is looked at.

    With `directory`, where the command would start, paths come out absolute; without it they stay relative to there.
    `home` is what `~` stands for.
    """
    from .gathering import brief
    from .walker import Walker
    from .witness import NotInstalled

    walker = Walker(directory, home)
    try:
        walker.text(command)
        walker.finish()
    except NotInstalled:
        return Analysis(command, unclear=(_INSTALL,))
    except Unreadable as doubt:
        walker.unclear.append(str(doubt))
    except RecursionError:
        walker.unclear.append("it nests too deep")
    return Analysis(
        command,
        tuple(walker.parts),
        tuple(dict.fromkeys(walker.dangers)),
        tuple(dict.fromkeys(map(brief, walker.unclear))),
    )
