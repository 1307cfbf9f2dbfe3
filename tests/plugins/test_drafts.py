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
    ("body", "could"),
    [
        ("open(text, 'w')", "file changes: `open` in line 4"),
        ("open(text)", ""),
        ("open('a')", ""),
        ("Path(text).open('ab')", "file changes: `open` in line 4"),
        ("Path(text).write_text('x')", "file changes: `write_text` in line 4"),
        ("os.system(text)", "programs: `os.system` in line 4"),
        ("os.execvp('sh', [])", "programs: `os.execvp` in line 4"),
        ("eval(text)", "code made at run time: `eval` in line 4"),
        ("os.environ['X']", "environment variables: `os.environ` in line 4"),
        ("print('https://me@api.example.org/x')", "network: `api.example.org` in line 4"),
        ("import subprocess", "programs: `subprocess` in line 4"),
        ("from os import remove as take; take(text)", "file changes: `os.remove` in line 4"),
        ("import os as o; o.system(text)", "programs: `os.system` in line 4"),
        ("os.open(text, 1)", "file changes: `os.open` in line 4"),
        ("os.kill(1, 9)", "other processes: `os.kill` in line 4"),
        ("import sqlite3", "files of databases: `sqlite3` in line 4"),
    ],
)
def test_what_its_code_could_do_is_named_with_its_line(body: str, could: str) -> None:
    found = read_draft(
        f'from ferrule import tool\n@tool(kind="execute")\ndef try_it(text: str) -> None:\n    {body}\n', []
    ).abilities
    assert list(found) == ([could] if could else [])
