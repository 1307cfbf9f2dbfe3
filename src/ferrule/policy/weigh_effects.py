"""Decides about what a tried call would change: by the rules about paths and hosts, then by the mode, else the user."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ferrule.core.access import OF_GIT
from ferrule.core.phrases import phrase
from ferrule.pipeline.authorise import BYPASS, Mode, never_asked
from ferrule.pipeline.stages import Decision, Verdict
from ferrule.policy.findings import Finding, inside, weigh_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.core.call import Barrier, Effects, FileEffect
    from ferrule.policy.findings import Lists, Request

_MOST_KEPT = 64 << 20
"""What the history keeps of a file at most; see `Caps`."""
_ACCEPTED = phrase("mode accept-edits keeps changes in the workspace that git can restore")
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
    if effect.action == "rename" and effect.detail:
        paths.append(os.path.normpath(os.path.join(request.roots[0], effect.detail.removeprefix("from "))))  # noqa: PTH118
    for path in paths:
        finding = weigh_path(path, request, lists, write=True)
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


def _of_a_repository(effect: FileEffect, made: set[str]) -> bool:
    """Whether git would obey it as a repository's own, whatever the folder is called: a `.git` file, or the settings
    and hooks of a folder with a `HEAD`.
    """
    folder, _, name = effect.path.rpartition("/")
    if name == ".git":
        return effect.node != "folder"
    if folder.endswith("/hooks"):
        folder, name = folder.removesuffix("/hooks"), "hooks"
    head = f"{folder}/HEAD"
    return name in OF_GIT and not folder.endswith("/.git") and (head in made or os.path.lexists(head))


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
        if _of_a_repository(effect, made):
            return Decision(Verdict.ASK, phrase("git would obey `{path}`", path=effect.shown))
    if effects.runs_again:
        return Decision(Verdict.ASK, effects.reason)
    return None


def _allowing(
    effects: Effects, weighed: list[tuple[FileEffect, list[Finding]]], request: Request, mode: Mode
) -> Decision | None:
    if mode is Mode.BYPASS:
        return BYPASS
    rules = [finding.rule for _, found in weighed for finding in found]
    if not effects.files:
        return None
    if all(rules) and rules[0] is not None:
        return Decision(Verdict.ALLOW, phrase("{rule} allows it", rule=rules[0].words), rules[0].text)
    kept = all(
        finding.rule is not None or (bool(finding.leave) and not _loses(effect) and not _leads_out(effect, request))
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
    """Whether it makes a link to somewhere outside the workspace."""
    if effect.node != "link" or effect.action == "delete":
        return False
    target = effect.detail.rpartition("-> ")[2]
    place = os.path.normpath(os.path.join(os.path.dirname(effect.path), target))  # noqa: PTH118, PTH120 - text
    return not target or not inside(place, request.roots)
