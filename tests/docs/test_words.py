"""Text for users and models is plain English: the worst of what `docs/style.md` warns of is in none of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferrule.tools import builtin_tools

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "adr"),
]
"""What users read; a decision (`docs/adr`) stays as it was written."""
PHRASES = {
    r"\bthe person\b": "the user",
    r"nobody to ask|nobody can be asked": "approval isn't available",
    r"nobody (knows|described)": "unknown",
    r"\bunasked\b": "without approval",
    r"\b(needs?|no|without|gives?) leave\b|\bleave (for|to) (run|every|what)\b": "approval",
    r"\b(take|takes|took|taken) (it |that |this )?back\b": "undo",
    r"\b(make|makes|made) (it )?again\b": "redo, or create again",
    r"\b(is|are|was|were|be) told of\b": "is reported",
    r"\breads? alone\b": "read-only",
    r"\banew\b": "again",
    r"\bmend(s|ed|ing)?\b": "fix, or repair",
    r"did not end in time": "timed out",
    r"\b(log|chain) does not hold\b": "failed verification",
    r"may be given again": "Repeatable.",
    r"(?-i:(?<!there )\bis none\b)": "is not a valid …",
    r"«[\w{`]|[\w}`]»": 'straight quotes, "Always"',
    r"lets it run\b": "can pre-approve this",
    r"Go on another way": "Try another approach",
    r"\bwhoever\b": "the user, the caller, the author",
    r"\bby the letter\b": "literally, exactly",
    r"\b(taken|take) over\b": "imported",
}
"""What is not written, and what is instead; in the docs and in the program's messages alike."""


def prose(page: Path) -> str:
    """A page without code, without what the program says itself, and without the list of what not to write."""
    text = page.read_text(encoding="utf-8")
    if page.name == "lint.md":
        text = re.sub(r"^\| F\d+ .*$", "", text, flags=re.MULTILINE)
    if page.name == "style.md":
        text = text.split("\n## Words\n")[0] + "\n## What is translated\n" + text.split("\n## What is translated\n")[1]
    text = re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]+`", "``", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_plain_english(page: Path) -> None:
    found = [
        f"{page.relative_to(ROOT)}:{number}: {line.strip()} (write: {instead})"
        for number, line in enumerate(prose(page).splitlines(), 1)
        for phrase, instead in PHRASES.items()
        if re.search(phrase, line, re.IGNORECASE)
    ]
    assert found == []


def messages(module: Path) -> Iterator[tuple[int, str]]:
    """Every text in a module but its docstrings: those are for whoever reads the code."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.lineno, node.value


def test_messages_are_plain_english() -> None:
    found = [
        f"{module.relative_to(ROOT)}:{line}: {text}"
        for module in sorted((ROOT / "src/ferrule").rglob("*.py"))
        for line, text in messages(module)
        for phrase in PHRASES
        if re.search(phrase, text, re.IGNORECASE)
    ]
    assert found == []


def test_descriptions_of_tools_are_plain_english() -> None:
    """The texts are docstrings, which the messages above leave out."""
    found = [
        f"{tool.name}: {phrase}"
        for tool in builtin_tools(family="all")
        for phrase in PHRASES
        if re.search(phrase, f"{tool.description.text} {tool.input_schema}", re.IGNORECASE)
    ]
    assert found == []


def test_the_lists_find_what_they_are_for() -> None:
    """The right column of the style page is made of such phrases."""
    table = (ROOT / "docs/style.md").read_text(encoding="utf-8").split("\n## Words\n")[1].split("\n## ")[0]
    wrong = [row.split("|")[2] for row in table.splitlines() if row.startswith("| ") and "write | not" not in row]
    caught = [row for row in wrong if any(re.search(phrase, row, re.IGNORECASE) for phrase in PHRASES)]
    assert len(caught) >= 12, caught
