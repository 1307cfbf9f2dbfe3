"""Rules as they were written, checked when they are loaded: one that cannot work is an error, not a surprise."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined, phrase
from ferrule.pipeline.stages import Verdict
from ferrule.policy.commands.parts import Part
from ferrule.policy.findings import Requests
from ferrule.policy.rules import BASH, EDITS, FETCH, READ, About, parse_rule
from ferrule.policy.sources import RuleError, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ferrule.core.tool import Tool
    from ferrule.policy.findings import Analyser
    from ferrule.policy.rules import Rule

# Names that rules may use before their tool is there, or without one: kinds of resource, and tools others have.
_ALWAYS_KNOWN = (BASH, READ, *EDITS, FETCH, "WebSearch", "MultiEdit", "Grep", "Glob", "LS", "FileSearch", "BashOutput",
                 "KillShell", "BashInput", "executeCommand")  # fmt: skip


@dataclass(slots=True, frozen=True)
class Written:
    """A rule as it stands in a file, with examples of what it is for and what it is not for."""

    verdict: Verdict
    text: str
    source: Source = field(default_factory=Source)
    match: Sequence[str] = ()
    no_match: Sequence[str] = ()


@dataclass(slots=True, frozen=True)
class KnownTools:
    """The tools there are. `complete` is false where some could not be loaded."""

    get: Callable[[str], Tool[Any] | None]
    names: Sequence[str]
    complete: bool = True


@dataclass(slots=True)
class Checked:
    """The rules that hold, and what should be said of them."""

    rules: list[Rule] = field(default_factory=list["Rule"])
    notes: list[str] = field(default_factory=list[str])


class RuleChecks:
    """Reads rules and tries their examples."""

    def __init__(self, workspace: Path, known: KnownTools | None = None, analyser: Analyser | None = None) -> None:
        self._workspace = Path(os.path.realpath(workspace))
        self._known = known
        self._requests = Requests(analyser)

    def read(self, written: Iterable[Written]) -> Checked:
        """All rules; raises `RuleError` with the file, the rule, and what to do about the first that cannot work."""
        checked = Checked()
        for one in written:
            try:
                rule = parse_rule(one.text, one.verdict, one.source)
                note = self._check_name(rule)
                self._check_examples(rule, one)
            except RuleError as error:
                words: dict[str, object] = {
                    "place": one.source.place,
                    "verdict": one.verdict.value,
                    "text": one.text,
                    "error": error,
                }
                told = (
                    phrase("{place}: the {verdict} rule `{text}` cannot work: {error}", **words)
                    if str(error).endswith("?")
                    else phrase("{place}: the {verdict} rule `{text}` cannot work: {error}.", **words)
                )
                if one.source.file is not None:  # one of the command line or a program stands nowhere else
                    quoted = shlex.quote(one.text)
                    mend = phrase(
                        "Nothing runs until it is mended or removed: ferrule rules remove {quoted}", quoted=quoted
                    )
                    told = joined(" ", [told, mend])
                raise RuleError(told) from None
            checked.rules.append(rule)
            checked.notes += [f"{one.source.place}: {note}"] if note else []
        return checked

    def fits(self, rule: Rule, subject: str) -> bool:
        """Whether a rule is about a command, a path, a host, a tool's name, or what a tool says of a call."""
        if rule.about is About.TOOL:
            return rule.names(subject)
        if rule.host is not None:
            return rule.host.covers(subject) if rule.verdict is Verdict.ALLOW else rule.host.concerns(subject)
        if rule.path is not None:
            path = os.path.realpath(self._workspace / Path(subject).expanduser())
            look = rule.path.covers if rule.verdict is Verdict.ALLOW else rule.path.concerns
            return look(path, (str(self._workspace),))
        command = rule.command
        if command is None or command.is_whole(subject):
            return True
        if rule.about is About.CALL:
            return command.matches_text(subject)
        parts = self._parts(subject)
        if rule.verdict is Verdict.ALLOW:
            return bool(parts) and all(command.covers(part) for part in parts)
        return command.concerns_text(subject) or any(command.concerns(part, subject) for part in parts)

    def _parts(self, command: str) -> Sequence[Part]:
        found = self._requests.understood(command)
        if found.parts:
            return found.parts
        try:
            words = tuple(shlex.split(command))
        except ValueError:
            words = ()
        return [Part(command, words, words)] if words else []

    def _check_examples(self, rule: Rule, written: Written) -> None:
        for example in written.match:
            if not self.fits(rule, example):
                raise RuleError(phrase("its example `{example}` under `match` does not match", example=example))
        for example in written.no_match:
            if self.fits(rule, example):
                raise RuleError(phrase("its example `{example}` under `no_match` matches", example=example))

    def _check_name(self, rule: Rule) -> str | None:
        known, name = self._known, rule.tool
        if known is None or "*" in name or name.startswith("mcp__"):
            return None
        tool = known.get(name)
        if tool is not None:
            if rule.about is About.CALL and not tool.has_signature:
                raise RuleError(
                    phrase(
                        "`{name}` says nothing of its calls that brackets could be compared with; write `{name}`",
                        name=name,
                    )
                )
            return None
        if name in _ALWAYS_KNOWN:
            return None
        close = nearest(name, [*known.names, *_ALWAYS_KNOWN], most=1)
        if close and known.complete:
            raise RuleError(phrase("there is no tool `{name}`; did you mean `{close}`?", name=name, close=close[0]))
        return f"the {rule.verdict.value} rule `{rule.text}` names no tool that is here."
