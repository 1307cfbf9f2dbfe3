"""What the check of an audit log found, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.cli.words import _

if TYPE_CHECKING:
    from ferrule.records.verification import Verification


def what_is_wrong(found: Verification) -> str:
    """Why the log does not hold, with the first row that is to blame."""
    if found.first_bad_seq is None:
        return found.why
    return _("row {seq}: {why}").format(seq=found.first_bad_seq, why=found.why)
