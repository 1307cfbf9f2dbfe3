"""What is known of each program, in families; one that stands in none of them may do anything."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase

from ..finding import RUNS, Finding
from .archives import ARCHIVES
from .build import BUILD
from .containers import CONTAINERS
from .editing import EDITING
from .files import FILES
from .git import GIT
from .network import NETWORK
from .shell import SHELL
from .system import SYSTEM
from .table import Program, changes, describe
from .text import TEXT
from .wrappers import WRAPPERS

PROGRAMS: dict[str, Program] = {
    **BUILD,
    **CONTAINERS,
    **SYSTEM,
    **NETWORK,
    **FILES,
    **ARCHIVES,
    **TEXT,
    **EDITING,
    **GIT,
    **WRAPPERS,
    **SHELL,
}

_TRUSTED = re.compile(r"(?:/usr(?:/local)?)?/s?bin/([^/]+)|/opt/homebrew/bin/([^/]+)")
_VERSIONED = re.compile(
    r"(python|pypy|perl|ruby|php|lua|pip|node|gcc|g\+\+|clang|clang\+\+|bash|sed|awk)-?[0-9][0-9.]*"
)
_MAKES_FILE_SYSTEM = re.compile(r"mkfs(\..+)?|mke2fs|mkntfs|mkdosfs|newfs(_.+)?")
_LOADER = re.compile(r"ld(-linux.*|-musl.*)?\.so(\..+)?|ld-linux.*")
_FORMAT = changes("makes a file system", phrase("it wipes a whole disk"))


def describe_call(words: list[str]) -> Finding:
    """What a program would do, given its words."""
    name = words[0]
    program = PROGRAMS.get(name)
    if program is None:
        if "/" in name:
            trusted = _TRUSTED.fullmatch(name)
            if trusted is None:
                if _LOADER.fullmatch(name.rpartition("/")[2]):
                    return Finding(RUNS, f"`{name}` starts a program file")
                return Finding(RUNS, f"`{name}` is a program that nobody described", [name])
            name = trusted.group(1) or trusted.group(2)
            program = PROGRAMS.get(name)
        if program is None and (versioned := _VERSIONED.fullmatch(name)) is not None:
            program = PROGRAMS.get(versioned.group(1))
        if program is None and _MAKES_FILE_SYSTEM.fullmatch(name):
            program = _FORMAT
        if program is None:
            return Finding(RUNS, f"`{name}` is a program that nobody described")
    return describe(program, name, words[1:])
