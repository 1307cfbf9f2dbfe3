"""Editing a section changes that section alone, to the byte; what is hidden is neither heading, link nor tag."""
# ruff: noqa: E501 - lines of examples stand as they are

from __future__ import annotations

import re
import site
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ferrule import ToolError
from ferrule.toolbox.front_matter import properties, property_edits
from ferrule.toolbox.markdown_note import Note, section_edits
from ferrule.workspace.texts.text import apply_edits, decode, splice

ROOT = Path(__file__).parents[2]
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

# Lines that make trouble where they meet
_LINES = st.sampled_from([
    "# A", "## B", "### C #", "## B ##", "   # In", "    # code", "#no", "Title", "===", "---", "> # quoted", "- # item",
    "- item", "  more", "text", "", "", "", "```", "````", "~~~", "<!--", "-->", "<div>", "</div>", "%%", "%% x %%", "$$",
    "$$ y $$", "| a | b |", "|---|---|", "| [[x\\|y]] | `z` |", "[[Link#H|t]] #tag", "`[[code]]`", "[m](n.md)", "[r]: s.md",
    "`", "a `b", "1. one", "\ttab", "Ünï ñ", "***", "![[pic.png]]", "# ", "## /", "# Cafe\u0301", "# Caf\u00e9",
])  # fmt: skip
_ENDINGS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])


@st.composite
def markdown(draw: st.DrawFn) -> str:
    """A text of lines, with endings of one kind or mixed, perhaps with front matter, perhaps without a last ending."""
    lines = draw(st.lists(_LINES, max_size=14))
    one = draw(_ENDINGS)
    mixed = draw(st.booleans())
    text = "".join(line + (draw(_ENDINGS) if mixed else one) for line in lines)
    text = draw(st.sampled_from(["", "", "---\na: 1\n---\n"])) + text
    return text.rstrip("\r\n") if draw(st.booleans()) else text


def require_only_the_section_changed(text: str, path: str, content: str) -> None:
    note = Note(text)
    heading = note.section(path)
    for bom in (b"", b"\xef\xbb\xbf"):
        data = bom + text.encode()
        found = decode(data)
        assert found is not None
        (edit,) = section_edits(note, "append", path, content)
        after = splice(data, found, [edit])
        start, end = len(bom) + len(text[: heading.body].encode()), len(bom) + len(text[: heading.end].encode())
        assert edit.start == edit.end
        at = len(bom) + len(text[: edit.start].encode())
        assert start <= at <= end
        assert after[:at] == data[:at]
        assert after[at + len(after) - len(data) :] == data[at:]
        assert content in after.decode().replace("\r\n", "\n").replace("\r", "\n")
    again = Note(apply_edits(text, [edit]))
    assert [(one.titles, one.level) for one in again.headings] == [(one.titles, one.level) for one in note.headings]


@given(
    markdown(), st.sampled_from(["- new", "a paragraph", "two\nlines", "```\ncode\n```", "> quote", "\nafter a gap"])
)
@example("A\n===\nB\n===\n", "text")
@example("# A", "text")
@example("# A\r\n\r\n\r\n# B", "text")
@QUIET
def test_appending_changes_the_section_alone(text: str, content: str) -> None:
    """P: bytes outside an edit stay; whatever cannot be done so is refused."""
    note = Note(text)
    for path in note.outline:
        if not path.rpartition("/")[2].strip():
            continue  # a heading without a title has no path
        try:
            require_only_the_section_changed(text, path, content)
        except ToolError as error:
            if "how the rest of the note reads" not in error.message:
                raise


@given(markdown(), st.sampled_from(["new", "", "## Sub\nx", "```\nopen"]))
@QUIET
def test_replacing_and_deleting_leave_what_is_around(text: str, content: str) -> None:
    note = Note(text)
    for path, heading in zip(note.outline, note.headings, strict=True):
        if not path.rpartition("/")[2].strip():
            continue
        for operation, start in (("replace", heading.body), ("delete", heading.start)):
            try:
                (edit,) = section_edits(note, operation, path, content)  # type: ignore[reportArgumentType]
            except ToolError:
                continue
            assert start <= edit.start <= edit.end <= heading.end
            after = Note(apply_edits(text, [edit]))
            below = [one.title for one in note.headings if one.start >= heading.end]
            assert [one.title for one in after.headings][len(after.headings) - len(below) :] == below


@given(markdown())
@QUIET
def test_every_path_of_the_outline_leads_to_its_heading(text: str) -> None:
    note = Note(text)
    for path, heading in zip(note.outline, note.headings, strict=True):
        if path.rpartition("/")[2].strip("#").strip():
            assert note.section(path) == heading


