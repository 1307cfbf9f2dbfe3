"""Decides about what a tried call would change: by the rules about paths and hosts, then by the mode, else the user."""

from __future__ import annotations

import glob
import os
import shlex
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from ferrule.core.phrases import phrase
from ferrule.core.tool import Kind
from ferrule.pipeline.authorise import BYPASS, Decision, Mode, Verdict, by_kind, never_asked
from ferrule.policy.commands.parts import OF_GUARDED, PRINTERS, STARTS_WITH_GIT, Guess
from ferrule.policy.findings import Finding, guarded_words, inside, weigh_path
from ferrule.policy.rules import FETCH, About
from ferrule.policy.sensitive import completes_repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ferrule.core.call import Barrier, Effects, FileEffect
    from ferrule.core.tool import Invocation, Tool
    from ferrule.policy.commands.parts import Analysis, Part
    from ferrule.policy.findings import Lists, Request
    from ferrule.policy.rules import Rule, RuleSet


_MOST_KEPT = 64 << 20
"""What the history keeps of a file at most; see `Caps`."""
_ACCEPTED = phrase("mode accept-edits keeps changes in the workspace that git can restore")
_IGNORED = phrase("`shell.look.ignored` keeps what git ignores")
_OF_PLAN = phrase("mode plan tries commands and keeps none of their changes")


def decide_effects(effects: Effects, request: Request, lists: Lists, mode: Mode) -> Decision:
    """Whether these effects may be made real."""
    weighed = [(effect, list(_weigh_file(effect, request, lists))) for effect in effects.files]
    findings = [finding for _, found in weighed for finding in found]
    findings += [_weigh_barrier(barrier, request, lists) for barrier in effects.barriers]
    for finding in findings:
        if finding.denied is not None:
            reason = phrase("{rule} denies {thing}", rule=finding.denied.words, thing=f"`{finding.what}`")
            return Decision(Verdict.DENY, reason, finding.denied.text)
    if mode is Mode.PLAN:
        return Decision(Verdict.DENY, _OF_PLAN, tentative=True)
    decision = _asking(effects, findings) or _allowing(effects, weighed, request, mode)
    if decision is None:
        decision = Decision(Verdict.ASK, effects.reason)
    return never_asked(decision) if mode is Mode.DONT_ASK else decision


def _weigh_file(effect: FileEffect, request: Request, lists: Lists) -> Iterator[Finding]:
    """What the rules say of the path, and of the one that it was renamed from."""
    paths = [os.path.normpath(effect.path)]
    if effect.source:
        paths.append(os.path.normpath(effect.source))
    for path in paths:
        finding = weigh_path(path, request, lists, write=True, guards=not effect.harmless)
        leads = effect.node == "link" and effect.action != "delete" and finding.rule is None
        if leads and lists.guarded.leads_to_settings(path, request.roots):
            finding.guarded, finding.leave, finding.need = True, "", guarded_words(effect.shown, write=True)
        if finding.denied is None and effect.node == "folder" and effect.action in ("delete", "rename"):
            finding.denied = lists.denying_below(path, request)
        yield finding


def _weigh_barrier(barrier: Barrier, request: Request, lists: Lists) -> Finding:
    subject = barrier.subject
    if barrier.kind in ("read", "write", "guarded") and subject:
        path = os.path.join(request.roots[0], subject)  # noqa: PTH118 - text
        return weigh_path(path, request, lists, write=barrier.kind != "read")
    finding = Finding(phrase("reach {host}", host=subject), "reaches")
    if barrier.kind == "network" and subject:
        finding.denied = lists.deny.concerning_host(subject)
        finding.asked = lists.ask.concerning_host(subject)
    return finding


def _asking(effects: Effects, findings: list[Finding]) -> Decision | None:
    """What asks in every mode: a rule, a guarded place, what cannot be applied, and what was only kept from it."""
    for finding in findings:
        if finding.asked is not None:
            reason = phrase("{rule} asks about {thing}", rule=finding.asked.words, thing=f"`{finding.what}`")
            return Decision(Verdict.ASK, reason, finding.asked.text)
    for finding in findings:
        if finding.guarded:
            return Decision(Verdict.ASK, finding.need)
    made = {effect.path for effect in effects.files}
    for effect in effects.files:
        is_link = effect.path.endswith("/.git") and effect.node != "folder"
        if is_link or (not effect.harmless and completes_repository(effect.path, made)):
            return Decision(Verdict.ASK, phrase("git would obey `{path}`", path=effect.shown))
    if effects.runs_again:
        return Decision(Verdict.ASK, effects.reason)
    return None


