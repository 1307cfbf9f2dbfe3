"""What an edit does when it is taken by the letter."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edit_damage import Case


def literal_edit(case: Case, old: str, new: str) -> Case | None:
    """The exact edit that two texts are, line endings aside, in the file of this case; None when they are none."""
    before = case.before
    at = before.find(old)
    end = at + len(old)
    if at >= 0 and "\r\n" not in (before[max(at - 1, 0) : at + 1], before[end - 1 : end + 1]):
        if before.find(old, at + 1) >= 0:
            return None
        if "\n" not in old and "\r" not in new:
            ending = re.search(r"\r?\n", before[end:]) or re.search(r"\r?\n(?!.*\n)", before, re.DOTALL)
            new = new.replace("\n", ending[0] if ending else "\n")
        return replace(case, after=before[:at] + new + before[end:], old=old, new=new)
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    pattern = re.escape(old).replace("\\\n", r"(?:\r\n|(?<!\r)\n)")
    places = list(re.finditer(f"(?=({pattern}))", before))
    endings = set(re.findall(r"\r?\n", places[0][1])) if len(places) == 1 else set[str]()
    if len(endings) != 1:
        return None
    after = before[: places[0].start(1)] + new.replace("\n", endings.pop()) + before[places[0].end(1) :]
    return replace(case, after=after, old=old, new=new)
