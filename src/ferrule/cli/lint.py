"""`ferrule lint`: what in a tool's definition would confuse a model (T11)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ferrule.app.build import build_tools
from ferrule.cli.options import json_option, settings_for, workspace_option
from ferrule.cli.output import write, write_json
from ferrule.cli.words import _

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.tool import Tool
    from ferrule.plugins.plugin import BrokenModule


def _known(_context: click.Context, _option: click.Parameter, rules: tuple[str, ...]) -> tuple[str, ...]:
    from ferrule.core.lint import RULES

    for rule in rules:
        if rule not in RULES:
            raise click.BadParameter(f"there is no rule '{rule}'. Rules are {min(RULES)} to {max(RULES)}.")
    return rules


@click.command("lint", help=_("Check the tools in PATH, a Python file or a folder of them; without it, all tools."))
@click.argument("path", required=False, type=click.Path(exists=True, path_type=__import__("pathlib").Path))
@click.option(
    "--ignore",
    multiple=True,
    metavar="RULE",
    callback=_known,
    help=_("Leave out this rule; may be given again."),
)
@json_option
@workspace_option
def command(path: Path | None, ignore: tuple[str, ...], as_json: bool, workspace: Path) -> None:
    from ferrule.core.lint import lint_tool

    tools, broken = _tools(path, workspace)
    findings = [(tool.name, finding) for tool in tools for finding in lint_tool(tool, ignore=ignore)]
    if as_json:
        document = [{"tool": name, **_document(finding)} for name, finding in findings]
        document += [
            {
                "tool": None,
                "rule": "load",
                "severity": "error",
                "where": one.source,
                "message": one.reason,
                "suggestion": None,
            }
            for one in broken
        ]
        write_json(document)
    else:
        for one in broken:
            write(f"{one.source}: {_('error')} load: {one.reason}")
        for name, finding in findings:
            place = f"{name}.{finding.where}" if finding.where else name
            write(f"{place}: {_(finding.severity)} {finding.rule}: {finding.message}")
            if finding.suggestion:
                write(f"    {finding.suggestion}")
        click.echo(
            _("{tools} tools checked, {findings} findings.").format(
                tools=len(tools), findings=len(findings) + len(broken)
            ),
            err=True,
        )
    sys.exit(1 if broken or findings else 0)


def _tools(path: Path | None, workspace: Path) -> tuple[list[Tool[Any]], list[BrokenModule]]:
    if path is None:
        found = build_tools(settings_for(workspace).settings, workspace.resolve())
        return found.registry.tools(), found.broken
    from ferrule.plugins.discovery import discover_file, discover_folder
    from ferrule.plugins.plugin import descriptor_aside

    with descriptor_aside():
        discovered = discover_folder(path) if path.is_dir() else discover_file(path)
    return [tool for plugin in discovered.plugins for tool in plugin.tools], discovered.broken


def _document(finding: Any) -> dict[str, Any]:
    return {key: getattr(finding, key) for key in ("rule", "severity", "where", "message", "suggestion")}
