"""What the check of an audit log found, in words."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ferrule.cli.words import _

if TYPE_CHECKING:
    from ferrule.records.verification import Gap, Verification


def what_is_wrong(found: Verification) -> str:
    """Why the log does not hold, with the first row that is to blame."""
    if found.first_bad_seq is None:
        return found.why
    return _("row {seq}: {why}").format(seq=found.first_bad_seq, why=found.why)


def gap_words(gap: Gap) -> str:
    """Rows that are missing without anybody having tampered with those that are there."""
    words = _(
        "Gap at row {seq} ({time}): the log was removed or replaced while Ferrule was running. It ended at row "
        "{ended_at}, and the one in its place at row {found}."
    )
    moment = datetime.fromtimestamp(gap.time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return words.format(seq=gap.seq, time=moment, ended_at=gap.ended_at, found=gap.found)
