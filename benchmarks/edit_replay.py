"""Replays real edits, as they were and damaged the way copies are, and counts what comes out.

    python benchmarks/edit_replay.py [REPOSITORY…] [--pypi NAME…] [--npm NAME…]

Ends with 1 when anything came out wrong, an exact edit did not apply, or fewer than 95% of those damaged in a way that
issue 3 names did. Where the damage makes lines look alike that the edit makes different ("hides the change"), no reader
could tell what was meant: these are counted apart.
"""

from __future__ import annotations

import argparse
import codecs
import hashlib
import random
import re
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from edit_damage import DAMAGES, NAMED, TYPOGRAPHIC, Case, dedented_alone, hides_the_change, numbered, trailing_dropped
from edit_sources import git_changes, npm_changes, pypi_changes
from ferrule.workspace.edits.edit_problems import EditProblem
from ferrule.workspace.edits.edit_spans import apply_spans
from ferrule.workspace.edits.matching import find_edit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from edit_sources import Change

_BOMS = {"utf-8-sig": codecs.BOM_UTF8, "utf-16": codecs.BOM_UTF16_LE}
_CODECS = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le"}
_ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "gb18030")


def edit_file(data: bytes, encoding: str, old: str, new: str) -> bytes:
    """The boundary: what the Edit tool does to a file, on its bytes."""
    bom = _BOMS.get(encoding, b"")
    text = data[len(bom) :].decode(_CODECS.get(encoding, encoding))
    return _encoded(apply_spans(text, find_edit(text, old, new).spans), encoding)


def _encoded(text: str, encoding: str) -> bytes:
    return _BOMS.get(encoding, b"") + text.encode(_CODECS.get(encoding, encoding))


@dataclass(slots=True)
class Tally:
    right: int = 0
    wrong: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])

    @property
    def total(self) -> int:
        return self.right + self.wrong + self.refused.total()


class Replay:
    """Tries cases and keeps the counts."""

    def __init__(self, show: int) -> None:
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self._show = show
        self._encoding = 0

    def case(self, case: Case) -> None:
        for variant, shown in _variants(case):
            self._try("exact", shown, shown.old, shown.new)
            for name, damage in DAMAGES.items():
                if ("CRLF" in name) != (variant == "crlf") or ("trailing space dropped" in name) != (
                    variant == "trailing"
                ):
                    continue
                old, new = damage(shown.old, shown), damage(shown.new, shown)
                if "lost" in name and shown.old.endswith(("\n\n", "\r\n\r\n")):
                    continue  # an edit all the same, of one line less
                if old == shown.old or (damage is numbered and not shown.old.strip()):
                    continue
                if _stands_elsewhere(old, shown):
                    continue  # by chance an exact edit of another place
                hidden = " (hides the change)" if hides_the_change(damage, shown) else ""
                self._try(f"{name}{hidden}", shown, old, new)
                if damage is not dedented_alone:
                    self._old_only(name, shown, damage(shown.old, replace(shown, new=shown.old)))

    def _old_only(self, name: str, case: Case, old: str) -> None:
        """The old text alone is damaged; the new one is as it should be."""
        if old != case.old and not _stands_elsewhere(old, case):
            hidden = " (hides the change)" if _hidden_in_old(old, case) else ""
            self._try(f"{name}, old only{hidden}", case, old, case.new)

    def _try(self, name: str, case: Case, old: str, new: str) -> None:
        encoding = _ENCODINGS[self._encoding % len(_ENCODINGS)]
        self._encoding += 1
        tally = self.tallies[name]
        try:
            result = edit_file(_encoded(case.before, encoding), encoding, old, new)
        except EditProblem as problem:
            tally.refused[problem.code] += 1
            if self._show < 0 and problem.code != "several":
                self._show += 1
                print(f"--- refused, {name}, {case.name}\n{old}\n--- to\n{new}\n{problem.message}\n", file=sys.stderr)
            return
        if result == _encoded(case.after, encoding):
            tally.right += 1
            return
        tally.wrong += 1
        if self._show > 0:
            self._show -= 1
            diff = _first_difference(result, _encoded(case.after, encoding))
            print(f"--- WRONG, {name}, {case.name}\n{old!r}\n--- to\n{new!r}\n--- {diff}\n", file=sys.stderr)


def _stands_elsewhere(old: str, case: Case) -> bool:
    plain = re.sub(r"(?m)^ *\d+\t", "", old).replace("\r\n", "\n")
    return plain not in case.old.replace("\r\n", "\n") and plain in case.before.replace("\r\n", "\n")


