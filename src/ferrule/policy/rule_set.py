"""Rules of one list, sorted by what they look at, so that a call meets only those that can be about it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ferrule.policy.rules import BASH, About

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ferrule.policy.commands.parts import Part
    from ferrule.policy.rules import Rule


@dataclass(slots=True)
class RuleSet:
    """Rules of one list. Every question gives the rule that answers it, or None."""

    rules: list[Rule] = field(default_factory=list["Rule"])
    _of: dict[About, list[Rule]] = field(default_factory=dict[About, "list[Rule]"])
    _names: dict[str, Rule | None] = field(default_factory=dict[str, "Rule | None"])
    _unions: dict[tuple[object, ...], re.Pattern[str]] = field(
        default_factory=dict[tuple[object, ...], "re.Pattern[str]"]
    )

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> RuleSet:
        made = cls()
        for rule in rules:
            made.add(rule)
        return made

    def add(self, rule: Rule) -> None:
        self.rules.append(rule)
        self._of.setdefault(rule.about, []).append(rule)
        self._names.clear()
        self._unions.clear()

    def __bool__(self) -> bool:
        return bool(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def about(self, *subjects: About) -> bool:
        """Whether any rule looks at one of these."""
        return any(subject in self._of for subject in subjects)

    def listed(self, subject: About) -> Sequence[Rule]:
        return self._of.get(subject, ())

    def tool(self, name: str, *, runs_commands: bool = False) -> Rule | None:
        """The rule that names a tool; `Bash` names every tool that runs commands."""
        if not self.about(About.TOOL):
            return None
        key = f"{name}\0{runs_commands}"
        if key not in self._names:
            if len(self._names) > 10_000:
                self._names.clear()
            self._names[key] = next(
                (rule for rule in self._of[About.TOOL] if rule.names(name) or (runs_commands and rule.tool == BASH)),
                None,
            )
        return self._names[key]

    # For an allow list: it must fit

    def covering_part(self, part: Part, tool: str) -> Rule | None:
        return next((rule for rule in self.commands(tool) if rule.command and rule.command.covers(part)), None)

    def covering_command(self, command: str, tool: str) -> Rule | None:
        """The rule that is this very command, to the letter."""
        return next((rule for rule in self.commands(tool) if rule.command and rule.command.is_whole(command)), None)

    def covering_path(self, path: str, roots: Sequence[str], *, write: bool, naming: Rule | None = None) -> Rule | None:
        """The rule that covers a path. Where Ferrule itself asks about it (`naming`), a rule for all paths is not
        enough to write it: it must name the place.
        """
        place = naming.path if naming is not None and write else None
        return next(
            (
                rule
                for rule in self._paths(write)
                if rule.path
                and rule.path.covers(path, roots)
                and (place is None or place.is_named_by(rule.path, roots))
            ),
            None,
        )

    def covering_host(self, host: str) -> Rule | None:
        return next((rule for rule in self.listed(About.HOST) if rule.host and rule.host.covers(host)), None)

    # For a deny or ask list: it must be about it

    def concerning_part(self, part: Part, command: str, tool: str) -> Rule | None:
        return next(
            (rule for rule in self.commands(tool) if rule.command and rule.command.concerns(part, command)), None
        )

    def concerning_command(self, command: str, tool: str) -> Rule | None:
        return next(
            (rule for rule in self.commands(tool) if rule.command and rule.command.concerns_text(command)), None
        )

    def concerning_path(self, path: str, roots: Sequence[str], *, write: bool) -> Rule | None:
        rules = self._paths(write)
        # One look at all of them first: a search asks about every file, and hardly any has a rule.
        if not rules or not self.any_path(roots, write=write).fullmatch(path):
            return None
        return next((rule for rule in rules if rule.path and rule.path.concerns(path, roots)), None)

    def concerning_host(self, host: str) -> Rule | None:
        return next((rule for rule in self.listed(About.HOST) if rule.host and rule.host.concerns(host)), None)

    # For any list

    def call(self, tool: str, signature: str) -> Rule | None:
        """The rule that fits what a tool says of a call."""
        return next(
            (
                rule
                for rule in self.listed(About.CALL)
                if rule.tool == tool and rule.command and rule.command.matches_text(signature)
            ),
            None,
        )

    def commands(self, tool: str) -> Iterator[Rule]:
        """The rules about commands that hold for a tool which runs them."""
        yield from self.listed(About.COMMAND)
        yield from (rule for rule in self.listed(About.CALL) if rule.tool == tool)

    def any_path(self, roots: Sequence[str], *, write: bool) -> re.Pattern[str]:
        """What fits every path that a rule may be about, and few others."""
        key = write, os.environ.get("HOME"), *roots
        if key not in self._unions:
            shapes = [shape for rule in self._paths(write) if rule.path for shape in rule.path.wide_shapes(roots)]
            self._unions[key] = re.compile("|".join(f"(?:{shape})" for shape in shapes), re.DOTALL)
        return self._unions[key]

    def _paths(self, write: bool) -> Sequence[Rule]:
        return self.listed(About.WRITE if write else About.READ)
