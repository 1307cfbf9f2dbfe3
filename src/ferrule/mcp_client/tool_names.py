"""Names of servers' tools: `mcp__server__tool`, which every provider takes, and from which both parts can be told.

What a name becomes depends on the server's and the tool's names alone, so other tools may come and go. A name that
does not fit keeps what is readable of it and gets a short hash of the whole; a name that only looks as if it had one
is hashed too, so no server can choose a name that another's was given.
"""

from __future__ import annotations

import re
from hashlib import sha256

from ferrule.dialects.names import readable

PREFIX = "mcp__"
MOST = 64
_MOST_OF_SERVER = 24
_HASH_DIGITS = 8
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_MADE = re.compile(r".*-[0-9a-f]{8}", re.DOTALL)
# What `dialects.names` makes of names that do not fit; ours must never look like one, or it would be made anew.
_MADE_ELSEWHERE = re.compile(r".*__[0-9a-f]{8}", re.DOTALL)


def server_slug(name: str) -> str:
    """A server's part of the name: no `__` in it and no `_` at its ends, so that it can be told from the tool's."""
    fits = re.fullmatch(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*", name) and len(name) <= _MOST_OF_SERVER
    if fits and not _MADE.fullmatch(name):
        return name
    return _with_hash(re.sub("_+", "_", readable(name)), name, _MOST_OF_SERVER)


def tool_name(server: str, tool: str) -> str:
    """The name under which a server's tool is registered."""
    head = f"{PREFIX}{server_slug(server)}__"
    room = MOST - len(head)
    fits = tool and not _FOREIGN.search(tool) and len(tool) <= room
    if fits and not _MADE.fullmatch(tool) and not _MADE_ELSEWHERE.fullmatch(head + tool):
        return head + tool
    return head + _with_hash(readable(tool), tool, room)


def split_name(name: str) -> tuple[str, str] | None:
    """The server's part and the tool's part of a name; None for one that is no server's tool."""
    if not name.startswith(PREFIX):
        return None
    server, between, tool = name.removeprefix(PREFIX).partition("__")
    return (server, tool) if server and between and tool else None


def _with_hash(short: str, whole: str, most: int) -> str:
    digest = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    kept = short[: most - _HASH_DIGITS - 1].strip("_-") or "x"
    return f"{kept}-{digest}"
