"""Weighs a command part by part: which rules are about it, and whether each part may run for real.

What lacks leave is not refused: it is tried in a box that holds its effects back, and judged by what it did. So nothing
here has to know what a program does. Only what is denied must be found beforehand, however it is written.
"""

from __future__ import annotations

import glob
import os
import shlex
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.policy.commands.parts import Guess
from ferrule.policy.findings import Finding, weigh_path
from ferrule.policy.rules import About

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ferrule.policy.commands.parts import Analysis, Part
    from ferrule.policy.findings import Lists, Request
    from ferrule.policy.rules import Rule

# Beside a part that a rule allows these need none of their own: they print, or change the shell's folder, no more.
_BUILTINS = frozenset({"cd", "pushd", "popd", "pwd", "echo", "true", "false", ":", "test", "[", "exit"})
# The same of these where a pipe feeds them.
_FILTERS = frozenset({"head", "tail", "wc", "cat", "grep", "cut", "tr"})
# Of these no word names a file, or the first does not.
_SAY_ONLY = frozenset({"echo", "printf", "export", "declare", "local", "readonly", "alias", "set", "exit", "return"})
_PATTERN_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "gawk", "jq", "find", "git"})
_MOST_MATCHES = 500
_REMOVERS = frozenset({"rm", "rmdir", "mv", "shred", "unlink"})
_WRITERS = _REMOVERS | {"tee", "touch", "mkdir", "cp", "ln", "install", "truncate", "chmod", "chown", "rsync", "sed"}


@dataclass(slots=True, frozen=True)
class ShellNames:
    """What earlier commands of a session made of the names of its shell."""

    defined: Mapping[str, str]
    """Functions and aliases, each with its text."""
    tainted: bool
    """Whether any name stands for something else by the doing of a command that nobody approved: rules for commands
    then give no leave, for their words may not mean what they say."""
    understood: Callable[[str], Analysis]

    def behind(self, part: Part) -> Iterator[Analysis]:
        """What the functions and aliases that a part calls run, and those that they call."""
        waiting, seen = [part], set[str]()
        while waiting:
            one = waiting.pop()
            text = self.defined.get(one.program)
            if text is None or one.program in seen:
                continue
            seen.add(one.program)
            if text.startswith("()"):
                text = f"called {text}"
            else:  # an alias stands in the place of its name
                given = ('"$@"' if isinstance(word, Guess) else shlex.quote(word) for word in one.words[1:])
                text = " ".join((text, *given))
            analysis = self.understood(text)
            yield analysis
            waiting += analysis.parts


def weigh_command(analysis: Analysis, tool: str, request: Request, lists: Lists, names: ShellNames) -> list[Finding]:
    """A finding for each part, and one for what could not be read."""
    tainted = names.tainted
    named = next((rule for rules in lists.allow if (rule := rules.tool(tool, runs_commands=True))), None)
    findings = [_weigh_part(part, analysis, tool, request, lists, named) for part in analysis.parts]
    if names.defined and (lists.deny or lists.ask):
        for part, finding in zip(analysis.parts, findings, strict=True):
            for behind in names.behind(part):
                _weigh_behind(behind, finding, tool, lists)
    beside = any(finding.rule is not None for finding in findings)
    for part, finding in zip(analysis.parts, findings, strict=True):
        if beside and not finding.leave and not finding.need and needs_no_rule(part):
            finding.leave = phrase("it needs no rule beside a part that is allowed")
    if analysis.unclear or not findings:
        findings.append(_unclear(analysis, tool, lists, named))
    whole = next((rule for rules in lists.allow if (rule := rules.covering_command(analysis.command, tool))), None)
    for finding in findings:
        if whole is not None and not tainted and not finding.names_kept:
            finding.leave, finding.rule, finding.need = phrase("{rule} allows it", rule=whole.words), whole, ""
        elif tainted and named is None and finding.leave and analysis.parts:
            finding.rule = None
            finding.lacks(
                phrase("an unapproved command changed names of the shell, so rules for commands do not apply")
            )
        elif not finding.leave and not finding.need:
            finding.need = phrase("no rule allows `{part}`", part=finding.what)
    for host in analysis.hosts:
        findings[0].denied = findings[0].denied or lists.deny.concerning_host(host)
        findings[0].asked = findings[0].asked or lists.ask.concerning_host(host)
    return findings


def may_be_denied(analysis: Analysis, lists: Lists) -> bool:
    """Whether a path or host that is denied may hide in what is only known once the command runs."""
    open_ended = bool(analysis.unclear) or not all(part.known for part in analysis.parts)
    return open_ended and lists.deny.about(About.READ, About.WRITE, About.HOST)


