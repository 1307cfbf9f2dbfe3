"""Weighs a command part by part: each needs leave of its own, and so does every path it names.

A rule for a command covers what the command itself does. It does not cover where its output is sent: `Bash(ls *)` says
nothing of `ls > ~/.bashrc`. A rule that is the whole command, to the letter, covers all of it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.policy.command_paths import MOST_MATCHES, matches, places
from ferrule.policy.commands.hazards import loads_code
from ferrule.policy.commands.parts import Effect
from ferrule.policy.findings import Finding, guarded_words, shown, weigh_path
from ferrule.policy.folder_reads import folders_read, kept_below, may_read
from ferrule.policy.rules import About
from ferrule.policy.sensitive import TELL_TALES

if TYPE_CHECKING:
    from ferrule.policy.commands.parts import Analysis, Part
    from ferrule.policy.findings import Lists
    from ferrule.policy.request import Request, Requests
    from ferrule.policy.rules import Rule

# Change files and nothing else, as their arguments say; what edits are accepted for. Not `ln`: it makes ways out.
_FILE_CHANGERS = frozenset({"mkdir", "touch", "cp", "mv", "rm", "rmdir", "tee", "sed"})
_REMOVERS = frozenset({"rm", "rmdir", "mv", "shred", "unlink"})
_COPIERS = frozenset({"cp", "mv", "install", "rsync", "scp", "ln"})
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


def weigh_command(analysis: Analysis, tool: str, request: Request, lists: Lists, requests: Requests) -> list[Finding]:
    """A finding for each part, and one for what was not understood."""
    command = analysis.command
    whole = next((rule for rules in lists.allow if (rule := rules.covering_command(command, tool))), None)
    named = next((rule for rules in lists.allow if (rule := rules.tool(tool, runs_commands=True))), None)
    findings = [_Weighing(part, analysis, tool, request, lists, requests, named).finding for part in analysis.parts]
    if analysis.unclear or not findings:
        findings.append(_unclear(analysis, tool, lists))
    if whole is not None:
        for finding in findings:
            finding.leave, finding.rule, finding.need = phrase("{rule} allows it", rule=whole.words), whole, ""
            finding.guarded = False
    return findings


def in_doubt(analysis: Analysis, request: Request, lists: Lists) -> bool:
    """Whether something denied may hide in what is only known once the command runs, or in a folder it reads."""
    deny = lists.deny
    if analysis.unclear:
        return deny.about(About.COMMAND, About.CALL, About.READ, About.WRITE, About.HOST)
    for part in analysis.parts:
        if deny.about(About.COMMAND, About.CALL) and part.words and not part.fixed and _varies(part.words[0]):
            return True
        if deny.about(About.READ) and None in part.reads:
            return True
        if deny.about(About.WRITE) and None in part.writes:
            return True
        if deny.about(About.HOST) and None in part.hosts:
            return True
        if deny.about(About.READ) and any(
            _kept(folder, part, analysis, request, lists, of_ferrule=False)
            for folder in folders_read(part, analysis, request.directory)
        ):
            return True
    return False


def _kept(
    folder: str, part: Part, analysis: Analysis, request: Request, lists: Lists, *, of_ferrule: bool
) -> str | None:
    """What lies in a folder that a part reads, and that Ferrule asks about, or that a rule denies."""
    rules = (lists.guarded.asks if of_ferrule else lists.deny).listed(About.READ)

    def free(path: str) -> bool:
        return of_ferrule and lists.allowing_path(path, request, write=False) is not None

    return kept_below(folder, rules, request.roots, may_read(part, analysis), free)


def _unclear(analysis: Analysis, tool: str, lists: Lists) -> Finding:
    why = "; ".join(analysis.unclear) or phrase("it holds no command")
    need = phrase("the command is not fully understood").because(why)
    finding = Finding(analysis.command, "unclear", why, need=need)
    finding.denied = lists.deny.concerning_command(analysis.command, tool)
    finding.asked = lists.ask.concerning_command(analysis.command, tool)
    if not analysis.unclear:
        finding.leave, finding.need = phrase("nothing would run"), ""
    return finding


class _Weighing:
    """One part of a command on the scales."""

    def __init__(
        self,
        part: Part,
        analysis: Analysis,
        tool: str,
        request: Request,
        lists: Lists,
        requests: Requests,
        named: Rule | None,
    ) -> None:
        self._part, self._analysis, self._request, self._lists = part, analysis, request, lists
        self._named = named
        self._requests = requests
        self._bare: Part | bool | None = False
        self.finding = Finding(part.text, part.effect.value, part.why)
        self.finding.denied = lists.deny.concerning_part(part, analysis.command, tool)
        self.finding.asked = lists.ask.concerning_part(part, analysis.command, tool)
        self._rule = named or next((rule for rules in lists.allow if (rule := rules.covering_part(part, tool))), None)
        self._give_leave()
        for path in part.reads:
            self._weigh_read(path)
        self._weigh_folders()
        self._weigh_writes()
        self._weigh_patterns()
        for host in part.hosts:
            self._weigh_host(host)

    def _give_leave(self) -> None:
        part, finding = self._part, self.finding
        if self._rule is not None:
            finding.leave, finding.rule = phrase("{rule} allows it", rule=self._rule.words), self._rule
            # A rule for a program was not given for what the program is made to load.
            sets = next(filter(loads_code, _SETS.findall(self._analysis.command)), None)
            if self._named is None and sets is not None:
                finding.lacks(phrase("it sets `{name}`, which can make a program run other code", name=sets))
        elif part.effect is Effect.READS:
            finding.leave = phrase("it provably reads alone")
        elif part.effect is Effect.WRITES and self._only_redirects():
            finding.leave = phrase("it reads alone, and what it writes to has leave")
        elif part.effect is Effect.WRITES and self._accepted_edit():
            finding.leave = phrase("mode accept-edits lets commands change files in the workspace")
        else:
            does = phrase("`{part}` {does}", part=part.text, does=_EFFECTS[part.effect])
            finding.need = does.because(part.why)

    # What the part does by itself, its redirects aside

    def _alone(self) -> Part | None:
        if isinstance(self._bare, bool):
            found = self._requests.understood(shlex.join(self._part.words), self._request.directory)
            single = len(found.parts) == 1 and not found.unclear
            self._bare = found.parts[0] if single else None
        return self._bare

    def _only_redirects(self) -> bool:
        if not self._part.words:
            return True
        alone = self._alone()
        return self._part.fixed and alone is not None and alone.effect is Effect.READS

    def _accepted_edit(self) -> bool:
        if not self._lists.accepts_edits or self._part.program not in _FILE_CHANGERS or self._part.wrappers:
            return False
        return bool(self._part.writes) and None not in self._part.writes

    # What it reads, writes and reaches

    def _weigh_read(self, named: str | None) -> None:
        lists, finding = self._lists, self.finding
        if named is None:
            rules = lists.deny.listed(About.READ) or lists.ask.listed(About.READ)
            if rules:
                finding.lacks(
                    phrase(
                        "it reads a path that is only known once it runs, and `{rule}` may be about it",
                        rule=rules[0].text,
                    )
                )
            elif any(word in self._analysis.command for word in TELL_TALES):
                finding.lacks(phrase("it reads a path that is only known once it runs, which may hold secrets"))
            return
        for path, _real in places(named, self._request.directory):
            self._merge(weigh_path(path, self._request, lists, write=False))

    def _weigh_folders(self) -> None:
        """What goes through a folder reads all in it; what is kept back may be among that."""
        for folder in folders_read(self._part, self._analysis, self._request.directory):
            place = shown(folder, self._request.roots)
            for rule in (*self._lists.deny.listed(About.READ), *self._lists.ask.listed(About.READ)):
                if rule.path is not None and rule.path.may_lie_in(folder, self._request.roots):
                    self.finding.lacks(
                        phrase(
                            "it reads all of `{folder}`, and {rule} may be about some of it",
                            folder=place,
                            rule=rule.words,
                        )
                    )
            if secret := _kept(folder, self._part, self._analysis, self._request, self._lists, of_ferrule=True):
                path = shown(secret, self._request.roots)
                why = guarded_words(path, write=False)
                self.finding.lacks(phrase("it reads all of `{folder}`, and {why}", folder=place, why=why))

    def _weigh_patterns(self) -> None:
        """Stars may stand for a path with a rule; what they stand for needs no leave besides."""
        hidden = "dotglob" in self._analysis.command
        for pattern in self._part.reads_matching:
            found = matches(pattern, self._request.directory, hidden=hidden)
            if len(found) > MOST_MATCHES:
                self.finding.lacks(
                    phrase(
                        "`{pattern}` stands for more than {most} files, too many to look at each",
                        pattern=pattern,
                        most=f"{MOST_MATCHES:,}",
                    )
                )
            for path in dict.fromkeys(one for name in (pattern, *found) for one, _ in places(name, "/")):
                self._weigh_match(path)

    def _weigh_match(self, path: str) -> None:
        self._merge(weigh_path(path, self._request, self._lists, write=False))
        if self._part.effect is not Effect.READS:
            found = weigh_path(path, self._request, self._lists, write=True)
            if self._part.program in _REMOVERS and found.denied is None:
                found.denied = self._removed_with(path)
            self._merge(found)

    def _weigh_writes(self) -> None:
        if not self._part.writes:
            return
        alone = self._alone() if self._rule is not None and self._named is None else None
        own = Counter(os.path.basename(path or "") for path in alone.writes) if alone is not None else Counter[str]()  # noqa: PTH119
        unknown = sum(1 for path in alone.writes if path is None or _varies(path)) if alone is not None else 0
        for named in (*self._part.writes, *self._written_into()):
            if named is None:
                # What it is told to write, and what a redirect says, cannot be told apart once neither is known.
                unknown -= 1
                own_alone = unknown >= 0 and ">" not in self._analysis.command
                self._weigh_unknown_write(covered=self._named is not None or own_alone)
                continue
            name = os.path.basename(named)  # noqa: PTH119
            own[name] -= 1
            covered = self._named is not None or own[name] >= 0 or named in self._written_into()
            for path, is_real in places(named, self._request.directory):
                self._weigh_write(path, covered=covered, real=is_real)

    def _written_into(self) -> list[str]:
        """Files that a copy makes in a folder: `cp x/ferrule.toml .` names only the folder."""
        if self._part.program not in _COPIERS:
            return []
        targets = [path for path in self._part.writes if path and os.path.isdir(path)]  # noqa: PTH112
        names = {os.path.basename(path.rstrip("/")) for path in self._part.reads if path}  # noqa: PTH119
        return [os.path.join(target, name) for target in targets for name in names]  # noqa: PTH118

    def _weigh_unknown_write(self, *, covered: bool) -> None:
        rules = self._lists.deny.listed(About.WRITE) or self._lists.ask.listed(About.WRITE)
        if rules:
            self.finding.lacks(
                phrase(
                    "it writes a path that is only known once it runs, and `{rule}` may be about it", rule=rules[0].text
                )
            )
        elif not covered:
            self.finding.lacks(phrase("it writes to a path that is only known once it runs"))

    def _weigh_write(self, path: str, *, covered: bool, real: bool) -> None:
        if path in _NOWHERE or path.startswith("/dev/fd/"):
            return
        found = weigh_path(path, self._request, self._lists, write=True)
        if self._part.program in _REMOVERS and found.denied is None:
            found.denied = self._removed_with(path)
        if not found.leave and not found.need:
            if covered:
                found.leave = self.finding.leave
            elif real:
                found.need = phrase("it writes `{path}`", path=shown(path, self._request.roots))
            else:
                return  # only the real path needs leave
        self._merge(found)

    def _removed_with(self, folder: str) -> Rule | None:
        """The deny rule about something that lies in a folder and would go with it."""
        roots = self._request.roots
        for rule in self._lists.deny.listed(About.WRITE):
            if rule.path is not None and rule.path.lies_in(folder, roots):
                return rule
        return self._lists.guarded.own_file_in(folder, roots)

    def _weigh_host(self, host: str | None) -> None:
        lists, finding = self._lists, self.finding
        if host is None:
            rules = lists.deny.listed(About.HOST) or lists.ask.listed(About.HOST)
            if rules:
                finding.lacks(
                    phrase(
                        "it reaches a host that is only known once it runs, and `{rule}` may be about it",
                        rule=rules[0].text,
                    )
                )
            return
        finding.denied = finding.denied or lists.deny.concerning_host(host)
        finding.asked = finding.asked or lists.ask.concerning_host(host)

    def _merge(self, found: Finding) -> None:
        finding = self.finding
        finding.denied = finding.denied or found.denied
        finding.asked = finding.asked or found.asked
        if found.need:
            finding.lacks(found.need)
            finding.guarded = finding.guarded or found.guarded


_SETS = re.compile(r"(?:^|[\s;&|(`])(\w+)=")
_EFFECTS = {
    Effect.READS: phrase("reads"),
    Effect.WRITES: phrase("changes something"),
    Effect.RUNS: phrase("may do anything"),
}


def _varies(word: str) -> bool:
    return "$" in word or "`" in word
