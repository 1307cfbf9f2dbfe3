"""What a user may see and do: one object decides what is listed, what may be called, and what may be administered.

A role's rules add to the operator's own (`ferrule.toml`): deny beats ask beats allow, whoever wrote it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING, Any

from ferrule.core.access import LOOSEST_FIRST, Mode
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.nearest import UnknownNameError, check_names
from ferrule.pipeline.authorise import decide
from ferrule.pipeline.stages import Verdict
from ferrule.plugins.drafts import DRAFT_TOOL
from ferrule.policy import RuleError, RulePolicy
from ferrule.policy.rule_file import MAY_COME
from ferrule.policy.rules import RuleSet, Source, SourceKind, parse_rule, parse_rules
from ferrule.registry.registry import RegistryEntry, View
from ferrule.service.directory import CALLER_GONE, DirectoryProblem, current_call
from ferrule.service.vocabulary import ADMIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pydantic import BaseModel

    from ferrule.core.tool import Tool
    from ferrule.pipeline.stages import Call
    from ferrule.policy.rules import Rule
    from ferrule.registry.registry import ToolSource
    from ferrule.service.directory import Directory, Principal

logger = logging.getLogger("ferrule.service")
_MOST_KNOWN = 10_000
_ADMINISTERS = {"create_new_intent": "intents"}
"""Tools that administer something: they are for whoever may do that over HTTP, with the scope for it."""
_ADMIN_SCOPE = "admin"


class TenantTools(View):
    """The tools of everyone, and those of one tenant. `unlisted` ones can be called and are not shown."""

    def __init__(self, source: ToolSource, own: Iterable[Tool[Any]], unlisted: Iterable[Tool[Any]] = ()) -> None:
        super().__init__(source)
        self._listed = {tool.name: RegistryEntry(tool, "intent", True) for tool in own}
        self._own = self._listed | {tool.name: RegistryEntry(tool, "service", True) for tool in unlisted}

    def entry(self, name: str, version: str | None = None) -> RegistryEntry | None:
        found = self._own.get(name)
        if found is None:
            return self.source.entry(name, version)
        return found if version in (None, found.tool.version) else None

    def entries(self) -> list[tuple[str, RegistryEntry]]:
        return [*self.source.entries(), *self._listed.items()]

    def known_names(self) -> list[str]:
        return [*self.source.known_names(), *self._own]


class Allowed:
    """All that holds for one user at one moment."""

    def __init__(self, principal: Principal, tools: ToolSource, operator: RulePolicy, options: dict[str, Any]) -> None:
        self.principal = principal
        rules = list(_rules_of(principal))
        administration = [rule for rule in rules if rule.tool == ADMIN]
        self._allowed = RuleSet.of(rule for rule in administration if rule.verdict is Verdict.ALLOW)
        self._denied = RuleSet.of(rule for rule in administration if rule.verdict is not Verdict.ALLOW)
        self.mode = _mode(principal, operator.mode)
        self.policy = RulePolicy(
            [*operator.allow, *operator.ask, *operator.deny, *(rule for rule in rules if rule.tool != ADMIN)],
            mode=self.mode,
            **options,
        )
        self._may_draft = bool(self.policy.allow.tool(DRAFT_TOOL) or self.policy.ask.tool(DRAFT_TOOL))
        """Whether a rule names it: not everyone may have code run, if only in a box."""
        self.roles = principal.role_names
        self._has_scope = _ADMIN_SCOPE in principal.scopes
        self._disabled = principal.disabled_tools
        self._shown: dict[Tool[Any], bool] = {}
        self.everything = tools
        """All tools of the tenant, which tools find when they call others."""
        self.tools = tools.filtered(self._shows)

    def is_of(self, principal: Principal) -> bool:
        """Whether this is all that holds for the principal, who may have been read before or after a change."""
        mine = self.principal
        return (
            self._has_scope == (_ADMIN_SCOPE in principal.scopes)
            and mine.roles == principal.roles
            and mine.always == principal.always
            and mine.disabled_tools == principal.disabled_tools
            and mine.intents == principal.intents
        )

    def _shows(self, tool: Tool[Any]) -> bool:
        found = self._shown.get(tool)
        if found is None:
            if len(self._shown) >= _MOST_KNOWN:  # those of servers that came and went
                self._shown.clear()
            found = self._shown[tool] = (
                tool.name not in self._disabled
                and (tool.name not in _ADMINISTERS or self.administers(_ADMINISTERS[tool.name]))
                and (tool.name != DRAFT_TOOL or self._may_draft)
                and (not tool.roles or any(role in tool.roles for role in self.roles))
                and not self.policy.denies(tool)
            )
        return found

    def role_for(self, tool: Tool[Any] | None) -> str | None:
        """The role that a call of this tool runs under: one that the tool is for, else the user's first."""
        if tool is not None and tool.roles and len(self.roles) > 1:
            return next((role for role in self.roles if role in tool.roles), self.roles[0])
        return self.roles[0] if self.roles else None

    def administers(self, area: str) -> bool:
        """Whether the user may administer it, and the credential is for that: for tools that do what HTTP does."""
        return self._has_scope and self.may(area)

    def may(self, area: str) -> bool:
        """Whether the user may administer it."""
        for rules, answer in ((self._denied, False), (self._allowed, True)):
            if rules.tool(ADMIN) is not None or rules.call(ADMIN, area) is not None:
                return answer
        return False