def _allowing(
    effects: Effects, weighed: list[tuple[FileEffect, list[Finding]]], request: Request, mode: Mode
) -> Decision | None:
    if mode is Mode.BYPASS:
        return BYPASS
    if effects.ignored:
        return Decision(Verdict.ALLOW, _IGNORED)
    rules = [finding.rule for _, found in weighed for finding in found]
    if not effects.files:
        return None
    if all(rules) and rules[0] is not None:
        return Decision(Verdict.ALLOW, phrase("{rule} allows it", rule=rules[0].words), rules[0].text)
    kept = all(
        finding.rule is not None
        or (bool(finding.leave) and not (effect.opens or _loses(effect) or _leads_out(effect, request)))
        for effect, found in weighed
        for finding in found
    )
    return Decision(Verdict.ALLOW, _ACCEPTED) if kept and mode is Mode.ACCEPT_EDITS else None


def _loses(effect: FileEffect) -> bool:
    """Whether it removes what git does not hold. A change is in the history and can be undone, unless it is large."""
    if effect.recoverable or effect.action not in ("delete", "change", "rename"):
        return False
    try:
        return effect.action == "delete" or os.lstat(effect.path).st_size > _MOST_KEPT
    except OSError:
        return False  # it is new there


def _leads_out(effect: FileEffect, request: Request) -> bool:
    """Whether it makes a link to somewhere outside the workspace, but for a program that every box shows: a virtual
    environment links to its interpreter.
    """
    if effect.node != "link" or effect.action == "delete":
        return False
    place = os.path.normpath(os.path.join(os.path.dirname(effect.path), effect.target))  # noqa: PTH118, PTH120 - text
    if not effect.target or inside(place, request.roots):
        return not effect.target
    from ferrule.process.sandbox.places import system_places  # few commands link to anything outside

    real = os.path.realpath(place)
    is_program = os.path.isfile(real) and os.access(real, os.X_OK)  # noqa: PTH113 - real
    return not (is_program and system_places(request.roots).show(real))


# Weighs a command part by part: which rules are about it, and whether each part may run for real.


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
# What these write is said by their words, and they start nothing.
_PLAINLY_WRITES = _WRITERS | PRINTERS


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
                for inner in behind.parts:
                    finding.denied = finding.denied or lists.deny.concerning_part(inner, behind.command, tool)
                    finding.asked = finding.asked or lists.ask.concerning_part(inner, behind.command, tool)
                if behind.unclear:
                    finding.denied = finding.denied or next(lists.deny.commands(tool), None)
                    finding.asked = finding.asked or next(lists.ask.commands(tool), None)
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
        return Finding(analysis.command, "unclear", need=phrase("it contains no command"))
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
            real = real_path(path)
            finding = weigh_path(real, request, lists, write=True)
            if part.program in _REMOVERS and finding.denied is None:
                finding.denied = lists.denying_below(real, request)
            yield finding


