"""Replays real edits, as they were and damaged the way copies are, and counts what comes out.

    python benchmarks/edit_replay.py [REPOSITORY…] [--pypi NAME…] [--npm NAME…]

Every edit is made in files of several forms: line endings, byte order marks and encodings. Each damage is done to both
texts, to the old one alone and to the new one alone. Ends with 1 when anything came out wrong, an exact edit did not
apply, or fewer than 95% of those damaged in a way that issue 3 names did. Nothing is left out of the count of wrong
results but what is the right result of another edit that the damage makes look the same, letter by letter. What a
refusal says is tried, too: the text that it offers must be enough for the next try.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edit_cases import FORMS, cases, forms_of
from edit_damage import DAMAGES, NAMED, Case, look_alikes
from edit_retry import retried
from edit_sources import git_changes, npm_changes, pypi_changes
from ferrule.workspace.edits.edit_problems import EditProblem
from ferrule.workspace.edits.edited_bytes import edited_bytes
from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.texts.same_encoding import require_same_encoding
from ferrule.workspace.texts.text import decode

if TYPE_CHECKING:
    from collections.abc import Iterator


def edit_file(data: bytes, old: str, new: str) -> bytes:
    """The boundary: what the Edit tool does to a file, on its bytes."""
    text = decode(data)
    if text is None:
        raise PathProblem("binary", "not a text file")
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

    def __str__(self) -> str:
        return f"{self.right}/{self.refused.total()}/{self.wrong}" if self.total else "-"


class Replay:
    """Tries cases and keeps the counts, by damage and who suffered it, and by form of the file."""

    def __init__(self, show: int, only: str) -> None:
        self.tallies: defaultdict[tuple[str, str], Tally] = defaultdict(Tally)
        self.retries: Counter[str] = Counter()
        self.look_alikes: Counter[str] = Counter()
        """Results that are right for another edit which looks the same once damaged."""
        self._show = show
        self._only = only

    def case(self, case: Case) -> None:
        for form, encode, shown in forms_of(case):
            if "trailing" not in form:
                name = "exact" if shown.old in shown.before else "LF for CRLF"
                self._try(name, form, encode, shown, shown.old, shown.new, [])
            for name, old, new, others in _damaged(shown, form):
                if self._only in name and ("trailing" not in form or "trailing" in name):
                    self._try(name, form, encode, shown, old, new, others)

    def _try(self, name: str, form: str, encode: Encode, case: Case, old: str, new: str, others: list[str]) -> None:
        before, after = encode(case.before), encode(case.after)
        tally = self.tallies[name, form]
        try:
            result = edit_file(before, old, new)
        except PathProblem as problem:
            tally.refused[problem.code] += 1
            if isinstance(problem, EditProblem):
                self.retries[retried(problem, case, before, edit_file)] += 1
            if self._show < 0 and problem.code != "several":
                self._show += 1
                print(
                    f"--- refused, {name}, {form}, {case.name}\n{old!r}\n--- to\n{new!r}\n{problem}\n", file=sys.stderr
                )
            return
        if result == after:
            tally.right += 1
            return
        if any(result == encode(_with_new(case, other)) for other in others):
            self.look_alikes[name] += 1
            return
        tally.wrong += 1
        if self._show > 0:
            self._show -= 1
            diff = _first_difference(result, after)
            print(f"--- WRONG, {name}, {form}, {case.name}\n{old!r}\n--- to\n{new!r}\n--- {diff}\n", file=sys.stderr)


def _damaged(case: Case, form: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Every damage that changes something, the texts as they then are, and what else they might come from."""
    for name, damage in DAMAGES.items():
        if "newline" in name and (form == "no last newline" or case.old.endswith(("\n\n", "\r\n\r\n"))):
            continue  # an edit of its own, of one line less
        if "newline" in name and case.old.endswith("\n") and case.new and not case.new.endswith("\n"):
            continue  # the edit itself takes the last line ending away
        old, new = damage(case.old, case), damage(case.new, case)
        alone = damage(case.old, replace(case, new=case.old))
        for who, mine, theirs in (("both", old, new), ("old only", alone, case.new), ("new only", case.old, new)):
            if who == "new only" and (name != "lost final newline" or new == case.new or not case.old.endswith("\n")):
                continue  # the other damages of a new text alone are edits of their own
            if who != "new only" and mine == case.old:
                continue
            if (
                who == "old only"
                and name in ("CRLF for LF", "empty line before")
                and _plain(mine) in _plain(case.before)
            ):
                continue  # line endings or an empty line that go on purpose
            if not mine.strip() or _by_the_letter(mine, theirs, case):
                continue
            others = [] if who == "new only" else list(look_alikes(name, case, old_only=who != "both"))
            yield (name if who == "both" else f"{name}, {who}"), mine, theirs, others


