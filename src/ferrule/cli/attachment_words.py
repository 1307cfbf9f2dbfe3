"""What a result holds besides its text, one line for each: an image, a sound, a file, or a link to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.cli.words import _
from ferrule.policy.shown_text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.result import Attachment

_MOST = 20
_LONGEST = 200


def attachment_words(attachments: Sequence[Attachment]) -> list[str]:
    """Lines that are safe to show, whatever a server wrote into them: kind, MIME type, size, name and address."""
    lines = [_("Attached: {what}").format(what=_words(one)) for one in attachments[:_MOST]]
    if (more := len(attachments) - _MOST) > 0:
        lines.append(_("Attached: {count} more").format(count=f"{more:,}"))
    return lines


def _words(one: Attachment) -> str:
    parts = [_kind(one), _one_row(one.media_type), _size(one), _one_row(one.name or ""), _address(one)]
    return ", ".join(part for part in parts if part)


def _kind(one: Attachment) -> str:
    if one.data is None:
        return _("link")
    kinds = {"image": _("image"), "audio": _("audio"), "video": _("video"), "text": _("text")}
    return kinds.get(one.media_type.partition("/")[0], _("file"))


def _size(one: Attachment) -> str:
    told = (one.details or {}).get("size")
    size = len(one.data) if one.data is not None else told if isinstance(told, int) else None
    return "" if size is None else _("1 byte") if size == 1 else _("{n} bytes").format(n=f"{size:,}")


def _address(one: Attachment) -> str:
    return f"<{_one_row(one.uri)}>" if one.uri else ""


def _one_row(text: str) -> str:
    """On one row, with all that hides or would steer the terminal visible."""
    row = shown(" ".join(text[: 2 * _LONGEST].split()))
    return row if len(row) <= _LONGEST else f"{row[: _LONGEST - 1]}…"
