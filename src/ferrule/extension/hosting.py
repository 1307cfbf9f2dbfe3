"""What a program needs to host other people's tools: load their code, start them in a box, show what they ask for.

Ferrule's own plugins are hosted with this, `ferrule.extension` and the public modules alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.core.access import FOR_WRITING
    from ferrule.core.description import parse_docstring
    from ferrule.core.languages import catalogue
    from ferrule.core.lint import lint_tool
    from ferrule.core.nearest import edits
    from ferrule.core.phrases import translated
    from ferrule.core.plugin import run_step
    from ferrule.core.shown_text import plain_letters, shown_argument, without_twins
    from ferrule.core.signatures import signature_of
    from ferrule.core.tool import Style, refuse_hidden
    from ferrule.mcp_client.remote_server import list_tools
    from ferrule.mcp_client.remote_tool import AgreedServer, Definition, read_listing, tool_name
    from ferrule.mcp_client.server_config import ServerBox, ServerConfig
    from ferrule.mcp_client.trust_records import Approvals
    from ferrule.pipeline.threads import awaits_call, interrupt
    from ferrule.process.arguments import CommandLine, ProgramWords, wrong_text
    from ferrule.process.box import open_box
    from ferrule.process.profile import Bounds, Profile
    from ferrule.process.sandbox.proxy import AllowedHosts
    from ferrule.process.sandbox.sandbox import Sandbox
    from ferrule.workspace.granted_folders import FolderDanger, dangers_of, require_grantable, shown_folders

__all__ = [
    "FOR_WRITING", "AgreedServer", "AllowedHosts", "Approvals", "Bounds", "CommandLine", "Definition", "FolderDanger",
    "Profile", "ProgramWords", "Sandbox", "ServerBox", "ServerConfig", "Style", "awaits_call", "catalogue",
    "dangers_of", "edits", "interrupt", "lint_tool", "list_tools", "open_box", "parse_docstring", "plain_letters",
    "read_listing", "refuse_hidden", "require_grantable", "run_step", "shown_argument", "shown_folders",
    "signature_of", "tool_name", "translated", "without_twins", "wrong_text",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "core.access": ("FOR_WRITING",),
        "core.description": ("parse_docstring",),
        "core.languages": ("catalogue",),
        "core.lint": ("lint_tool",),
        "core.nearest": ("edits",),
        "core.phrases": ("translated",),
        "core.plugin": ("run_step",),
        "core.shown_text": ("plain_letters", "shown_argument", "without_twins"),
        "core.signatures": ("signature_of",),
        "core.tool": ("Style", "refuse_hidden"),
        "mcp_client.remote_server": ("list_tools",),
        "mcp_client.remote_tool": ("AgreedServer", "Definition", "read_listing", "tool_name"),
        "mcp_client.server_config": ("ServerBox", "ServerConfig"),
        "mcp_client.trust_records": ("Approvals",),
        "pipeline.threads": ("awaits_call", "interrupt"),
        "process.arguments": ("CommandLine", "ProgramWords", "wrong_text"),
        "process.box": ("open_box",),
        "process.profile": ("Bounds", "Profile"),
        "process.sandbox.proxy": ("AllowedHosts",),
        "process.sandbox.sandbox": ("Sandbox",),
        "workspace.granted_folders": ("FolderDanger", "dangers_of", "require_grantable", "shown_folders"),
    },
)
