"""Commands that go through folders: they read what lies there, so a secret below one is theirs too.

`grep -r x .` reads `.env` as surely as `cat .env` does, and asks as that does. The disk is looked at, nearest folders
first, because a folder without a secret in it must not ask.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING

from ferrule.policy.command_paths import folders, matches, places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ferrule.policy.commands.parts import Analysis, Part
    from ferrule.policy.rules import Rule

_SEARCHERS = frozenset({"rg", "ag", "ack", "ugrep", "ug", "rgrep"})
_WITH_A_FLAG = frozenset({"grep", "egrep", "fgrep", "zgrep", "zip"})
_COPIERS = frozenset({"cp", "scp", "diff", "tar", "rsync", "7z", "cpio", "pax"})
_FINDERS = frozenset({"find", "gfind", "fd", "fdfind"})
_SKIPS_HIDDEN = frozenset({"rg", "ag", "ack", "ugrep", "ug", "git", "fd", "fdfind"})
_NAMES = frozenset({"-name", "-iname"})
# What others made, by the thousand, with names that say nothing of the person's secrets.
_OF_OTHERS = frozenset({".git", "node_modules", "__pycache__"})
_MOST_ENTRIES = 50_000


def folders_read(part: Part, analysis: Analysis, directory: str) -> list[str]:
    """The folders that a part goes through, as they really are; none for one that reads the files it names alone."""
    searches = _searches(part)
    fed = not searches and bool(_feeding_finders(part, analysis))
    if not searches and not fed and part.program not in _COPIERS:
        return []
    sources = [one for finder in _feeding_finders(part, analysis) for one in finder.reads] if fed else part.reads
    named = [path for word in sources if word is not None for path, real in places(word, directory) if real]
    named += [os.path.realpath(path) for pattern in part.reads_matching for path in matches(pattern, directory)]
    if not any(map(os.path.lexists, named)) and (searches or fed):
        named = [os.path.realpath(folder) for folder in folders(analysis, directory)]  # unsaid, where they are
    return [path for path in dict.fromkeys(named) if os.path.isdir(path)]  # noqa: PTH112 - the path is text here


def may_read(part: Part, analysis: Analysis) -> Callable[[str], bool]:
    """Which names a part reads on its way: searchers pass hidden ones over, and `find` may look for some alone."""
    finders = _feeding_finders(part, analysis) if not _searches(part) else []
    shows_hidden = all(_reads_hidden(one) for one in finders or [part])
    wanted = [_wanted(finder) for finder in finders]
    if not wanted or None in wanted:
        return lambda name: shows_hidden or not name.startswith(".")
    patterns = [pattern for one in wanted for pattern in one or ()]
    return lambda name: any(fnmatch.fnmatch(name.lower(), pattern.lower()) for pattern in patterns)


def kept_below(
    folder: str,
    rules: Iterable[Rule],
    roots: tuple[str, ...],
    reads: Callable[[str], bool],
    free: Callable[[str], bool],
) -> str | None:
    """The first path below a folder that one of the rules is about, and that is read there; `free` is what may be."""
    names: list[str] = []
    others: list[Rule] = []
    inside = folder if folder.endswith("/") else f"{folder}/"
    for rule in rules:
        if rule.path is None or not rule.path.may_lie_in(folder, roots):
            continue
        if rule.path.name is not None:
            names.append(fnmatch.translate(rule.path.name))
        elif any(base.startswith(inside) and os.path.exists(base) for base in rule.path.bases(roots)):  # noqa: PTH110
            base = next(base for base in rule.path.bases(roots) if base.startswith(inside))
            if _all_read(base[len(inside) :], reads) and not free(base) and not free(f"{base}/x"):
                return base
        else:
            others.append(rule)
    if not names and not others:
        return None
    named = re.compile("|".join(names) or r"(?!)")
    for path, name in _entries(folder, reads):
        concerned = named.match(name) or any(rule.path and rule.path.concerns(path, roots) for rule in others)
        if concerned and not free(path):
            return path
    return None


def _entries(folder: str, reads: Callable[[str], bool]) -> Iterable[tuple[str, str]]:
    """Files below a folder that are read, nearest first; links and other people's heaps are not gone into."""
    pending, left = deque([folder]), _MOST_ENTRIES
    while pending and left > 0:
        try:
            with os.scandir(pending.popleft()) as listed:
                for entry in listed:
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _OF_OTHERS:
                            pending.append(entry.path)
                    elif reads(entry.name):
                        yield entry.path, entry.name
        except OSError:
            continue  # what cannot be listed is not read either


def _all_read(way: str, reads: Callable[[str], bool]) -> bool:
    return all(reads(name) for name in way.split("/"))


def _searches(part: Part) -> bool:
    """Whether it goes through the folder it is in, if it is told of none."""
    if part.program in _WITH_A_FLAG:
        return _has_flag(part, "rR", "recursive", "dereference-recursive", "directories=recurse")
    return part.program in _SEARCHERS or part.words[:2] == ("git", "grep")


def _feeding_finders(part: Part, analysis: Analysis) -> list[Part]:
    """The `find`s whose finds a part is given: `find -exec cat`, and `find | xargs cat`."""
    if None not in part.reads or (_FINDERS.isdisjoint(part.wrappers) and "xargs" not in part.wrappers):
        return []
    return [one for one in analysis.parts if one.program in _FINDERS]


def _reads_hidden(part: Part) -> bool:
    if part.program not in _SKIPS_HIDDEN:
        return True
    if part.program == "git":
        return not {"--untracked", "--no-index"}.isdisjoint(part.words)
    flags = [word for word in part.words[1:] if word.startswith("-")]
    unrestricted = sum(word.count("u") for word in flags if re.fullmatch(r"-[a-zA-Z.]+", word))
    return _has_flag(part, ".H", "hidden", "no-ignore-dot") or unrestricted + flags.count("--unrestricted") > 1


def _wanted(finder: Part) -> list[str] | None:
    """The names that a `find` looks for; None for one that may find any."""
    found = [value for flag, value in pairwise(finder.words) if flag in _NAMES]
    loose = not found or not finder.fixed or not {"!", "-not", "-o", "-or", ","}.isdisjoint(finder.words)
    return None if loose else found


def _has_flag(part: Part, letters: str, *long: str) -> bool:
    for word in part.words[1:]:
        if word.startswith("--"):
            if any(word == f"--{one}" for one in long):
                return True
        elif word.startswith("-") and not set(letters).isdisjoint(word[1:]):
            return True
    return False
