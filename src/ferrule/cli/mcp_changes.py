"""What has changed of a workspace's server since the person trusted it: as it was, and as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.app.mcp_servers import trust_records
from ferrule.cli.words import _
from ferrule.policy.shown_text import shown_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.app.settings import Settings
    from ferrule.mcp_client.server_config import ServerConfig
    from ferrule.mcp_client.trust_records import Change

_MOST = 40


def since_trusted(config: ServerConfig, settings: Settings) -> list[str]:
    """For whoever trusts it: that it is new, that it is as it was, or what changed."""
    if not config.scope:
        return []  # the person's own, which needs nobody's word
    records = trust_records()
    known = records.of(config)
    if known is not None and known.fingerprint == config.fingerprint:
        words = _("{name} is as it was when you trusted it on {day}.")
        return [words.format(name=shown_row(config.name), day=known.day)]
    if known is not None:
        return changed_since_trusted(config)
    if config.fingerprint in settings.trusted_mcp_servers:
        return [_("{name} is as it was when you trusted it.").format(name=shown_row(config.name))]
    if set(settings.trusted_mcp_servers) - records.fingerprints():  # from before there were records
        return [
            _("{name} is new here, or was trusted when nothing was kept to compare it with.").format(
                name=shown_row(config.name)
            )
        ]
    return [_("{name} is new here: you have not trusted it before.").format(name=shown_row(config.name))]


def changed_since_trusted(config: ServerConfig) -> list[str]:
    """Only where it was trusted once, and is another now: when that was, and a line for each change."""
    known = trust_records().of(config) if config.scope else None
    if known is None or known.fingerprint == config.fingerprint:
        return []
    lines = [line for change in known.changes_to(config) for line in _lines(change)]
    if (more := len(lines) - _MOST) > 0:
        lines[_MOST:] = [_("… {n} more lines").format(n=f"{more:,}")]
    words = _("{name} has changed since you trusted it on {day}:")
    return [words.format(name=shown_row(config.name), day=known.day), *(f"  {line}" for line in lines)]


def _lines(change: Change) -> Iterator[str]:
    kind = _kind(change.kind)
    if change.hidden:
        hidden = _("what is not shown of it changed")
        yield f"~ {kind}: {shown_row(change.before or '')} ({hidden})"
        return
    if change.before is not None:
        yield f"- {kind}: {shown_row(change.before)}"
    if change.after is not None:
        yield f"+ {kind}: {shown_row(change.after)}"


def _kind(kind: str) -> str:
    from ferrule.mcp_client.trust_records import ADDRESS, COMMAND, FOLDER, HEADER, OF_YOURS, SIGN_IN, VARIABLE

    words = {
        COMMAND: _("command"),
        ADDRESS: _("address"),
        FOLDER: _("folder"),
        VARIABLE: _("variable"),
        HEADER: _("header"),
        SIGN_IN: _("signing in"),
        OF_YOURS: _("gets of yours"),
    }
    return words[kind]
