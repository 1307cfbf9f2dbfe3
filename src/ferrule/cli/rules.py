"""`ferrule rules` and `ferrule explain`: the rules of what may run, and why a call would run, ask or be refused."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ferrule.app.build import App, build_policy, build_tools, written_rules
from ferrule.app.server_files import as_settings_error
from ferrule.app.settings import PROJECT_FILE, user_settings_file
from ferrule.cli.completion import complete_tools
from ferrule.cli.group import DefaultGroup
from ferrule.cli.options import (
    given_arguments,
    json_option,
    permission_options,
    report_broken,
    sandbox_options,
    settings_for,
    warn,
    workspace_option,
)
from ferrule.cli.output import print_table, write, write_json, write_styled
from ferrule.cli.words import _, details_of, localised, result_text
from ferrule.core.call import RawCall
from ferrule.core.errors import StoppedError
from ferrule.core.shown_text import visible
from ferrule.pipeline.format import format_stopped
from ferrule.pipeline.stages import Verdict
from ferrule.policy.explain import Explanation, explain
from ferrule.policy.rule_file import RuleChecks, RuleFile, Written
from ferrule.policy.rules import parse_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation
    from ferrule.policy.decide import RulePolicy
    from ferrule.policy.rule_file import Imported


_LISTS = click.Choice([verdict.value for verdict in Verdict])


def _to_project(command: Callable[..., None]) -> Callable[..., None]:
    return click.option("--project", is_flag=True, help=_("In the project's ferrule.toml instead of your own."))(
        command
    )


rules_command = DefaultGroup("rules", help=_("See and change the permission rules. Without a command: list them."))


@rules_command.command("list", help=_("Every rule in force, and the file it comes from."))
@json_option
@workspace_option
def list_rules(as_json: bool, workspace: Path) -> None:
    workspace = workspace.resolve()
    settings = settings_for(workspace).settings
    tools = build_tools(settings, workspace)
    built = build_policy(settings, workspace, tools)
    rules = list(written_rules(settings))
    if as_json:
        document = [
            {
                "list": rule.verdict.value,
                "rule": rule.text,
                "source": rule.source.kind.value,
                "file": str(rule.source.file) if rule.source.file else None,
                "match": list(rule.match),
                "no_match": list(rule.no_match),
            }
            for rule in rules
        ]
        write_json({"mode": settings.permissions.mode, "rules": document})
        return
    for note in built.notes:
        warn(note)
    if not rules:
        click.echo(_("There are no rules. Add one: ferrule rules add 'Bash(git diff *)'"), err=True)
        return
    rows = [[rule.verdict.value, rule.text, rule.source.place] for rule in rules]
    print_table([_("LIST"), _("RULE"), _("SOURCE")], rows)


@rules_command.command("add", help=_("Add RULE to your settings: `Tool`, or `Tool(specifier)`."))
@click.argument("rule")
@click.option("--to", "listed", type=_LISTS, default="allow", show_default=True, help=_("The list to add it to."))
@click.option("--match", multiple=True, help=_("An example that it must match. Repeatable."))
@click.option("--no-match", multiple=True, help=_("An example that it must not match. Repeatable."))
@_to_project
@workspace_option
def add(
    rule: str, listed: str, match: tuple[str, ...], no_match: tuple[str, ...], project: bool, workspace: Path
) -> None:
    file = _file(project, workspace)
    verdict = Verdict(listed)
    with as_settings_error():
        RuleChecks(workspace).read([Written(verdict, rule, match=match, no_match=no_match)])
        parsed = parse_rule(rule, verdict)
        added = RuleFile(file).add(parsed.text, verdict, match, no_match)
    said = _("{rule} is now in {listed} in {file}.") if added else _("{rule} is already in {listed} in {file}.")
    write(said.format(rule=parsed.text, listed=listed, file=file))
    if project and verdict is Verdict.ALLOW:
        warn(_("A project's allow rules count only in folders that you list in `trusted_folders`."))


@rules_command.command("remove", help=_("Remove RULE from your settings."))
@click.argument("rule")
@click.option("--from", "listed", type=_LISTS, help=_("Only from this list."))
@_to_project
@workspace_option
def remove(rule: str, listed: str | None, project: bool, workspace: Path) -> None:
    file = _file(project, workspace)
    with as_settings_error():
        found = RuleFile(file).remove(rule, Verdict(listed) if listed else None)
        others = [f"{verdict.value}: {text}" for verdict, text in RuleFile(file).rules()]
    if not found:
        there = "; ".join(others) or _("none")
        raise click.UsageError(
            _("{rule} is not in {file}. Its rules: {there}").format(rule=rule, file=file, there=there)
        )
    lists = ", ".join(verdict.value for verdict in found)
    write(_("{rule} was removed from {listed} in {file}.").format(rule=rule, listed=lists, file=file))


@rules_command.command(
    "test", help=_("Say whether RULE matches each SUBJECT: a command, a path, a host or a tool's name.")
)
@click.argument("rule")
@click.argument("subjects", nargs=-1, required=True)
@click.option("--as", "listed", type=_LISTS, default="allow", show_default=True, help=_("The list it would be in."))
@json_option
@workspace_option
def test(rule: str, subjects: tuple[str, ...], listed: str, as_json: bool, workspace: Path) -> None:
    checks = RuleChecks(workspace.resolve())
    with as_settings_error():
        (parsed,) = checks.read([Written(Verdict(listed), rule)]).rules
    results = [(subject, checks.fits(parsed, subject)) for subject in subjects]
    if as_json:
        document = [{"subject": subject, "matches": fits} for subject, fits in results]
        write_json(document)
    else:
        for subject, fits in results:
            write(_("{what}: {why}").format(what=_("yes") if fits else _("no"), why=subject))
    sys.exit(0 if all(fits for _subject, fits in results) else 1)


@rules_command.command(
    "import", help=_("Import the permissions of Claude Code, from FILES or from where it keeps them.")
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help=_("Only show what would be imported."))
@_to_project
@json_option
@workspace_option
def import_rules(files: tuple[Path, ...], dry_run: bool, project: bool, as_json: bool, workspace: Path) -> None:
    from ferrule.policy.rule_file import claude_files, read_claude_settings

    chosen = list(files) or claude_files(workspace.resolve())
    if not chosen:
        raise click.UsageError(_("There are no settings of Claude Code here. Name a file: ferrule rules import FILE"))
    target = RuleFile(_file(project, workspace))
    with as_settings_error():
        found = [read_claude_settings(file) for file in chosen]
        added = 0
        for one in [] if dry_run else found:
            added += sum(target.add(text, verdict) for verdict, text in one.rules)
    if as_json:
        write_json([_imported(one) for one in found])
        return
    for one in found:
        _report(one)
    if dry_run:
        write(_("Nothing was written."))
    else:
        write(_("{added} rules were added to {file}.").format(added=added, file=target.path))


def _report(imported: Imported) -> None:
    write(f"{imported.file}:")
    for verdict, text in imported.rules:
        write(f"  {verdict.value:5}  {text}")
    for before, after in imported.changed:
        write("  " + _("rewritten: {before} is now {after}").format(before=before, after=after))
    if imported.mode:
        write("  " + _("its mode is {mode}; set it yourself: permissions.mode").format(mode=imported.mode))
    for one in imported.not_carried:
        write("  " + _("not imported: {what}: {why}").format(what=one.what, why=one.why))


def _imported(imported: Imported) -> dict[str, object]:
    return {
        "file": str(imported.file),
        "rules": [{"list": verdict.value, "rule": text} for verdict, text in imported.rules],
        "changed": [{"before": before, "after": after} for before, after in imported.changed],
        "mode": imported.mode,
        "not_carried": [{"what": one.what, "why": one.why} for one in imported.not_carried],
    }


def _file(project: bool, workspace: Path) -> Path:
    return workspace.resolve() / PROJECT_FILE if project else user_settings_file()


_EXIT = {"allow": 0, "ask": 3, "deny": 3}
_MOST_SHOWN = 12
_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red"}


@click.command(
    "explain",
    help=_(
        "Say why a call of TOOL with ARGUMENTS, a JSON object, would run, ask or be refused. Nothing is run. "
        "`-` reads the arguments from stdin."
    ),
    epilog=_("Exit codes: 0 it would run, 1 no such tool or wrong arguments, 2 usage, 3 it would ask or be refused."),
)
@click.argument("tool", shell_complete=complete_tools)
@click.argument("arguments", required=False)
@workspace_option
@permission_options
@sandbox_options
@json_option
def explain_command(tool: str, arguments: str | None, workspace: Path, as_json: bool) -> None:
    workspace = workspace.resolve()
    settings = settings_for(workspace).settings
    # All that a call is decided by is made as for `ferrule call`, and nothing is put on record.
    app = App(replace(settings, audit=replace(settings.audit, enabled=False)), workspace, single_call=True)
    report_broken(app.tools)
    for note in app.notes:
        warn(note)
    session = app.runtime.session
    call = RawCall(tool, given_arguments(arguments, settings.limits.argument_bytes))
    try:
        invocation = app.runtime.build(call)
    except StoppedError as stopped:
        result = format_stopped(call.id, tool, stopped)
        if as_json and result.error is not None:
            write_json({"error": result.error.to_dict()})
        else:
            write(result_text(result), err=True)
        sys.exit(1)
    invocation.session = session
    explanation = asyncio.run(_explained(app.policy, invocation, session))
    if explanation.box:
        from ferrule.builtin.session_shells import box_shows

        explanation = replace(explanation, shows=box_shows(session))
    if as_json:
        write_json(explanation.to_dict())
    else:
        _print(explanation)
    sys.exit(_EXIT[explanation.verdict.value])


async def _explained(policy: RulePolicy, invocation: Invocation, session: Session) -> Explanation:
    try:
        await invocation.ready(session)
        return explain(policy, invocation, session)
    finally:
        await session.close()


def _print(explanation: Explanation) -> None:
    because = _(", because {reason}").format(reason=localised(explanation.reason))
    _write_verdict(_("{what}: {why}").format(what=explanation.tool, why=""), explanation.verdict.value, because)
    for part in explanation.parts:
        write(f"\n  {localised(part.what)}")
        why = details_of(part.why)
        if why or part.effect != "runs":  # that a part of a command runs goes without saying
            effect = _word(part.effect)
            write("    " + (_("{what}: {why}").format(what=effect, why=why) if why else effect))
        source = _(" ({place})").format(place=localised(part.file)) if part.file else ""
        _write_verdict("    ", part.verdict.value, _(": {why}").format(why=localised(part.because)) + source)
    for danger in explanation.dangers:
        write("\n  " + _("Dangerous: {what}").format(what=localised(danger)))
    if explanation.box_why:
        write("\n" + localised(explanation.box_why))
    titles = {
        "workspace": _("Workspace"), "added": _("Added folders"), "git": _("Git directory"),
        "toolchains": _("Toolchains"), "system": _("System"), "hidden": _("Hidden"),
    }  # fmt: skip
    if explanation.shows:
        write("\n" + _("The box shows this and nothing else:"))
    for name, paths in explanation.shows.items():
        if paths:
            more = _(" and {count} more").format(count=len(paths) - _MOST_SHOWN) if len(paths) > _MOST_SHOWN else ""
            write(f"  {titles[name]}: {visible(', '.join(paths[:_MOST_SHOWN]))}{more}")
    if explanation.needed:
        write("\n" + _("Needed: {what}").format(what=localised(explanation.needed)))


def _word(name: str) -> str:
    """A verdict, or what a part does, in the person's language."""
    known = {
        "allow": _("allow"), "ask": _("ask"), "deny": _("deny"),
        "reads": _("reads"), "writes": _("writes"), "runs": _("runs"), "reaches": _("reaches"),
        "unclear": _("unclear"), "readonly": _("readonly"), "write": _("write"), "execute": _("execute"),
    }  # fmt: skip
    return known.get(name, name)


def _write_verdict(before: str, verdict: str, after: str) -> None:
    """A line with the verdict in its colour; whatever else is in it was written by others."""
    styled = click.style(_word(verdict), fg=_COLOURS[verdict])
    write_styled(f"{visible(before)}{styled}{visible(after)}")