def _weigh_part(
    part: Part, analysis: Analysis, tool: str, request: Request, lists: Lists, named: Rule | None
) -> Finding:
    finding = Finding(part.text, "runs", _about(part))
    finding.denied = lists.deny.concerning_part(part, analysis.command, tool)
    finding.asked = lists.ask.concerning_part(part, analysis.command, tool)
    finding.unsure = not part.known
    rule = named or next((rule for rules in lists.allow if (rule := rules.covering_part(part, tool))), None)
    if rule is not None:
        finding.leave, finding.rule = phrase("{rule} allows it", rule=rule.words), rule
    for found in _paths(part, request, lists):
        if finding.denied is None and found.denied is not None:
            finding.denied, finding.unsure = found.denied, False
        finding.path_asked = finding.path_asked or found.asked
        finding.guarded = finding.guarded or found.guarded
        finding.names_kept = finding.names_kept or found.asked is not None or bool(found.need)
        if found.asked is not None:
            finding.lacks(phrase("{rule} asks about {thing}", rule=found.asked.words, thing=f"`{found.what}`"))
        elif found.need:
            finding.lacks(found.need)
    return finding


def _weigh_behind(behind: Analysis, finding: Finding, tool: str, lists: Lists) -> None:
    """What deny and ask rules say of a function or an alias that a part calls."""
    for part in behind.parts:
        finding.denied = finding.denied or lists.deny.concerning_part(part, behind.command, tool)
        finding.asked = finding.asked or lists.ask.concerning_part(part, behind.command, tool)
    if behind.unclear:
        finding.denied = finding.denied or next(lists.deny.commands(tool), None)
        finding.asked = finding.asked or next(lists.ask.commands(tool), None)


def _about(part: Part) -> str:
    """What is said of a part besides its words."""
    if not part.known:
        return phrase("some of its words are only known once it runs")
    if part.wrappers:
        return phrase("started by {wrappers}", wrappers=", ".join(f"`{one}`" for one in part.wrappers))
    return ""


def needs_no_rule(part: Part) -> bool:
    """Whether a part is let along with others that a rule allows: it can do nothing but print."""
    name = part.words[0] if part.words and part.plain else ""
    if name in ("test", "[") and any(set(word) & set("$`(") for word in part.words):
        return False  # `[ -v 'a[$(x)]' ]` runs `x`
    return name in _BUILTINS or (part.fed and name in _FILTERS)


def _unclear(analysis: Analysis, tool: str, lists: Lists, named: Rule | None) -> Finding:
    if not analysis.unclear:
        return Finding(analysis.command, "unclear", need=phrase("it holds no command"))
    why = "; ".join(analysis.unclear)
    finding = Finding(analysis.command, "unclear", why, need=phrase("the command could not be read").because(why))
    # What it would start is not known, so it counts as touching every rule about commands.
    finding.denied = next(lists.deny.commands(tool), None)
    finding.asked = next(lists.ask.commands(tool), None)
    finding.unsure = True
    if named is not None:
        finding.leave, finding.rule, finding.need = phrase("{rule} allows it", rule=named.words), named, ""
    return finding


def _paths(part: Part, request: Request, lists: Lists) -> Iterator[Finding]:
    """What the rules say of the paths that a part names. A box holds back what is denied; this says so beforehand."""
    operands = [word for word in part.words[1:] if not word.startswith("-")]
    if part.program in _SAY_ONLY:
        operands = []
    elif part.program in _PATTERN_FIRST:
        operands = operands[1:]
    changes = part.program in _WRITERS
    for word in (*operands, *part.reads):
        for path in _placed(word, request):
            if os.path.lexists(path):
                yield weigh_path(real_path(path), request, lists, write=False)
    for word in (*(operands if changes else ()), *part.writes):
        for path in _placed(word, request):
            yield _written(real_path(path), part, request, lists)


def real_path(path: str) -> str:
    """Where a path leads; where that cannot be told, as in another's `/proc`, the path itself."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def _placed(word: str, request: Request) -> list[str]:
    """Where a word leads if it names a path, or what its stars stand for."""
    named = word.rpartition("=")[2].lstrip("@")
    if not named or "\0" in named:
        return []
    path = os.path.normpath(os.path.join(request.directory, os.path.expanduser(named)))  # noqa: PTH111, PTH118
    if isinstance(word, Guess) and "$" not in word and glob.has_magic(path):
        return list(islice(glob.iglob(path), _MOST_MATCHES))  # noqa: PTH207 - as the shell does
    return [path]


def _written(path: str, part: Part, request: Request, lists: Lists) -> Finding:
    found = weigh_path(path, request, lists, write=True)
    if part.program in _REMOVERS and found.denied is None:
        found.denied = lists.denying_below(path, request)
    return found
