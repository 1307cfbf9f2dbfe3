"""A draft's file is its code and its examples, and nothing is lost between the two (M4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.plugins.drafts import DraftProblem, read_draft, split_draft, version_of

CODE = 'from ferrule import tool\n@tool(kind="write")\ndef save_it(text: str) -> str:\n    """ü"""\n    return text\n'
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), min_size=1, max_size=4))
def test_code_and_examples_come_back_from_the_file(examples: list[dict[str, Any]]) -> None:
    assert split_draft(read_draft(CODE, examples).text) == (CODE, examples)


def test_only_the_version_is_changed_and_each_draft_raises_it() -> None:
    second = read_draft(CODE, [], after="1.0.0")
    assert second.code == CODE.replace('kind="write"', 'kind="write", version="1.1.0"')
    third = read_draft(second.code, [], after=version_of(second.text))
    assert third.code == CODE.replace('kind="write"', 'kind="write", version="1.2.0"')
    wide = CODE.replace('kind="write"', 'display_name="ü 工具", version="7", kind="write", timeout=3')
    assert read_draft(wide, []).code == wide.replace('"7"', '"1.0.0"')


@pytest.mark.parametrize("listed", ["EXAMPLES = [print()]", "EXAMPLES = 3", "EXAMPLES = [3]", ""])
def test_examples_are_plain_data(listed: str) -> None:
    with pytest.raises(DraftProblem):
        split_draft(f"{CODE}\n{listed}\n")


@pytest.mark.parametrize(
    "options",
    ["dangerous=True", "timeout=-1", "timeout=True", "timeout=2 * 3", "display_name=3", "needs=['user']", "touches=()"],
)
def test_its_tool_says_only_what_the_text_can_hold(options: str) -> None:
    """M4: the tool is made of the text, so an option that code computes, or that would be lost, is refused."""
    with pytest.raises(DraftProblem):
        read_draft(CODE.replace('kind="write"', f'kind="write", {options}'), [])


@pytest.mark.parametrize(
    "start", ["# coding: utf-7\n", "#!/usr/bin/python\n# -*- coding=latin-1 -*-\n", "  # vim: fileencoding=x\n"]
)
def test_it_is_read_as_the_user_sees_it(start: str) -> None:
    """M4: in another encoding the same bytes are other code."""
    with pytest.raises(DraftProblem, match="leave out the encoding"):
        read_draft(start + CODE, [])
