"""`ferrule explain`: why a call would run, ask or be refused, without running it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ferrule.app.build import build_policy, build_tools
from ferrule.cli.options import (
    json_option,
    permission_flags,
    permission_options,
    report_broken,
    settings_for,
    warn,
    workspace_option,
)
from ferrule.cli.output import for_stdout, write, write_json, write_styled
from ferrule.cli.piped_input import given_arguments
from ferrule.cli.words import _, details_of, localised, result_text
from ferrule.core.call import RawCall
from ferrule.core.context import Session
from ferrule.core.errors import Stopped
from ferrule.pipeline.format import format_stopped
from ferrule.pipeline.run import Runtime, attempt
from ferrule.policy.explain import Explanation, explain

if TYPE_CHECKING:
    from pathlib import Path

_EXIT = {"allow": 0, "ask": 3, "deny": 3}
_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red"}


@click.command(
    "explain",
    help=_(
        "Say why a call of TOOL with ARGUMENTS, a JSON object, would run, ask or be refused. Nothing is run. "
        "`-` reads the arguments from stdin."
    ),
    epilog=_("Exit codes: 0 it would run, 1 no such tool or wrong arguments, 2 usage, 3 it would ask or be refused."),
)
@click.argument("tool")
@click.argument("arguments", required=False)
@workspace_option
@permission_options
@json_option
def command(
    tool: str,
    arguments: str | None,
    workspace: Path,
    mode: str | None,
    allow: tuple[str, ...],
    ask: tuple[str, ...],
    deny: tuple[str, ...],
    as_json: bool,
) -> None:
    workspace = workspace.resolve()
    settings = settings_for(workspace, permission_flags(mode, allow, ask, deny)).settings
    tools = build_tools(settings, workspace)
    report_broken(tools)
    built = build_policy(settings, workspace, tools)
    for note in built.notes:
        warn(note)
    session = Session(workspace=workspace)
    call = RawCall(tool, given_arguments(arguments, settings.limits.argument_bytes))
    invocation = attempt(Runtime(tools.registry, policy=built.policy, session=session).build, call)
    if isinstance(invocation, Stopped):
        result = format_stopped(call.id, tool, invocation)
        if as_json and result.error is not None:
            write_json({"error": result.error.to_dict()})
        else:
            write(result_text(result), err=True)
        sys.exit(1)
    invocation.session = session
    explanation = explain(built.policy, invocation, session)
    if as_json:
        write_json(explanation.to_dict())
    else:
        _print(explanation)
    sys.exit(_EXIT[explanation.verdict.value])


def _print(explanation: Explanation) -> None:
    because = _(", because {reason}").format(reason=localised(explanation.reason))
    _write_verdict(f"{explanation.tool}: ", explanation.verdict.value, because)
    for part in explanation.parts:
        write(f"\n  {localised(part.what)}")
        why = details_of(part.why)
        if why or part.effect != "runs":  # that a part of a command runs goes without saying
            write("    " + (_("{what}: {why}").format(what=part.effect, why=why) if why else part.effect))
        source = _(" ({place})").format(place=localised(part.file)) if part.file else ""
        _write_verdict("    ", part.verdict.value, _(": {why}").format(why=localised(part.because)) + source)
    for danger in explanation.dangers:
        write("\n  " + _("Dangerous: {what}").format(what=localised(danger)))
    if explanation.box_why:
        write("\n" + localised(explanation.box_why))
    if explanation.needed:
        write("\n" + _("Needed: {what}").format(what=localised(explanation.needed)))


def _write_verdict(before: str, verdict: str, after: str) -> None:
    """A line with the verdict in its colour; whatever else is in it was written by others."""
    styled = click.style(verdict, fg=_COLOURS[verdict])
    write_styled(f"{for_stdout(before)}{styled}{for_stdout(after)}")
