"""What an edit does when it is taken by the letter."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edit_damage import Case


def literal_edit(case: Case, old: str, new: str) -> Case | None:
    """The exact edit that two texts are, in the file of this case; None when they are none.

    Where they are one but for line endings, it is one of the file without carriage returns.

    Nor are they when the old text may be whole lines without their indentation: it starts behind nothing but blanks,
    and ends with its line. That a copy lost its margin is then as likely, and a wrong result is a wrong one.
    """
    before = case.before
    at = before.find(old)
    if at < 0 or "\r\n" in (before[max(at - 1, 0) : at + 1], before[at + len(old) - 1 : at + len(old) + 1]):
        before, old, new = (text.replace("\r\n", "\n") for text in (before, old, new))
    at = before.find(old)
    end = at + len(old)
    if at < 0 or before.find(old, at + 1) >= 0:
        return None
    margin = before[before.rfind("\n", 0, at) + 1 : at]
    rest = before[end:].partition("\n")[0]
    is_emptied = not new and not old.endswith("\n")
    if margin and not is_emptied and not margin.strip(" \t") and (old.endswith("\n") or not rest.strip()):
        return None
    if "\n" not in old and "\r" not in new:
        ending = re.search(r"\r?\n", before[end:]) or re.search(r"\r?\n(?!.*\n)", before, re.DOTALL)
        new = new.replace("\n", ending[0] if ending else "\n")
    return replace(case, before=before, after=before[:at] + new + before[end:], old=old, new=new)
