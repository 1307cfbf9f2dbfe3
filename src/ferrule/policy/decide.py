"""The policy by rules: deny beats ask beats allow, from every source; then the mode.

In order: a deny rule refuses; mode plan refuses what can change something; what is dangerous asks; an ask rule asks;
what has leave for every part runs; mode bypass runs the rest. Of what is left, a command that can be tried with its
effects held back is, in mode plan too, and is judged again by what it did; anything else asks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.core.phrases import joined, phrase
from ferrule.core.tool import Kind
from ferrule.pipeline.authorise import (
    BYPASS,
    PLAN,
    READ_ONLY,
    TENTATIVE,
    Mode,
    asked_if_unconfined,
    lacks_sandbox,
    never_asked,
)
from ferrule.pipeline.stages import Decision, Verdict
from ferrule.policy.commands.parts import OF_GUARDED, warning_about
from ferrule.policy.findings import Finding, Judgement, Lists, Request, Requests
from ferrule.policy.rules import BUILT_IN, About, RuleSet, named, parse_rules
from ferrule.policy.sensitive import Guarded
from ferrule.policy.weigh import weigh_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ferrule.core.call import Effects
    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation, Tool
    from ferrule.pipeline.confirm import Offer
    from ferrule.policy.findings import Analyser
    from ferrule.policy.restrictions import RuleRestrictions
    from ferrule.policy.rules import Rule
    from ferrule.registry.registry import ToolSource


# Tools that are not what they were when somebody allowed them: leave that was given to the old does not count.


class Doubts(Protocol):
    """Knows tools as they were. A tool that others define, as an MCP server does, can change after it was allowed."""

    def about(self, tool: Tool[Any]) -> str:
        """Why a rule's leave does not count for this tool; empty where it does."""
        ...

    def way_out(self, tool: Tool[Any]) -> str:
        """What the person can do about it where they cannot be asked; a whole sentence."""
        ...

    def dispel(self, tool: Tool[Any]) -> None:
        """The person has said «always» to the tool as it is now."""
        ...


_MOST_NAMED = 5
_STAYS = phrase(
    "What is guarded stays as it is, even once this is approved: only a command in the foreground can change it."
)
_TRIED_IN_PLAN = Decision(
    Verdict.ALLOW, phrase("mode plan tries commands and keeps none of their changes"), tentative=True
)