def _hidden_in_old(old: str, case: Case) -> bool:
    """Whether a line that the edit changes looks, once damaged, like the changed line."""
    if case.old.endswith("\n") != case.new.endswith("\n") and old.endswith("\n") == case.new.endswith("\n"):
        return True
    if TYPOGRAPHIC.search(old) and set(TYPOGRAPHIC.findall(case.new)) - set(case.old):
        return True
    new = set(case.new.splitlines())
    return old == case.new or any(
        damaged != true and damaged in new
        for damaged, true in zip(re.sub(r"(?m)^ *\d+\t", "", old).splitlines(), case.old.splitlines(), strict=False)
    )


def _first_difference(one: bytes, other: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"got {one[max(at - 60, 0) : at + 60]!r}\n    not {other[max(at - 60, 0) : at + 60]!r}"


def _variants(case: Case) -> Iterator[tuple[str, Case]]:
    yield "plain", case
    if "\r" not in case.before + case.after:
        yield "crlf", _mapped(case, lambda line: line.replace("\n", "\r\n"))
    if trailing_dropped(case.old, case) != case.old:
        yield "trailing", case
    else:
        was, will = (Counter(text.splitlines(keepends=True)) for text in (case.before, case.after))
        known = {line for line in was if was[line] == 1 >= will[line]}
        yield "trailing", _mapped(case, lambda line: _with_trailing(line) if line in known else line)


def _with_trailing(line: str) -> str:
    """Some lines, always the same ones, with blanks at the end."""
    body = line.rstrip("\n")
    if hashlib.blake2b(body.encode(), digest_size=1).digest()[0] % 4 or len(body.strip()) < 12:
        return line
    return f"{body}  {line[len(body) :]}"


def _mapped(case: Case, change: Callable[[str], str]) -> Case:
    def whole(text: str) -> str:
        return "".join(map(change, text.splitlines(keepends=True)))

    return replace(case, before=whole(case.before), after=whole(case.after), old=whole(case.old), new=whole(case.new))


def cases(changes: Iterable[Change], most: int, seed: int) -> list[Case]:
    """Edits of one hunk each, with as little context as makes them unique, or a little more."""
    chance = random.Random(seed)
    found: list[Case] = []
    for path, before_bytes, after_bytes in changes:
        try:
            before, after = before_bytes.decode(), after_bytes.decode()
        except UnicodeDecodeError:
            continue
        if (
            "\0" in before
            or max(len(before), len(after)) > 120_000
            or set(before) & set("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
        ):
            continue
        if "\r" in before.replace("\r\n", "") or "\r" in after.replace("\r\n", ""):
            continue
        found += _hunks(path, before, after, chance)
    chance.shuffle(found)
    return found[:most]


def _hunks(path: str, before: str, after: str, chance: random.Random) -> Iterator[Case]:
    olds, news = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, olds, news, autojunk=False).get_opcodes():
        if tag == "equal" or i2 - i1 > 60 or j2 - j1 > 60:
            continue
        extra = chance.choice((0, 0, 1, 2, 3))
        for context in range(8):
            first, last = max(i1 - context - extra, 0), min(i2 + context + extra, len(olds))
            old = "".join(olds[first:last])
            if old and before.find(old) == before.rfind(old):
                new = "".join([*olds[first:i1], *news[j1:j2], *olds[i2:last]])
                expected = "".join([*olds[:i1], *news[j1:j2], *olds[i2:]])
                yield Case(f"{path}:{first + 1}", before, expected, old, new, first + 1)
                break


def report(replay: Replay) -> bool:
    """Print the table; whether the bars hold. What only the old text suffered must not come out wrong either."""
    print(f"{'':54}{'cases':>8}{'right':>8}{'refused':>8}{'WRONG':>7}")
    sums = {"named damages": Tally(), "other damages": Tally(), "old text only": Tally(), "hides the change": Tally()}
    for name, tally in replay.tallies.items():
        _row(name, tally)
        if name != "exact":
            kind = sums[_kind(name)]
            kind.right += tally.right
            kind.wrong += tally.wrong
            kind.refused.update(tally.refused)
    print()
    for name, tally in sums.items():
        _row(name, tally)
    exact, named = replay.tallies["exact"], sums["named damages"]
    wrong = sum(tally.wrong for name, tally in sums.items() if name != "hides the change")
    return exact.right == exact.total and not wrong and named.right >= 0.95 * named.total


def _kind(name: str) -> str:
    if "hides the change" in name:
        return "hides the change"
    if "old only" in name:
        return "old text only"
    return "named damages" if name in NAMED else "other damages"


def _row(name: str, tally: Tally) -> None:
    codes = ", ".join(f"{code} {count}" for code, count in tally.refused.most_common())
    share = tally.right / max(tally.total, 1)
    print(f"{name:54}{tally.total:8}{tally.right:8}{tally.refused.total():8}{tally.wrong:7}{share:8.1%}  {codes}")


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
    options = parser.parse_args()
    replay = Replay(options.show)
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


if __name__ == "__main__":
    sys.exit(main())