@given(markdown())
@QUIET
def test_the_quick_way_finds_the_same_links_and_tags(text: str) -> None:
    quick, whole = Note(text), Note(text)
    whole.__dict__["regions"] = whole.paragraphs
    assert quick.links == whole.links
    assert quick.tags == whole.tags


@pytest.mark.slow
def test_appending_under_every_heading_of_real_documents() -> None:
    folders = [ROOT / "docs", *map(Path, site.getsitepackages())]
    texts = [one.read_bytes() for folder in folders for one in sorted(folder.rglob("*.md"))[:40]]
    tried = 0
    for data in texts:
        found = decode(data)
        if found is None or len(found.text) > 15_000:
            continue
        note = Note(found.text)
        for path in note.outline[:6]:
            if path.rpartition("/")[2].strip():
                require_only_the_section_changed(found.text, path, "- appended")
                tried += 1
    assert tried > 100


def test_what_is_hidden_is_no_heading_link_or_tag() -> None:
    text = (
        "---\nup: '[[Up]]'\n---\nSetext\n===\n%%\n# no\n[[no]] #no\n%%\n$$\n# no\n$$\n~~~\n# no\n```\n~~~\n<!-- [[no]]\n# no\n-->\n"
        "#tag #a/b/ #123 #12x a#no \\#no\n\n    # no [[no]]\n\n[[Yes#A#B|t]] ![[pic.png|100]] [m](<a b.md> 't') [n](c%20d.md#h)\n"
        "[web](https://example.org/x.md) [self](#h) \\[[no]] [no] (x.md) `[[no]]` ``[[`no]]`` $[[no]]$ $5 [[costs]] $6\n"
        "[![i](img.png)](to.md)\n\n[ref]: ./r.md\n# End"
    )
    note = Note(text)
    assert [one.path for one in note.headings] == ["Setext", "End"]
    assert [(one.target, one.anchor, one.embed) for one in note.links] == [
        ("Up", "", False), ("Yes", "A#B", False), ("pic.png", "", True), ("a b.md", "", False), ("c d.md", "h", False),
        ("", "h", False), ("costs", "", False), ("img.png", "", True), ("to.md", "", False), ("./r.md", "", False),
    ]  # fmt: skip
    assert note.tags == ["tag", "a/b", "12x"]
    for link in note.links:
        assert text[link.at : link.until] in (link.target, link.target.replace(" ", "%20"))


_NAMES = st.sampled_from(["tags", "title", "due", "a b", "note", "count", "x: y", "yes"])
_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.lists(st.sampled_from(["a", "[[B]]", "c: d", "", "#e"])),
    st.sampled_from(["plain", "2026-01-02", "no", "'q' \"r\"", "- x", "# y", "", " z ", "1e3", "0x1F", "a\nb", "é\u2028", "[[N]]"]),
)  # fmt: skip
_FRONT = """\
---
# first
title:   "Quoted"   # why
tags: [a, "b"]   # flow
due: 2026-01-01

# between
note: |
  long
    text

list:
  - one   # 1
  # inner
  - two
empty:
count: 010
---
body --- text
"""


@given(st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]), st.booleans())
@QUIET
def test_setting_properties_changes_their_lines_alone(changes: dict[str, Any], ending: str, has_front: bool) -> None:
    text = (_FRONT if has_front else "body\n").replace("\n", ending)
    before = properties(text)
    after = apply_edits(text, property_edits(text, changes))
    expected = {
        name: value for name, value in {**before, **changes}.items() if name not in changes or value is not None
    }
    assert properties(after) == expected
    if not has_front:
        assert after.endswith(text)
        return
    touched = re.compile(rf"^({'|'.join(re.escape(name) for name in changes)}):")
    untouched = [
        line for line in text.split(ending) if re.match(r"[a-z]+:|#|  [-#]|---|body", line) and not touched.match(line)
    ]
    lines = after.split(ending)
    assert [line for line in lines if line in untouched] == untouched
    read: dict[str, Any] = yaml.safe_load(after.split("---")[1])
    assert set(read) >= {name for name, value in changes.items() if value is not None and name != "yes"}


@pytest.mark.parametrize(
    "front",
    [
        "{a: 1}",
        "a: &x 1\nb: *x",
        "a: 1\na: 2",
        "- a",
        "a: [",
        "\t: x",
        "a: " + "[" * 5000,
        "a: !!python/name:os.system x",
    ],
)
def test_front_matter_that_cannot_be_changed_safely_is_left(front: str) -> None:
    with pytest.raises(ToolError):
        property_edits(f"---\n{front}\n---\n", {"a": 3})