class RulePolicy:
    """Decides by rules about tools, commands, paths and hosts, as `docs/reference/rules.md` has them.

    `allow`, `ask` and `deny` take rules as text; `rules` takes those that were read with their source. `dangerous`
    set to "allow" lets dangerous commands run by the same rules as others. `own_files` are settings files that no
    tool may write, and `tool_folders` hold Python files that Ferrule itself loads and runs: to write one asks in every
    mode, unless a rule names the folder or the file. `doubts` knows of tools that are not what they were when they were
    allowed.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        mode: Mode | str = Mode.DEFAULT,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        dangerous: str = "ask",
        own_files: Iterable[Path] = (),
        tool_folders: Iterable[Path] = (),
        analyser: Analyser | None = None,
        doubts: Doubts | None = None,
    ) -> None:
        self.mode = Mode(mode)
        if dangerous not in ("ask", "allow"):
            raise ValueError(f"`dangerous` is 'ask' or 'allow', not {dangerous!r}.")
        self._written = [
            *parse_rules(allow, Verdict.ALLOW),
            *parse_rules(ask, Verdict.ASK),
            *parse_rules(deny, Verdict.DENY),
        ]
        every = [*rules, *self._written]
        self.allow, self.ask, self.deny = (
            RuleSet.of(rule for rule in every if rule.verdict is verdict)
            for verdict in (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)
        )
        self.requests = Requests(analyser)
        own_files = tuple(own_files)
        self.guarded = Guarded(own_files, tool_folders)
        self.has_settings = bool(own_files)
        """Whether users can add rules to settings, or on a command line. A program's own policy has neither."""
        self._doubts = doubts
        self._tools: ToolSource | None = None
        self._dangers_ask = dangerous != "allow"
        self._granted: dict[str, RuleSet] = {}
        self._remembered: set[tuple[str, Tool[Any], str]] = set()
        self._free = self._has_no_restriction()

    @property
    def restrictions(self) -> RuleRestrictions:
        """The rules about paths for tools that go through folders, and for the boxes that commands run in."""
        from ferrule.policy.restrictions import RuleRestrictions

        return RuleRestrictions(self)

    def check_tools(self, tools: ToolSource) -> None:
        """Refuse rules given as text that misspell one of these tools; raises `RuleError`. A runtime calls it."""
        if tools is not self._tools:
            self._tools = tools
            self._check(self._written)

    def _check(self, rules: Sequence[Rule]) -> None:
        if rules and self._tools is not None:
            from ferrule.policy.rule_file import KnownTools, check_tool

            known = KnownTools(self._tools.get, self._tools.known_names())
            for rule in rules:
                named(rule.text, lambda rule=rule: check_tool(rule, known))

    def restrict(self, *, deny: Iterable[str] = (), ask: Iterable[str] = ()) -> None:
        """More rules that deny or ask, in the middle of a session: they hold from the next call on.

        A command that runs by then goes on in its box; the next one's box hides what is denied by then.
        """
        more = [*parse_rules(deny, Verdict.DENY), *parse_rules(ask, Verdict.ASK)]
        self._check(more)
        for rule in more:
            (self.deny if rule.verdict is Verdict.DENY else self.ask).add(rule)
        self._free = self._has_no_restriction()

    def doubt_through(self, doubts: Doubts) -> None:
        """Ask again about tools that are not what they were when they were allowed, as `doubts` knows them."""
        self._doubts = doubts

    def _has_no_restriction(self) -> bool:
        return self.mode is not Mode.PLAN and not self.deny and not self.ask

    @property
    def denials(self) -> int:
        """Another number whenever `denies` may give another answer."""
        return 2 * len(self.deny.rules) + (self.mode is Mode.PLAN)

    def denies(self, tool: Tool[Any]) -> bool:
        """Whether every call of this tool is denied, whatever its arguments."""
        may_only_be_tried = tool.kind is Kind.EXECUTE and tool.has_touches
        in_vain = self.mode is Mode.PLAN and not (tool.read_only or may_only_be_tried)
        return in_vain or self.deny.tool(tool.name) is not None

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        tool = invocation.tool
        if self._free and tool.read_only and not (tool.dangerous or tool.asks_anyway or tool.has_touches):
            return READ_ONLY  # what nearly every call comes to, without going through the rest
        return self.judge(invocation, session).decision

    def guards(self, path: str, roots: tuple[str, ...], *, write: bool) -> Rule | None:
        """Ferrule's own question about a path, unless a rule names it."""
        found = self.guarded.asking(path, roots, write=write)
        if found is not None and self.allow.covering_path(path, roots, write=write, naming=found) is not None:
            return None
        return found

    def decide_effects(self, invocation: Invocation, effects: Effects, session: Session) -> Decision:
        """Whether what a tried call did may be made real."""
        from ferrule.policy.findings import roots_of
        from ferrule.policy.weigh import decide_effects

        decision = decide_effects(effects, Request(roots_of(session)), self._lists(session), self.mode)
        return _warned(decision, self.requests.of(invocation, session), session, runs=effects.runs_again)

    def _lists(self, session: Session, extra: Iterable[Rule] = ()) -> Lists:
        allow = (self.allow, self._granted.get(session.id), RuleSet.of(extra))
        return Lists(
            self.deny,
            self.ask,
            tuple(rules for rules in allow if rules),
            self.guarded.at_once(),
            self.mode is Mode.ACCEPT_EDITS,
        )

    def judge(self, invocation: Invocation, session: Session, extra: Iterable[Rule] = ()) -> Judgement:
        """The decision with everything that led to it, as if the `extra` allow rules held too."""
        request = self.requests.of(invocation, session)
        lists = self._lists(session, extra)
        findings = weigh_call(invocation, request, lists, self.mode)
        if request.commands:
            from ferrule.policy.weigh import ShellNames, weigh_command

            name = invocation.tool.name
            own, *paths = findings
            own.denied = self.deny.tool(name, runs_commands=True) or own.denied
            own.asked = self.ask.tool(name, runs_commands=True) or own.asked
            if not (invocation.tool.dangerous or invocation.tool.asks_anyway):
                own.leave = own.leave or phrase("its parts decide")
            for finding in paths:
                finding.leave = finding.leave or ("" if finding.need and finding.need != own.need else own.leave)
            findings = [own, *paths]
            has = session.command_names
            names = ShellNames(has.defined, bool(has.tainted), self.requests.understood)
            for analysis in request.commands:
                findings += weigh_command(analysis, name, request, lists, names)
        if self._remembered and (session.id, invocation.tool, word := invocation.always_rule) in self._remembered:
            # "Always" for a tool by its name does not answer what a path needs an approval of its own for.
            lacked = findings[0].need
            for one in findings:
                if not one.leave and not one.guarded and one.need == lacked:
                    one.leave = phrase("`{rule}` is always allowed in this session", rule=word)
        if self._doubts is not None and (why := self._doubts.about(invocation.tool)):
            findings[0].leave, findings[0].rule, findings[0].need = "", None, why
        judged = self._settled(invocation, session, request, lists, findings)
        if lacks_sandbox(invocation):
            decision = judged.decision
            if judged.can_be_always and decision.verdict is Verdict.ASK:  # what a rule would answer is beside the point
                decision = replace(decision, verdict=Verdict.ALLOW)
            decision = asked_if_unconfined(decision, invocation)
            by = judged.by if judged.decision.verdict is not Verdict.ALLOW else None
            judged = replace(judged, decision=decision, by=by, can_be_always=False)
        if self.mode is Mode.DONT_ASK:
            return replace(judged, decision=never_asked(judged.decision))
        return replace(judged, decision=_warned(judged.decision, request, session)) if request.commands else judged

    def _settled(
        self, invocation: Invocation, session: Session, request: Request, lists: Lists, findings: list[Finding]
    ) -> Judgement:
        tool = invocation.tool
        can_be_tried = bool(request.commands) and invocation.info.tentative
        dangers = [danger for analysis in request.commands for danger in analysis.dangers]
        # No box opens a guarded place, so what is aimed at one is tried even once it is approved: the user is then
        # asked about the very change, and a yes makes it.
        aims = False
        if request.commands and (any(one.guarded for one in findings) or any(one.why in OF_GUARDED for one in dangers)):
            from ferrule.policy.weigh import aims_at_guarded

            aims = aims_at_guarded(request, lists)

        def settle(decision: Decision, by: Rule | None = None, *, can_be_always: bool = True) -> Judgement:
            if aims and decision.verdict is Verdict.ASK:
                if can_be_tried:
                    decision = replace(decision, tried=decision.tried or "approved")
                elif not invocation.info.unconfined:
                    decision = replace(decision, warning=_STAYS)
            return Judgement(decision, request, findings, by, can_be_always)

        if denied := next((finding for finding in findings if finding.denied), None):
            rule = denied.denied
            assert rule is not None  # noqa: S101 - just looked for
            thing = _thing(denied, tool.name)
            reason = phrase("{rule} denies {thing}", rule=rule.words, thing=thing)
            if rule.source is BUILT_IN:
                reason = phrase(
                    "{thing} would write Ferrule's own settings (`{rule}`), which no tool may",
                    thing=thing,
                    rule=rule.text,
                )
            elif denied.unsure:
                reason = phrase(
                    "{rule} may deny {thing}: not all of its words are known before it runs; write them out",
                    thing=thing,
                    rule=rule.words,
                )
            return settle(Decision(Verdict.DENY, reason, rule.text), rule, can_be_always=False)
        if self.mode is Mode.PLAN and not can_be_tried:
            writes = request.commands or request.writes or request.writes_else
            if writes or not tool.read_only:
                return settle(PLAN, can_be_always=False)
        if dangers and self._dangers_ask:
            listed = [phrase("`{part}` is dangerous: {why}", part=danger.part, why=danger.why) for danger in dangers]
            decision = Decision(Verdict.ASK, joined("; ", dict.fromkeys(listed)))
            if aims and can_be_tried:
                from ferrule.policy.weigh import aims_at_guarded

                if aims_at_guarded(request, lists, alone=True):
                    decision = replace(decision, tried="first")
            return settle(self._asked_in_plan(decision, request), can_be_always=False)
        if asked := next((finding for finding in findings if finding.asked), None):
            rule = asked.asked
            assert rule is not None  # noqa: S101 - just looked for
            reason = phrase("{rule} asks about {thing}", rule=rule.words, thing=_thing(asked, tool.name))
            decision = self._asked_in_plan(Decision(Verdict.ASK, reason, rule.text), request)
            return settle(decision, rule, can_be_always=False)
        if self.mode is Mode.PLAN and can_be_tried:
            return settle(_TRIED_IN_PLAN, can_be_always=False)
        lacking = next((finding for finding in findings if not finding.leave), None)
        if lacking is None:
            rule = next((finding.rule for finding in findings if finding.rule), None)
            own = findings[-1 if request.commands else 0].leave
            reason = phrase("{rule} allows it", rule=rule.words) if rule is not None else own
            return settle(Decision(Verdict.ALLOW, reason, rule.text if rule is not None else None), rule)
        if can_be_tried and self.mode is not Mode.BYPASS and findings[0].leave:
            return settle(self._trying(request))
        if path_asked := next((finding for finding in findings if finding.path_asked and not finding.leave), None):
            rule, need = path_asked.path_asked, path_asked.need
            return settle(Decision(Verdict.ASK, need, rule.text if rule else None), rule, can_be_always=False)
        guarded = next((finding for finding in findings if finding.guarded and not finding.leave), None)
        if self.mode is Mode.BYPASS and guarded is None and not _in_doubt(request, lists, tried=can_be_tried):
            return settle(BYPASS)
        lacking = guarded or lacking
        return settle(Decision(Verdict.ASK, lacking.need or phrase("a tool that executes something asks first")))

    def _trying(self, request: Request) -> Decision:
        """Try it with its effects held back; what is certain to need the network would be tried in vain."""
        needs = next((analysis.network for analysis in request.commands if analysis.network), "")
        if not needs or self.mode is Mode.DONT_ASK:
            return TENTATIVE
        hosts = tuple(host for analysis in request.commands for host in analysis.hosts)
        if hosts:
            reason = phrase("`{part}` needs the network ({hosts})", part=needs, hosts=", ".join(hosts))
            return Decision(Verdict.ASK, reason, opens=hosts)
        # Every public host would include those that a rule is about.
        opens = () if self.deny.about(About.HOST) or self.ask.about(About.HOST) else ("*",)
        return Decision(Verdict.ASK, phrase("`{part}` needs the network", part=needs), opens=opens)

    def _asked_in_plan(self, decision: Decision, request: Request) -> Decision:
        """Mode plan runs no command for real, so there is nothing to say yes to."""
        if self.mode is not Mode.PLAN or not request.commands:
            return decision
        reason = phrase("{reason}, and mode plan runs no command for real", reason=decision.reason)
        return replace(decision, verdict=Verdict.DENY, reason=reason)

    # «Always»

    def offer(self, invocation: Invocation, session: Session) -> Offer | None:
        """What "always" would remember for this call; None if nothing can."""
        from ferrule.policy.always import offer_for

        offer = offer_for(self, invocation, session)
        if offer is not None and self._doubts is not None and self._doubts.about(invocation.tool):
            return replace(offer, instead=self._doubts.way_out(invocation.tool))
        return offer

    def remember(self, invocation: Invocation, session: Session) -> None:
        from ferrule.policy.always import grants_for

        if self._doubts is not None:
            self._doubts.dispel(invocation.tool)
        grants = grants_for(self, invocation, session)
        if grants.tool:
            # The tool object itself: one that takes its name or its place is another tool, and asks again.
            self._remembered.add((session.id, invocation.tool, invocation.always_rule))
        granted = self._granted.setdefault(session.id, RuleSet())
        for rule in grants.rules:
            granted.add(rule)


