"""Gathering what is found: parts in their place, with the files that they read and write, and the dangers of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase

from .expansion import Loose, expand
from .finding import READS, RUNS, WRITES, Finding, worse
from .hazards import danger_of_writing, is_raw_device, is_secret
from .parts import Danger, Effect, Part
from .surroundings import Surroundings, is_no_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .syntax import Redirect


_LONGEST_REASON = 200


def brief(reason: str) -> str:
    """A reason that quotes the command stays short, however long that is."""
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"


class Gatherer:
    """Parts, dangers and doubts, as they come."""

    def __init__(self, directory: str | None, home: str | None) -> None:
        self.parts: list[Part] = []
        self.dangers: list[Danger] = []
        self.unclear: list[str] = []
        self.here = Surroundings(directory, home)
        self.wrappers: tuple[str, ...] = ()
        self.floor: tuple[Effect, str] = (READS, "")
        """The least effect that parts have for what they are wrapped in, and why."""

    def part(self, text: str, words: tuple[str, ...], finding: Finding) -> None:
        """Add a part, its paths seen from where the command starts."""
        effect, why = finding.effect, finding.why
        if self.floor[0] is not READS and worse(self.floor[0], effect) is not effect:
            effect, why = self.floor
        reads: tuple[str | None, ...] = ()
        writes: tuple[str | None, ...] = ()
        globs: tuple[str, ...] = ()
        if finding.reads:
            reads, globs = self.here.paths(finding.reads)
            for path in reads:
                if path is not None and is_raw_device(path):
                    self.dangers.append(Danger(text, phrase("it reads a whole disk or the memory, past all rights")))
        if finding.writes:
            writes, patterns = self.here.paths(finding.writes)
            writes = (*writes, *([None] if patterns else []))
            for path in writes:
                if path is not None and (danger := danger_of_writing(path)):
                    self.dangers.append(Danger(text, danger))
        fixed = Loose not in map(type, words)
        if not fixed and effect is not READS:
            placed, patterns = self.here.paths(word for word in words if isinstance(word, Loose) and word.globs)
            globs = tuple(dict.fromkeys((*globs, *patterns)))
            if None in placed and None not in reads:
                reads = (*reads, None)
        self.parts.append(
            Part(text, words, effect, brief(why), reads, writes, tuple(finding.hosts), fixed, self.wrappers, globs)
        )

    def redirected(self, text: str, redirects: list[Redirect], source: str) -> None:
        """A part of its own for what is no program but is redirected."""
        finding = Finding(READS, "it only redirects")
        self.redirects(redirects, source, finding)
        if finding.reads or finding.writes or finding.effect is not READS:
            self.part(text, (), finding)

    def redirects(self, redirects: Iterable[Redirect], source: str, finding: Finding) -> None:
        """Add to `finding` what the redirections read, write and reach."""
        reads, writes = list(finding.reads), list(finding.writes)
        for redirect in redirects:
            operator = redirect.operator
            if operator.startswith("<<"):
                continue
            targets = expand(redirect.target, self.here.variables, source)
            target = targets[0] if len(targets) == 1 else Loose(source[redirect.target.start : redirect.target.end])
            if operator in ("<&", ">&") and (target == "-" or target.rstrip("-").isdigit()):
                continue
            start = target.start if isinstance(target, Loose) else target
            if start.startswith(("/dev/tcp/", "/dev/udp/")) or (start != target and start.startswith("/dev/")):
                finding.effect, finding.why = RUNS, f"`{operator} {target}` talks to another machine"
                finding.hosts = [
                    *finding.hosts,
                    target.split("/")[3] if start == target and target.count("/") > 3 else None,
                ]
                self.dangers.append(
                    Danger(
                        f"{operator} {target}",
                        phrase("it talks to another machine past all other programs"),
                    )
                )
                continue
            if operator in ("<", "<>", "<&"):
                reads.append(target)
            if operator not in ("<", "<&") and not is_no_file(target):
                writes.append(target)
                if finding.effect is READS:
                    finding.effect, finding.why = WRITES, f"`{operator} {target}` writes a file"
        finding.reads, finding.writes = reads, writes

    def finish(self) -> None:
        """What only the whole shows: secrets read in a command that also reaches the network."""
        if not any(part.hosts for part in self.parts):
            return
        for part in self.parts:
            for path in part.reads:
                if path is not None and is_secret(path):
                    self.dangers.append(
                        Danger(part.text, phrase("what `{path}` holds could leave over the network", path=path))
                    )
            if part.program in ("env", "printenv"):
                self.dangers.append(
                    Danger(part.text, phrase("the environment, with its secrets, could leave over the network"))
                )