class Access:
    """Keeps what was worked out for each user until anything changes."""

    def __init__(
        self,
        directory: Directory,
        tools: ToolSource,
        operator: RulePolicy,
        options: dict[str, Any] | None = None,
        *,
        own_tools: Callable[[Principal], Sequence[Tool[Any]]] = lambda principal: (),
        unlisted: Iterable[Tool[Any]] = (),
    ) -> None:
        """`operator` has the rules that hold for everyone; `options` are what else a policy is made with.

        `own_tools` gives those that a tenant has besides.
        """
        self._own_tools = own_tools
        self._unlisted = tuple(unlisted)
        self._directory = directory
        self._tools = tools
        self._operator = operator
        self._options = options or {}
        self._known: dict[tuple[str, str, bool], Allowed] = {}
        self._now: dict[tuple[str, str, str, str], tuple[Principal, Allowed]] = {}
        self._generation = -1
        self._last: tuple[Principal, Allowed] | None = None

    def of(self, principal: Principal) -> Allowed:
        last = self._last
        if last is not None and last[0] is principal and self._generation == self._directory.generation:
            return last[1]  # one request asks several times
        if self._generation != self._directory.generation:
            self._known.clear()
            self._now.clear()
            self._last = None
            self._generation = self._directory.generation
        key = principal.tenant, principal.user, _ADMIN_SCOPE in principal.scopes
        found = self._known.get(key)
        if found is None or not (found.principal is principal or found.is_of(principal)):
            found = self._known[key] = self.trial(principal)
        self._last = principal, found
        return found

    async def recheck(self, allowed: Allowed, call: Call) -> None:
        """Refuse a call that may not start any more, right before it starts: alone, in a batch, inside a tool or in the
        turn of a model; and again before what it was tried with is kept. `allowed` is what it was let in with.
        """
        row, tool, directory = current_call.get(), call.invocation.tool, self._directory
        if not tool.read_only and (call.parent is not None or row["batch"] or tool.repeatable):
            await directory.look_now()  # the transaction that stores any other call before it starts does that for it
        directory.look_for_changes()
        whose = row["tenant"], row["user"], row["key"], row["scopes"]
        held = self._now.get(whose) if self._generation == directory.generation else None
        if held is None or (held[0].expires is not None and held[0].expires <= time()):
            generation = directory.generation
            principal = await directory.of_call(row)
            if principal is None:
                raise _not_run(tool, CALLER_GONE)
            held = principal, self.of(principal)
            if generation == directory.generation:  # else they may have been read before the change
                self._now[whose] = held
        principal, now = held
        if now is allowed or allowed.is_of(principal):
            return
        call.session.restrictions = now.policy.restrictions
        found = now.tools if call.parent is None else now.everything
        if tool.name in principal.disabled_tools or not found.has(tool.name):
            raise _not_run(tool, "You may not use it any more.")
        decision, stopped = decide(now.policy, call.invocation, call.session, call=call)
        if stopped is not None:
            raise stopped
        if call.decision.verdict != Verdict.ALLOW or call.record.answer is not None:
            return  # it was approved
        if decision.verdict != Verdict.ALLOW:
            raise _not_run(tool, "It needs approval since your rights were changed.", "Call it again to ask for it.")
        call.decision = decision

    def trial(self, principal: Principal) -> Allowed:
        """What would hold for somebody with these roles, worked out and not kept."""
        own = self._own_tools(principal)
        tools = TenantTools(self._tools, own, self._unlisted) if own or self._unlisted else self._tools
        return Allowed(principal, tools, self._operator, self._options)


def check_tool_names(said: BaseModel, tools: ToolSource) -> None:
    """Refuse a message whose rules or limits misspell a tool; raises `DirectoryProblem`."""
    names: dict[str, None] = dict.fromkeys(getattr(getattr(said, "limits", None), "tools", None) or ())
    for text in (text for verdict in Verdict for text in getattr(said, verdict.value, None) or ()):
        with suppress(RuleError):  # which is worded where the rules are kept
            names[parse_rule(text).tool] = None
    try:
        missing = check_names(names, [*tools.known_names(), *MAY_COME, ADMIN])
    except UnknownNameError as error:
        raise DirectoryProblem("invalid", f"{str(error)[:1].upper()}{str(error)[1:]}") from None
    if missing:
        some = ", ".join(f"`{name[:80]}`" for name in missing[:10]) + (" …" if missing[10:] else "")
        logger.warning("Rules or limits name %s, which no tool is called yet.", some)


def _not_run(tool: Tool[Any], why: str, suggestion: str | None = None) -> StoppedError:
    return StoppedError(Stage.AUTHORISE, ErrorKind.PERMISSION, f"`{tool.name}` was not run. {why}", suggestion)


def _rules_of(principal: Principal) -> Iterable[Rule]:
    for role in principal.roles:
        for verdict, texts in ((Verdict.ALLOW, role.allow), (Verdict.ASK, role.ask), (Verdict.DENY, role.deny)):
            yield from parse_rules(texts, verdict, Source(SourceKind.ROLE))
    yield from parse_rules(principal.always, Verdict.ALLOW, Source(SourceKind.USER))


def _mode(principal: Principal, operator: Mode) -> Mode:
    """The loosest that one of the roles has, and never looser than the operator's."""
    chosen = [Mode(role.mode) for role in principal.roles if role.mode]
    loosest = min(chosen, key=LOOSEST_FIRST.index, default=operator)
    return max(loosest, operator, key=LOOSEST_FIRST.index)