def _by_the_letter(old: str, new: str, case: Case) -> bool:
    """Whether what is left is, by chance, another exact edit: of another place, or of whole lines, one more or less."""
    before, after, true, old, new = map(_plain, (case.before, case.after, case.old, old, new))
    at, place = before.find(old), before.find(true)
    if at < 0 or before.find(old, at + 1) >= 0:
        return False
    elsewhere = at >= place + len(true) or at + len(old) <= place
    whole_lines = before[at - 1 : at] in ("", "\n") and old.endswith("\n") and (not new or new.endswith("\n"))
    # Lines that were joined: the last one is empty, and its own line ending stays.
    whole_lines = whole_lines or (old.endswith("\n") and before[at + len(old) :][:1] in ("", "\n"))
    margins = at and before[at - 1] in " \t" and _indentation(case.old) != _indentation(case.new)
    plain = before[:at] + new + before[at + len(old) :]
    return elsewhere or ((whole_lines or bool(margins)) and plain != after)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _indentation(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


def _with_new(case: Case, new: str) -> str:
    if case.old in case.before:
        return case.before.replace(case.old, new)
    return case.before.replace(case.old.replace("\n", "\r\n"), new.replace("\n", "\r\n"))


def _first_difference(one: bytes, other: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"got {one[max(at - 60, 0) : at + 60]!r}\n    not {other[max(at - 60, 0) : at + 60]!r}"


def report(replay: Replay) -> bool:
    """Print the table; whether the bars hold."""
    names = list(dict.fromkeys(name for name, _ in replay.tallies))
    print(f"right/refused/wrong{'':25}" + "".join(f"{form:>16}" for form in FORMS) + f"{'share':>9}")
    sums: defaultdict[str, Tally] = defaultdict(Tally)
    for name in names:
        row = [replay.tallies.get((name, form), Tally()) for form in FORMS]
        whole = Tally()
        for tally in row:
            whole.add(tally)
        kind = "exact" if name == "exact" else "one text only" if " only" in name else "other"
        sums["named" if name in NAMED else kind].add(whole)
        share = whole.right / max(whole.total, 1)
        print(f"{name:44}" + "".join(f"{tally!s:>16}" for tally in row) + f"{share:9.1%}")
    print()
    for name, tally in sums.items():
        codes = ", ".join(f"{code} {count}" for code, count in tally.refused.most_common())
        share = tally.right / max(tally.total, 1)
        print(f"{name:20} {tally.total:7} edits: {tally!s:>22} {share:7.1%}  {codes}")
    print("next try after a refusal:", ", ".join(f"{what} {count}" for what, count in replay.retries.most_common()))
    print("right for another edit that looks the same:", ", ".join(f"{a} {b}" for a, b in replay.look_alikes.items()))
    wrong = sum(tally.wrong for tally in sums.values())
    exact, named = sums["exact"], sums["named"]
    return exact.right == exact.total and not wrong and named.right >= 0.95 * named.total


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
            found = cases(changes, options.most, options.seed)
            print(f"{name}: {len(found)} edits", file=sys.stderr)
            for case in found:
                replay.case(case)
    return 0 if report(replay) else 1


if TYPE_CHECKING:
    from edit_cases import Encode

if __name__ == "__main__":
    sys.exit(main())
