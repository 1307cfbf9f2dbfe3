"""`ferrule tools` and `ferrule lint`: which tools there are, and what in them would confuse a model (T11)."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, cast

import click

from ferrule.app.build import assistant_tools, build_tools
from ferrule.cli.completion import complete_tools
from ferrule.cli.mcp_servers import list_servers
from ferrule.cli.options import json_option, promise, report_broken, settings_for, warn, workspace_option
from ferrule.cli.output import print_table, write, write_json
from ferrule.cli.words import _
from ferrule.core.schemas import mapping, referred
from ferrule.core.tool import description_of, output_schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ferrule.core.tool import Tool
    from ferrule.plugins.plugin import BrokenModule
    from ferrule.registry.registry import ToolSource


def print_details(tool: Tool[Any]) -> None:
    """Kind, version, description, and each parameter with its type, default and description."""
    title = f": {tool.display_name}" if tool.display_name != tool.name else ""
    write(f"{tool.name} {tool.version} ({tool.kind.value}){title}")
    write(f"\n{description_of(tool).text}\n")
    if (fault := tool.fault) is not None:
        write(fault)
        return
    schema = tool.input_schema
    properties: dict[str, Any] = schema.get("properties", {})
    if not properties:
        write(_("It takes no parameters."))
        return
    write(_("Parameters:"))
    for name, property_schema in properties.items():
        described = mapping(property_schema)
        if name in schema.get("required", ()):
            need = _("required")
        elif "default" in described:
            need = _("default {value}").format(value=json.dumps(described["default"], ensure_ascii=False))
        else:
            need = _("optional")
        write(f"  {name}: {type_of(described, schema)}, {need}")
        for line in str(described.get("description", "")).splitlines():
            write(f"      {line}")


def type_of(described: Any, schema: Mapping[str, Any]) -> str:
    """A schema's type in a few words."""
    described = mapping(described)
    if reference := described.get("$ref"):
        target = mapping(referred(reference, schema))
        return str(reference).rpartition("/")[2] if not target or "properties" in target else type_of(target, schema)
    if "enum" in described:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in described["enum"])
    if "const" in described:
        return json.dumps(described["const"], ensure_ascii=False)
    for key in ("anyOf", "oneOf"):
        if key in described:
            return " | ".join(dict.fromkeys(type_of(one, schema) for one in described[key]))
    kind: Any = described.get("type", _("anything"))
    if isinstance(kind, list):
        return " | ".join(str(one) for one in cast("list[Any]", kind))
    if kind == "array" and isinstance(described.get("items"), dict):
        return f"array of {type_of(described['items'], schema)}"
    return str(kind)


_DIALECTS = ("openai", "openai-responses", "anthropic", "gemini", "mcp")


@click.command(
    "tools", help=_("List the tools, or those that match every word of QUERY; a tool's exact name shows it in full.")
)
@click.argument("query", nargs=-1, shell_complete=complete_tools)
@json_option
@click.option(
    "--dialect",
    type=click.Choice(_DIALECTS),
    is_eager=True,
    callback=promise,
    help=_("Print definitions in a provider's form, as JSON."),
)
@click.option(
    "--mode", type=click.Choice(("default", "plan")), help=_("Show the tools of a mode; plan: read-only tools.")
)
@click.option("--role", help=_("Show only what this role may use."))
@workspace_option
def tools_command(
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
    offered = set(assistant_tools(loaded.settings, tools.registry).names())
    if dialect:
        _print_definitions(shown, dialect)
        return
    # A plain list asks only the tools that people add: the others are known to be sound, and a list is to be quick.
    faults = {tool.name: tool.fault for tool in shown if as_json or origins[tool.name] == "plugin"}
    for fault in faults.values():
        if fault is not None:
            warn(fault)
    if as_json:
        write_json(
            [
                {**_document(tool, origins[tool.name], faults[tool.name]), "assistant": tool.name in offered}
                for tool in shown
            ]
        )
    elif not shown:
        click.echo(_("No tool matches."), err=True)
    else:
        marks = {True: _("yes"), False: _("no")}
        rows = [
            [tool.name, tool.kind.value, marks[tool.name in offered], description_of(tool).short]
            for tool in sorted(shown, key=lambda tool: tool.name not in offered)
        ]
        print_table([_("NAME"), _("KIND"), _("ASSISTANT"), _("DESCRIPTION")], rows)


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


def _known(_context: click.Context, _option: click.Parameter, rules: tuple[str, ...]) -> tuple[str, ...]:
    from ferrule.core.lint import RULES

    for rule in rules:
        if rule not in RULES:
            raise click.BadParameter(f"there is no rule '{rule}'. Rules are {min(RULES)} to {max(RULES)}.")
    return rules


@click.command("lint", help=_("Check the tools in PATH, a Python file or a folder of them; without it, all tools."))
@click.argument("path", required=False, type=click.Path(exists=True, path_type=__import__("pathlib").Path))
@click.option("--ignore", multiple=True, metavar="RULE", callback=_known, help=_("Skip this rule. Repeatable."))
@json_option
@workspace_option
def lint_command(path: Path | None, ignore: tuple[str, ...], as_json: bool, workspace: Path) -> None:
    from ferrule.core.lint import lint_tool

    tools, broken = _tools(path, workspace)
    findings = [(tool.name, finding) for tool in tools for finding in lint_tool(tool, ignore=ignore)]
    if as_json:
        keys = ("rule", "severity", "where", "message", "suggestion")
        document = [{"tool": name, **{key: getattr(finding, key) for key in keys}} for name, finding in findings]
        for one in broken:
            said = ("load", "error", one.source, one.reason, None)
            document.append({"tool": None, **dict(zip(keys, said, strict=True))})
        write_json(document)
    else:
        for one in broken:
            write(f"{one.source}: " + _("error") + f" load: {one.reason}")
        for name, finding in findings:
            place = f"{name}.{finding.where}" if finding.where else name
            write(f"{place}: {_(finding.severity)} {finding.rule}: {finding.message}")
            if finding.suggestion:
                write(f"    {finding.suggestion}")
        click.echo(
            _("Tools checked: {tools}. Findings: {findings}.").format(
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
