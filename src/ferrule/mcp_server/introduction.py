"""What server and client know of each other when one comes, in either era; without the SDK, which imports slowly."""

from __future__ import annotations

from typing import Any

from ferrule._version import __version__

NAME = "ferrule"
TITLE = "Ferrule"
INSTRUCTIONS = (
    "Tools that run under the person's own permission rules. Paths are relative to the workspace. "
    "Read a file before you edit it. A call that needs the person's leave asks them or is refused; the refusal says "
    "what would allow it, so tell the person instead of trying other ways around it."
)
HANDSHAKE_REVISIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
STATELESS_REVISION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
META = "io.modelcontextprotocol/"
_TOOLS = {"listChanged": True}
_READ_STRUCTURED_ALONE = frozenset({"claude-code", "codex-mcp-client", "opencode"})


def handshake(revision: str) -> dict[str, Any]:
    """The answer to `initialize`."""
    return {
        "protocolVersion": revision,
        "capabilities": {"tools": _TOOLS},
        "serverInfo": _server_info(),
        "instructions": INSTRUCTIONS,
    }


def discovery() -> dict[str, Any]:
    """The answer to `server/discover`."""
    return {
        "resultType": "complete",
        "supportedVersions": [STATELESS_REVISION],
        "capabilities": {"tools": _TOOLS, "extensions": {TASKS: {}}},
        "instructions": INSTRUCTIONS,
        "cacheScope": "private",
        "ttlMs": 0,
        "_meta": {f"{META}serverInfo": _server_info()},
    }


def _server_info() -> dict[str, Any]:
    return {"name": NAME, "title": TITLE, "version": __version__}


def takes_structured(client: str) -> bool:
    """Whether a client of this name gets structured content beside the words.

    Some agents show their model the JSON in place of the words, and of the pictures beside them. They are known by
    name, for no capability tells them apart, and get words and pictures alone, which a model reads better.
    """
    return client not in _READ_STRUCTURED_ALONE
