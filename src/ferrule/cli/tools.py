"""`ferrule tools`: which tools there are, for a person or in a provider's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ferrule.app.find_tools import build_tools
from ferrule.cli.details import print_details
from ferrule.cli.mcp_state import list_servers
from ferrule.cli.options import json_option, promise, report_broken, settings_for, warn, workspace_option
from ferrule.cli.output import write_json
from ferrule.cli.table import print_table
from ferrule.cli.words import _
from ferrule.core.tool import description_of, output_schema_of

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.tool import Tool
    from ferrule.registry.source import ToolSource

_DIALECTS = ("openai", "openai-responses", "anthropic", "gemini", "mcp")


@click.command(
    "tools", help=_("List the tools, or those that hold every word of QUERY; a tool's exact name shows all of it.")
)
@click.argument("query", nargs=-1)
@json_option
@click.option(
    "--dialect",
    type=click.Choice(_DIALECTS),
    is_eager=True,
    callback=promise,
    help=_("Print definitions in a provider's form, as JSON."),
)
@click.option(
    "--mode", type=click.Choice(("default", "plan")), help=_("Show what a mode shows; plan: read-only tools.")
)
@click.option("--role", help=_("Show only what this role may use."))
@workspace_option
def command(
    query: tuple[str, ...], as_json: bool, dialect: str | None, mode: str | None, role: str | None, workspace: Path
) -> None:
    loaded = settings_for(workspace)
    tools = build_tools(loaded.settings, workspace.resolve())
    report_broken(tools)
    list_servers(tools)
    source: ToolSource = tools.registry
    if mode:
        source = source.for_mode(mode)
    if role:
        source = source.for_role(role)
    if len(query) == 1 and not (dialect or as_json) and query[0] in source.names():
        print_details(next(tool for tool in source.tools() if tool.name == query[0]))
        return
    shown = source.search(" ".join(query), most=1000) if query else source.tools()
    origins = {name: entry.origin for name, entry in source.entries()}
    if dialect:
        _print_definitions(shown, dialect)
        return
    # A plain list asks only the tools that people add: the others are known to be sound, and a list is to be quick.
    faults = {tool.name: tool.fault for tool in shown if as_json or origins[tool.name] == "plugin"}
    for fault in faults.values():
        if fault is not None:
            warn(fault)
    if as_json:
        write_json([_document(tool, origins[tool.name], faults[tool.name]) for tool in shown])
    elif not shown:
        click.echo(_("No tool matches."), err=True)
    else:
        rows = [[tool.name, tool.kind.value, description_of(tool).short] for tool in shown]
        print_table([_("NAME"), _("KIND"), _("DESCRIPTION")], rows)


def _print_definitions(tools: list[Tool[Any]], name: str) -> None:
    import logging

    from ferrule.dialects.exporter import Exporter

    logging.getLogger("ferrule.dialects").setLevel(logging.ERROR)  # what is left out is said with the other losses
    exporter = Exporter(name)
    write_json(exporter.definitions(tools))
    for loss in exporter.losses:
        warn(str(loss))


def _document(tool: Tool[Any], origin: str, fault: str | None) -> dict[str, Any]:
    return {
        "name": tool.name,
        "display_name": tool.display_name,
        "kind": tool.kind.value,
        "version": tool.version,
        "category": tool.category,
        "tags": sorted(tool.tags),
        "description": description_of(tool).text,
        "input_schema": tool.input_schema if fault is None else None,
        "output_schema": output_schema_of(tool) if fault is None else None,
        "read_only": tool.read_only,
        "concurrency_safe": tool.concurrency_safe,
        "strict": tool.strict,
        "dangerous": tool.dangerous,
        "requires_permission": tool.requires_permission,
        "roles": sorted(tool.roles),
        "idempotent": tool.idempotent,
        "timeout": tool.timeout,
        "origin": origin,
        "fault": fault,
    }
