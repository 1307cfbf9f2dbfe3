"""Weighs a call by its tool's name and kind, by what the tool says of it, and by the paths and hosts it touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.core.tool import Kind
from ferrule.pipeline.authorise import by_kind
from ferrule.pipeline.stages import Verdict
from ferrule.policy.findings import Finding, weigh_path
from ferrule.policy.rules import FETCH, About

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.core.tool import Invocation
    from ferrule.pipeline.authorise import Mode
    from ferrule.policy.findings import Lists, Request
    from ferrule.policy.rule_set import RuleSet
    from ferrule.policy.rules import Rule


def weigh_call(invocation: Invocation, request: Request, lists: Lists, mode: Mode) -> list[Finding]:
    """The tool itself first, then each path and host."""
    tool = invocation.tool
    whole = Finding(tool.name, tool.kind.value)
    whole.denied = lists.deny.tool(tool.name) or _by_signature(invocation, (lists.deny,))
    whole.asked = lists.ask.tool(tool.name) or _by_signature(invocation, (lists.ask,))
    whole.rule = _named(tool.name, lists) or _by_signature(invocation, lists.allow)
    paths = [
        *(weigh_path(path, request, lists, write=False) for path in request.reads),
        *(weigh_path(path, request, lists, write=True) for path in request.writes),
    ]
    hosts = list(_hosts(request, lists))
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
    plain = not (tool.dangerous or tool.requires_permission)
    writes = [finding for finding in paths if finding.effect == "writes"]
    if plain and writes and not request.writes_else and tool.kind is not Kind.EXECUTE:
        if all(finding.leave for finding in writes):
            whole.leave, whole.rule = writes[0].leave, writes[0].rule
            return
    elif plain and tool.name == FETCH and hosts and all(finding.rule for finding in hosts):
        whole.leave, whole.rule = hosts[0].leave, hosts[0].rule
        return
    decision = by_kind(invocation, mode, writes=bool(request.writes or request.writes_else or request.commands))
    # Edits are accepted inside the workspace alone, as far as a tool says where it writes.
    elsewhere = tool.has_touches and not tool.read_only and bool(writes or request.writes_else)
    if decision.verdict is Verdict.ALLOW and not elsewhere:
        whole.leave = decision.reason
    else:
        whole.need = decision.reason if decision.verdict is Verdict.ASK else _outside(writes)


def _outside(writes: list[Finding]) -> str:
    held = next((finding for finding in writes if not finding.leave), None)
    if held is None:
        return phrase("a tool that writes asks first")
    return held.need or phrase("it would {what}, which is outside the workspace", what=held.what)


def _hosts(request: Request, lists: Lists) -> Iterator[Finding]:
    for host in request.hosts:
        finding = Finding(phrase("reach {host}", host=host), "reaches", leave=phrase("the tool's own leave counts"))
        finding.denied = lists.deny.concerning_host(host)
        finding.asked = lists.ask.concerning_host(host)
        finding.rule = next((rule for rules in lists.allow if (rule := rules.covering_host(host))), None)
        if finding.rule is not None:
            finding.leave = phrase("{rule} allows it", rule=finding.rule.words)
        yield finding


def _named(tool: str, lists: Lists) -> Rule | None:
    return next((rule for rules in lists.allow if (rule := rules.tool(tool))), None)


def _by_signature(invocation: Invocation, sets: tuple[RuleSet, ...]) -> Rule | None:
    for rules in sets:
        if rules.about(About.CALL) and (found := rules.call(invocation.tool.name, invocation.signature)):
            return found
    return None
