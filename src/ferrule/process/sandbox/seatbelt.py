"""The sandbox of macOS, driven by `sandbox-exec` and a text of rules, of which the last that fits decides.

Not tested on a Mac by the project: only the text of the rules is. It has no network at all, and no limits.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.guarded_names import OF_GIT, SETTINGS
from ferrule.core.phrases import advice, phrase
from ferrule.process.arguments import CommandLine, ProgramWords, rule_text
from ferrule.process.owned_folders import OwnedFolder
from ferrule.process.profile import clean_environment
from ferrule.process.sandbox.bubblewrap import guarded_roots, watch, writable_roots
from ferrule.process.sandbox.denials import SandboxRefused, explain
from ferrule.process.sandbox.guarded import Sweep
from ferrule.process.sandbox.limits import limits_of
from ferrule.process.sandbox.places import Places, is_within, system_places
from ferrule.process.sandbox.sandbox import Launch, Name, Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferrule.process.profile import Profile

PROGRAM = "/usr/bin/sandbox-exec"


class Seatbelt:
    """Starts commands under rules written for each."""

    name: Name = "seatbelt"
    notes = ("the sandbox of macOS is not tested by the project", "processes of other programs can be seen")
    confines, has_layers = True, False
    explain_denial = staticmethod(explain)

    def prepare(self, profile: Profile, arguments: Sequence[str], *, terminal: bool = False) -> Prepared:
        """Refuses the network by host, which it does not have."""
        if profile.hosts is not None:
            raise SandboxRefused(
                phrase("On macOS the sandbox cannot open the network to only some hosts."),
                advice(
                    "Do without the network, or ask the user to turn the sandbox off for this.",
                    "Do without the network, or turn the sandbox off for this.",
                ),
            )
        roots = writable_roots(profile.writable, PROGRAM)
        closing = ExitStack()
        try:
            private = str(closing.enter_context(OwnedFolder(prefix="ferrule-box-")).path)
            given = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), private) | dict(profile.environment)
            watched = [watch(root, profile, closing) for root in guarded_roots(roots, profile)]
            sweep = Sweep(watched)
            sweep.begin()
            there = (Path(one.tree.root, path) for one in watched if one.found for path in one.found.marks)
            places = system_places(roots, closed=profile.closed, emptied=profile.emptied)
            rules = rules_for(replace(profile, guarded=(*profile.guarded, *there)), roots, private, places)
            launch = Launch(
                ProgramWords().option("-p", rules).line(PROGRAM, CommandLine(arguments)),
                clean_environment(os.environ, given),
                os.path.realpath(profile.folder),
                limits=limits_of(profile, processes=False),
                takes_terminal=terminal,
            )
            return Prepared(launch, sweep=sweep, closing=closing)
        except BaseException:
            closing.close()
            raise


def rules_for(profile: Profile, roots: Sequence[str], private: str, places: Places) -> str:
    """The rules as text. They name what does not exist yet as easily as what does."""
    hidden = [os.path.realpath(path) for path in profile.hidden]
    guarded = [os.path.realpath(path) for path in profile.guarded]
    shown = [os.path.realpath(path) for path in profile.readable]
    shows_home = any(is_within(places.home, one) for one in (*shown, *roots))
    return "\n".join(
        [
            "(version 1)",
            "(allow default)",
            "(deny network*)",
            "(deny process-info* (target others))",
            "(deny signal (target others))",
            "(allow signal (target same-sandbox))",
            "(deny file-write*)",
            "(deny file-read-data)",  # names on the way to what is shown have to be found
            '(allow file-read-data (literal "/"))',
            f"(allow file-read* {_below((*places.system, *places.tools, *shown, private, *roots))})",
            *([f"(deny file-read* {_below(unseen)})"] if (unseen := (*places.hidden, *places.emptied)) else []),
            *([f"(deny file-read* {_below(places.secrets)})"] if shows_home and places.secrets else []),
            f"(allow file-write* {_below((private, *(() if profile.look else roots)))})",
            '(allow file-write* (literal "/dev/null") (literal "/dev/tty") (regex #"^/dev/fd/"))',
            *(f"(deny file-write* {_guarded(root)})" for root in roots),
            *([f"(deny file-write* {_below(guarded)})"] if guarded else []),
            *([f"(deny file-read* file-write* {_below(hidden)})"] if hidden else []),
        ]
    )


def _below(paths: Iterable[str]) -> str:
    return " ".join(f"(subpath {rule_text(path)})" for path in paths)


def _guarded(root: str) -> str:
    """Git's own places at any depth, and settings at the top; those in nested repositories are for the sweep."""
    git = "|".join(re.escape(name) for name in sorted(OF_GIT))
    names = "|".join(re.escape(name).replace(r"\*", "[^/]*") for name in sorted(SETTINGS))
    start = re.escape(root).replace('"', ".")
    pattern = f"^{start}/(.*/)?\\.git(/modules/.*|/worktrees/.*)?/({git})(/.*)?$"
    return f'(regex #"{pattern}") (regex #"^{start}/({names})(/.*)?$")'
