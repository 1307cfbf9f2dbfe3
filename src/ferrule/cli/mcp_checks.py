"""The MCP servers, for `ferrule doctor`: which are named, which may be used, and whether they work, by trying.

All are tried at once and for a few seconds. One that a workspace brings is not started before the person trusted it,
and nobody is asked anything: a server that wants them to sign in says which command does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.app.locations import added_folders
from ferrule.app.mcp_servers import known_servers, mcp_folder
from ferrule.cli.check import Check
from ferrule.cli.words import _

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferrule.app.mcp_servers import KnownServer
    from ferrule.app.settings import Settings
    from ferrule.mcp_client.failures import Trouble
    from ferrule.mcp_client.servers import Joined

_SECONDS = 10.0
_LONGEST = 300


@dataclass(slots=True, frozen=True)
class _Tried:
    """What came of a try, noted before the server was ended."""

    tools: int
    who: str
    slow: bool
    problem: str
    trouble: Trouble
    notes: tuple[str, ...]
    garbage: str

    @classmethod
    def of(cls, joined: Joined) -> _Tried:
        server, offered = joined.server, joined.server.offered
        who = " ".join((offered.server, offered.version, offered.protocol)).strip() if offered else ""
        return cls(
            len(joined.tools), who, server.starting, server.problem, server.trouble, tuple(joined.problems),
            server.log.garbage(),
        )  # fmt: skip


def mcp_checks(settings: Settings, workspace: Path) -> Iterator[Check]:
    """One for each server, and for whatever could not be understood of them."""
    known = known_servers(settings, workspace)
    for problem in known.problems:
        yield Check("mcp", "fail", _one_row(problem))
    for problem in known.left_out:
        yield Check("mcp", "note", _one_row(problem))
    if not known.servers:
        if not known.problems:
            yield Check("mcp", "ok", _("no servers; add one: ferrule mcp add NAME COMMAND …"))
        return
    tried = _try([one for one in known.servers if one.trusted and one.config.enabled], settings, workspace)
    for one in known.servers:
        name = f"mcp {_one_row(one.config.name)}"
        found = tried.get(one.config.name)
        yield Check(name, *(_not_tried(one) if found is None else _outcome(one, found)))
        for note in found.notes if found is not None else ():
            yield Check(name, "note", _one_row(note))


def _try(usable: list[KnownServer], settings: Settings, workspace: Path) -> dict[str, _Tried]:
    """Start them together, wait a few seconds, and end whatever was started."""
    if not usable:
        return {}
    import asyncio
    import logging

    from ferrule.cli.server_waits import ServerWaits
    from ferrule.cli.status_line import StatusLine
    from ferrule.mcp_client.servers import Servers
    from ferrule.registry.registry import Registry

    logging.getLogger("ferrule.mcp").setLevel(logging.ERROR)  # what is left out of their tools is a check of its own
    servers = Servers(
        [one.config for one in usable],
        Registry(),
        folders=(workspace, *added_folders(settings, workspace)),
        data=mcp_folder(),
    )

    async def start() -> dict[str, _Tried]:
        try:
            async with StatusLine().showing(ServerWaits(servers)):
                await servers.start(wait=_SECONDS)
            return {name: _Tried.of(joined) for name, joined in servers.joined.items()}
        finally:
            await servers.close()

    return asyncio.run(start())


def _not_tried(one: KnownServer) -> tuple[str, str]:
    from ferrule.cli.mcp_changes import changed_since_trusted
    from ferrule.mcp_client.server_config import without_secrets

    config = one.config
    if not config.enabled:
        return "note", _("switched off in {file}").format(file=_file(one))
    words = (
        _(
            "changed since you trusted it, and not started: {command} ({file}). "
            "`ferrule mcp list` shows what changed; if that is right: {do}"
        )
        if changed_since_trusted(config)
        else _("not trusted yet, and not started: {command} ({file}). If that is right: {do}")
    )
    command = _one_row(without_secrets(config.shown))
    return "note", words.format(command=command, file=_file(one), do=f"ferrule mcp trust {_quoted(one)}")


def _outcome(one: KnownServer, tried: _Tried) -> tuple[str, str]:
    if tried.slow:
        words = _(
            "it has not answered within {seconds} s, and nobody waits longer here; it may take up to {most} s: "
            "ferrule mcp test {name}"
        )
        most = f"{one.config.start_timeout:g}"
        told = words.format(seconds=f"{_SECONDS:g}", most=most, name=_quoted(one))
        if tried.garbage:
            wrote = _("Its output holds what is no message of the protocol: {sample}")
            told = f"{told}. {wrote.format(sample=_one_row(repr(tried.garbage)))}"
        return "note", told
    if tried.problem:
        return _why_not(one, tried)
    count = _("1 tool") if tried.tools == 1 else _("{count} tools").format(count=tried.tools)
    words = _("{count}; it is {who}, named in {file}")
    return "ok", words.format(count=count, who=_one_row(tried.who), file=_file(one))


def _why_not(one: KnownServer, tried: _Tried) -> tuple[str, str]:
    """The reason, and what to do about it."""
    from ferrule.mcp_client.failures import Trouble

    file, name = _file(one), _quoted(one)
    do = {
        Trouble.VALUE: _("Give it a value, or change {file}.").format(file=file),
        Trouble.PROGRAM: _("Install it, or correct {file}.").format(file=file),
        Trouble.ADDRESS: _("Look at your network, and at the address in {file}.").format(file=file),
        Trouble.SIGN_IN: "",  # the reason names the command
        Trouble.EXTRA: "",
    }.get(tried.trouble, _("See what it says: ferrule mcp test {name}").format(name=name))
    state = "note" if tried.trouble is Trouble.SIGN_IN else "fail"
    return state, f"{_one_row(tried.problem)}. {do}".rstrip()


def _file(one: KnownServer) -> str:
    return _one_row(str(one.file)) if one.file else _("the settings")


def _quoted(one: KnownServer) -> str:
    from ferrule.policy.shown_text import shown_argument

    return shown_argument(one.config.name)


def _one_row(text: str) -> str:
    """What others wrote, so that it cannot pass for another check."""
    from ferrule.policy.shown_text import shown_row

    row = shown_row(text)
    return row if len(row) <= _LONGEST else f"{row[: _LONGEST - 1]}…"
