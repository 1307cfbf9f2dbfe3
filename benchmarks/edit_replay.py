"""Replays real edits, as they were and damaged the way copies are, and counts what comes out.

    python benchmarks/edit_replay.py [REPOSITORY…] [--pypi NAME…] [--npm NAME…]

Every edit is made in files of several forms: line endings, byte order marks and encodings. Each damage is done to
both texts and to the old one alone. A result is wrong when the file is not, byte by byte, the one that was intended.
Where a damage leaves an old text that stands in the file exactly once, what is left is an exact edit: it counts as
one, and must be made by the letter. So must the exact edits that start or end inside a line, which are made of the
same changes. Where a damage takes from the new text what the edit is about, such as the depth
of its lines, no result can be right but by chance: these are shown, and no bar rests on them. Ends with 1 when
anything came out wrong, an exact edit did not apply, or fewer than 95% did of those damaged in a way that issue 3
names, by damage or by form of file. What a refusal says is tried, too: the text that it offers must be enough for the
next try.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edit_cases import FORMS, cases, forms_of
from edit_damage import DAMAGES, NAMED, Case, says_the_same
from edit_inside import INSIDE, inside_cases
from edit_literal import literal_edit
from edit_retry import retried
from edit_sources import git_changes, npm_changes, pypi_changes
from ferrule.workspace.edits.edit_problems import EditError
from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.edits.multi_edit import edited_bytes
from ferrule.workspace.problems import PathError
from ferrule.workspace.texts.text import decode, require_same_encoding

if TYPE_CHECKING:
    from collections.abc import Iterator

ENOUGH = 0.95
BY_THE_LETTER = "exact, by what is left"
ASKS_FOR_LESS = ", asks for less"


def edit_file(data: bytes, old: str, new: str) -> bytes:
    """The boundary: what the Edit tool does to a file, on its bytes."""
    text = decode(data)
    if text is None:
        raise PathError("binary", "not a text file")
    _, changed = edited_bytes("file", data, text, lambda whole: find_edit(whole, old, new))
    require_same_encoding(text, changed)
    return changed


@dataclass(slots=True)
class Tally:
    right: int = 0
    wrong: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])

    @property
    def total(self) -> int:
        return self.right + self.wrong + self.refused.total()

    def add(self, other: Tally) -> None:
        self.right += other.right
        self.wrong += other.wrong
        self.refused.update(other.refused)

    @property
    def share(self) -> float:
        return self.right / self.total if self.total else 1.0

    def __str__(self) -> str:
        return f"{self.right}/{self.refused.total()}/{self.wrong}" if self.total else "-"


class Replay:
    """Tries cases and keeps the counts, by damage and who suffered it, and by form of the file."""

    def __init__(self, show: int, only: str) -> None:
        self.tallies: defaultdict[tuple[str, str], Tally] = defaultdict(Tally)
        self.retries: Counter[str] = Counter()
        self._show = show
        self._only = only

    def case(self, case: Case) -> None:
        for form, encode, shown in forms_of(case):
            if "trailing" not in form:
                name = "exact" if shown.old in shown.before else "LF for CRLF"
                self._try(Try(name, shown, shown.old, shown.new), form, encode)
            if ("\r\n" in shown.old) != ("\r\n" in shown.new) and "\n" in shown.old and "\n" in shown.new:
                continue  # an edit of the line endings themselves
            for attempt in _damaged(shown):
                if self._only in attempt.name and ("trailing" not in form or "trailing" in attempt.name):
                    self._try(attempt, form, encode)

    def inside(self, name: str, case: Case) -> None:
        """An exact edit that is not one of whole lines."""
        for form, encode, shown in forms_of(case):
            if "trailing" not in form and form != "no last newline":
                self._try(Try(name, shown, shown.old, shown.new), form, encode)

    def _try(self, attempt: Try, form: str, encode: Encode) -> None:
        case = attempt.case
        before, after = encode(case.before), encode(case.after)
        tally = self.tallies[attempt.name, form]
        what = f"{attempt.name}, {form}, {case.name}\n{attempt.old!r}\n--- to\n{attempt.new!r}\n---"
        try:
            result = edit_file(before, attempt.old, attempt.new)
        except PathError as problem:
            tally.refused[problem.code] += 1
            if isinstance(problem, EditError):
                self.retries[retried(problem, case, before, edit_file)] += 1
            if self._show < 0 and problem.code != "several":
                self._show += 1
                print(f"--- refused, {what} {problem}\n", file=sys.stderr)
            return
        if result == after:
            tally.right += 1
            return
        tally.wrong += 1
        if self._show > 0:
            self._show -= 1
            print(f"--- WRONG, {what} {_first_difference(result, after)}\n", file=sys.stderr)


@dataclass(slots=True, frozen=True)
class Try:
    """What is asked for, under which name it counts, and the case, which says what should come of it."""

    name: str
    case: Case
    old: str
    new: str


def _damaged(case: Case) -> Iterator[Try]:
    """Every damage that changes something, to both texts and to one alone."""
    for name, damage in DAMAGES.items():
        old, new = damage(case.old, case), damage(case.new, case)
        alone = damage(case.old, replace(case, new=case.old))
        for who, mine, theirs in (("", old, new), (", old only", alone, case.new), (", new only", case.old, new)):
            if who == ", new only" and (name != "lost final newline" or new == case.new):
                continue  # an exact edit like any other
            if who != ", new only" and mine == case.old:
                continue
            if not mine.strip() or mine == theirs:
                continue
            if who and name == "empty line before" and _after_an_empty_line(case):
                continue  # an empty line that goes on purpose
            literal = literal_edit(case, mine, theirs)
            if literal is None or literal.after == case.after:
                told = says_the_same(name, case) or (who and not re.search("dropped|newline|here and there", name))
                less = "" if told else ASKS_FOR_LESS
                yield Try(f"{name}{who}{less}", case, mine, theirs)
            else:
                yield Try(BY_THE_LETTER, literal, mine, theirs)


def _after_an_empty_line(case: Case) -> bool:
    return case.line > 1 and not case.before.splitlines()[case.line - 2].strip()


def _first_difference(one: bytes, other: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"got {one[max(at - 60, 0) : at + 60]!r}\n    not {other[max(at - 60, 0) : at + 60]!r}"


def report(replay: Replay) -> bool:
    """Print the table; whether the bars hold."""
    names = list(dict.fromkeys(name for name, _ in replay.tallies))
    print(f"right/refused/wrong{'':25}" + "".join(f"{form:>16}" for form in FORMS) + f"{'share':>9}")
    sums: defaultdict[str, Tally] = defaultdict(Tally)
    forms: defaultdict[str, Tally] = defaultdict(Tally)
    low: list[str] = []
    for name in sorted(names, key=_kind):
        row = {form: replay.tallies.get((name, form), Tally()) for form in FORMS}
        whole = Tally()
        for form, tally in row.items():
            whole.add(tally)
            if name in NAMED:
                forms[form].add(tally)
        sums[_kind(name)].add(whole)
        if name in NAMED and whole.share < ENOUGH:
            low.append(name)
        print(f"{name:44}" + "".join(f"{tally!s:>16}" for tally in row.values()) + f"{whole.share:9.1%}")
    print(f"{'all that are named':44}" + "".join(f"{forms[form].share:16.1%}" for form in FORMS))
    low += [form for form in FORMS if forms[form].total and forms[form].share < ENOUGH]
    print()
    for kind, tally in sums.items():
        codes = ", ".join(f"{code} {count}" for code, count in tally.refused.most_common())
        print(f"{kind:20} {tally.total:7} edits: {tally!s:>22} {tally.share:7.1%}  {codes}")
    print("next try after a refusal:", ", ".join(f"{what} {count}" for what, count in replay.retries.most_common()))
    print(f"below {ENOUGH:.0%}:", ", ".join(low) or "none")
    wrong = sum(tally.wrong for kind, tally in sums.items() if kind != ASKS_FOR_LESS)
    return sums["exact"].share == sums[INSIDE].share == 1 and not wrong and not low


def _kind(name: str) -> str:
    if name in ("exact", BY_THE_LETTER):
        return "exact"
    if name.startswith(INSIDE):
        return INSIDE
    if name.endswith(ASKS_FOR_LESS):
        return ASKS_FOR_LESS
    return "named" if name in NAMED else "one text only" if " only" in name else "other"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="*", type=Path)
    parser.add_argument("--pypi", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--npm", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--apart", type=int, default=3, help="how many releases apart the two compared ones are")
    parser.add_argument("--most", type=int, default=60, help="edits for each project")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, help="where downloads stay")
    parser.add_argument("--show", type=int, default=5, help="how many wrong results to print; negative: refusals")
    parser.add_argument("--only", default="", help="a part of the names of the damages to try")
    options = parser.parse_args()
    replay = Replay(options.show, options.only)
    with tempfile.TemporaryDirectory() as temporary:
        cache = options.cache or Path(temporary)
        cache.mkdir(parents=True, exist_ok=True)
        sources = [(str(path), git_changes(path)) for path in options.repositories]
        sources += [(name, pypi_changes(name, cache, options.apart)) for name in options.pypi]
        sources += [(name, npm_changes(name, cache, options.apart)) for name in options.npm]
        if not sources:
            sources = [("this repository", git_changes(Path(__file__).parent.parent))]
        for name, changes in sources:
            changed = list(changes)
            found = cases(changed, options.most, options.seed)
            inside = inside_cases(changed, options.most // 5, options.seed)
            print(f"{name}: {len(found)} edits, {len(inside)} inside a line", file=sys.stderr)
            for case in found:
                replay.case(case)
            for kind, case in inside:
                replay.inside(kind, case)
    return 0 if report(replay) else 1


if TYPE_CHECKING:
    from edit_cases import Encode

if __name__ == "__main__":
    sys.exit(main())