def _warned(decision: Decision, request: Request, session: Session, *, runs: bool = True) -> Decision:
    """Say of commands that a user is asked about what is dangerous in them, and which names may not mean what their
    words say where they are still to run.
    """
    if decision.verdict is not Verdict.ASK:
        return decision
    dangers = (danger for analysis in request.commands for danger in analysis.dangers)
    warnings = [warning_about(dangers, decision.reason), decision.warning]
    if runs and request.commands and (tainted := sorted(session.command_names.tainted)):
        names = ", ".join(f"`{name}`" for name in tainted[:_MOST_NAMED]) + (" …" if len(tainted) > _MOST_NAMED else "")
        warnings.append(
            phrase(
                "An unapproved command changed {names} in this shell, so the command may not do what it says.",
                names=names,
            )
        )
    return replace(decision, warning=joined(" ", filter(None, warnings)))


def _in_doubt(request: Request, lists: Lists, *, tried: bool) -> bool:
    """Whether something denied may hide in what is only known once a command runs, with no box to keep it from it."""
    if tried or not request.commands or not lists.deny:
        return False
    from ferrule.policy.weigh import may_be_denied

    return any(may_be_denied(analysis, lists) for analysis in request.commands)


def _thing(finding: Finding, tool: str) -> str:
    return phrase("it") if finding.what == tool else phrase("`{what}`", what=finding.what)