def real_path(path: str) -> str:
    """Where a path leads; where that cannot be told, as in another's `/proc`, the path itself."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def aims_at_guarded(request: Request, lists: Lists, *, alone: bool = False) -> bool:
    """Whether commands say that they write guarded places of the workspace; `alone`, if surely nothing else about them
    is dangerous.
    """
    from ferrule.policy.commands.dangers import danger_of_writing, dangers_of

    aims = False
    for analysis in request.commands:
        if alone and (analysis.unclear or any(danger.why not in OF_GUARDED for danger in analysis.dangers)):
            return False
        for part in analysis.parts:
            known = part.known and not part.wrappers and not any(isinstance(word, Guess) for word in part.writes)
            if alone and not (known and part.program in _PLAINLY_WRITES):
                return False
            if part.program == "git" and STARTS_WITH_GIT in dangers_of([*part.words]):
                if alone and not _configures_here(part):
                    return False
                aims = aims or _configures_here(part)
            words = [word.rpartition("=")[2] for word in part.words[1:]]
            operands = [word for word in words if part.program in _WRITERS or danger_of_writing(word)]
            for word in (*operands, *part.writes):
                for path in map(real_path, _placed(word, request)):
                    guarded = inside(path, request.roots) and lists.guarded.asking(path, request.roots, write=True)
                    if alone and not guarded and danger_of_writing(word):
                        return False
                    aims = aims or bool(guarded)
    return aims


def _configures_here(part: Part) -> bool:
    """Whether it is `git config` for the repository that it is run in."""
    return part.words[1:2] == ("config",) and all(
        word in ("--add", "--local", "--replace-all", "set") or not word.startswith("-") for word in part.words[2:]
    )


def _placed(word: str, request: Request) -> list[str]:
    """Where a word leads if it names a path, or what its stars stand for."""
    named = word.rpartition("=")[2].lstrip("@")
    if not named or "\0" in named:
        return []
    path = os.path.normpath(os.path.join(request.directory, os.path.expanduser(named)))  # noqa: PTH111, PTH118
    if isinstance(word, Guess) and "$" not in word and glob.has_magic(path):
        return list(islice(glob.iglob(path), _MOST_MATCHES))  # noqa: PTH207 - as the shell does
    return [path]


# Weighs a call by its tool's name and kind, by what the tool says of it, and by the paths and hosts it touches.


def weigh_call(invocation: Invocation, request: Request, lists: Lists, mode: Mode) -> list[Finding]:
    """The tool itself first, then each path and host."""
    tool = invocation.tool
    whole = Finding(tool.name, tool.kind.value)
    whole.denied = lists.deny.tool(tool.name) or _by_signature(invocation, (lists.deny,))
    whole.asked = lists.ask.tool(tool.name) or _by_signature(invocation, (lists.ask,))
    whole.guarded = invocation.info.asks_always
    named = None if whole.guarded else next((rule for rules in lists.allow if (rule := rules.tool(tool.name))), None)
    whole.rule = named
    if named is None:
        covering = list(_by_subject(invocation, lists.allow))  # a call may be about several things
        whole.rule = covering[0] if all(covering) else None
    paths = [
        *(weigh_path(path, request, lists, write=False) for path in request.reads),
        # A tool that writes to a folder, such as FileSearch, writes to what is in it.
        *(weigh_path(path, request, lists, write=True, is_folder=os.path.isdir(path)) for path in request.writes),  # noqa: PTH112
    ]
    hosts: list[Finding] = []
    for host in request.hosts:
        finding = Finding(phrase("reach {host}", host=host), "reaches", leave=phrase("the tool's own approval counts"))
        finding.denied = lists.deny.concerning_host(host)
        finding.asked = lists.ask.concerning_host(host)
        finding.rule = next((rule for rules in lists.allow if (rule := rules.covering_host(host))), None)
        if finding.rule is not None:
            finding.leave = phrase("{rule} allows it", rule=finding.rule.words)
        hosts.append(finding)
    _give_leave(whole, invocation, request, paths, hosts, mode)
    for finding in paths:
        # What the tool may do it may do to this path too, unless the path has a question of its own.
        if not finding.leave and not finding.need:
            finding.leave = whole.leave
            finding.need = "" if whole.leave else whole.need
    return [whole, *paths, *hosts]


def _give_leave(
    whole: Finding, invocation: Invocation, request: Request, paths: list[Finding], hosts: list[Finding], mode: Mode
) -> None:
    tool = invocation.tool
    if whole.rule is not None:
        whole.leave = phrase("{rule} allows it", rule=whole.rule.words)
        return
    if whole.guarded:
        whole.need = phrase("`{tool}` asks in every mode, unless rules cover {each}",
                            tool=tool.name, each=", ".join(f"`{one}`" for one in invocation.subjects))  # fmt: skip
        return
    plain = not (tool.dangerous or tool.asks_anyway)
    writes = [finding for finding in paths if finding.effect == "writes"]
    if plain and writes and not request.writes_else and tool.kind is not Kind.EXECUTE:
        if all(finding.leave for finding in writes):
            whole.leave, whole.rule = writes[0].leave, writes[0].rule
            return
    elif hosts and _goes_by_host(tool, request) and all(finding.rule for finding in hosts):
        whole.leave, whole.rule = hosts[0].leave, hosts[0].rule
        return
    decision = by_kind(invocation, mode, writes=bool(request.writes or request.writes_else or request.commands))
    # Edits are accepted inside the workspace alone, as far as a tool says where it writes.
    elsewhere = tool.has_touches and not tool.read_only and bool(writes or request.writes_else)
    if decision.verdict is Verdict.ALLOW and not elsewhere:
        whole.leave = decision.reason
    else:
        whole.need = decision.reason if decision.verdict is Verdict.ASK else _outside(writes)


def _goes_by_host(tool: Tool[Any], request: Request) -> bool:
    """Whether leave for its hosts is all that a call needs: it fetches, and changes nothing there or here.

    Of a tool that reads alone, `requires_permission` means that its requests may carry something out: they go to hosts
    that a rule allows, or ask.
    """
    if tool.dangerous or request.writes_else or request.writes or request.commands:
        return False
    if tool.name == FETCH:
        return not tool.asks_anyway
    return tool.asks_anyway and tool.kind is not Kind.EXECUTE


def _outside(writes: list[Finding]) -> str:
    held = next((finding for finding in writes if not finding.leave), None)
    if held is None:
        return phrase("a tool that writes asks first")
    return held.need or phrase("it would {what}, which is outside the workspace", what=held.what)


def _by_signature(invocation: Invocation, sets: tuple[RuleSet, ...]) -> Rule | None:
    """A rule about any of what the call is about."""
    return next((rule for rule in _by_subject(invocation, sets) if rule is not None), None)


def _by_subject(invocation: Invocation, sets: tuple[RuleSet, ...]) -> Iterator[Rule | None]:
    listed = [rules for rules in sets if rules.about(About.CALL)]
    if not listed:
        yield None
        return
    any_case = bool(invocation.info.each)
    for subject in invocation.subjects:
        rules = (rules.call(invocation.tool.name, subject, any_case=any_case) for rules in listed)
        yield next((rule for rule in rules if rule is not None), None)
