"""What users and models see has one home, `core/shown_text.py`: one set of hidden characters, one way to cut text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from ferrule.core.shown_text import hidden_in

from .test_structure import MODULES, name, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOME = "core/shown_text.py"
OTHER_SETS = {
    "models/local/local_model.py": "a grammar of what the model may write",
    "pipeline/validate.py": "what JSON's grammar forbids inside a string, to mend it",
    "policy/commands/words.py": "what bash's own escapes stand for",
    "process/output.py": "plays what a program wrote for a terminal, and gives what it would leave there",
    "service/messages.py": "a pattern of the published API, for names that the service stores",
    "toolbox/documents/formats.py": "what XML cannot hold",
    "toolbox/markdown_note.py": "what Obsidian takes for the end of a tag",
    "toolbox/vault.py": "what a link in a note must write with %",
    "workspace/searching/ripgrep.py": "bytes that are no UTF-8",
    "workspace/texts/text.py": "guesses whether bytes are text",
}
"""Sets of characters that belong to a format or a protocol, and say nothing of what is shown."""
OTHER_CATEGORIES = {"workspace/texts/encodings.py": "guesses the encoding of a file by what its letters would be"}
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})", re.IGNORECASE)
_RANGE = re.compile(r"(?s)(.)-(.)")


def found_in_source(search: Callable[[ast.Module], Iterator[str]], worth: str) -> dict[str, list[str]]:
    """What a search finds, by module. A module whose text has nothing like `worth` is not looked at."""
    worthy = [path for path in MODULES if name(path) != HOME and re.search(worth, path.read_text(encoding="utf-8"))]
    found = {name(path): [*search(parsed(path))] for path in worthy}
    return {one: places for one, places in found.items() if places}


def is_second_set(text: str) -> bool:
    """Whether a literal lists characters that are hidden: two of them, or a range with one at its end."""
    text = _ESCAPE.sub(lambda found: chr(int(found[1] or found[2] or found[3], 16)), text)
    hidden = set(hidden_in(text.replace("\r\n", "\n").replace("\r", "\n")))
    return len(hidden) > 1 or any(hidden.intersection(span) for span in _RANGE.findall(text))


def second_sets(tree: ast.Module) -> Iterator[str]:
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in prose:
            continue
        if isinstance(node.value, str) and is_second_set(node.value):
            yield f"line {node.lineno}: {node.value!a}"


def categories(tree: ast.Module) -> Iterator[str]:
    """Characters told apart by their kind, one by one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("category", "bidirectional", "east_asian_width"):
            if isinstance(node.value, ast.Name) and node.value.id == "unicodedata":
                yield f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and node.module == "unicodedata":
            found = {one.name for one in node.names} & {"category", "bidirectional", "east_asian_width", "combining"}
            if found:
                yield f"line {node.lineno}: {', '.join(sorted(found))}"
        elif isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)) and re.search(
            r"\.isprintable\(\) else|if \w+\.isprintable\(\)", ast.unparse(node)
        ):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def truncations(tree: ast.Module) -> Iterator[str]:
    """`text[:60] + "…"`, `f"{text[:60]}…"`, and whatever the standard library has for it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.JoinedStr):
            parts = zip(node.values, node.values[1:], strict=False)
            cut = any(isinstance(one, ast.FormattedValue) and is_head(one.value) and is_mark(two) for one, two in parts)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            cut = is_head(node.left) and is_mark(node.right)
        else:
            cut = isinstance(node, ast.Attribute) and ast.unparse(node) == "textwrap.shorten"
        if cut:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def is_head(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.upper is not None


def is_mark(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return bool(node.values) and is_mark(node.values[0])
    return isinstance(node, ast.Constant) and re.match(r"\s*\[?(?:…|\.\.\.)", str(node.value)) is not None


def test_no_module_has_a_set_of_hidden_characters_of_its_own() -> None:
    found = found_in_source(second_sets, r"\\[xuU0-9abfv]")
    assert {one: places for one, places in found.items() if one not in OTHER_SETS} == {}, "use core.shown_text"
    assert OTHER_SETS.keys() - found == set(), "no longer needed on the list"


def test_no_module_tells_characters_apart_by_itself() -> None:
    found = found_in_source(categories, "unicodedata|isprintable")
    assert found.keys() == OTHER_CATEGORIES.keys(), "use core.shown_text: hidden_in, visible, without_hidden, columns"


def test_no_module_cuts_text_by_itself() -> None:
    assert found_in_source(truncations, r"\[[^]]*:.*(?:…|\.\.\.)|textwrap") == {}, (
        "use core.shown_text: cut, cut_counted"
    )


@pytest.mark.parametrize(
    "code",
    [
        r"""BAD = re.compile("[\x00-\x1f]")""",
        r"""BAD = re.compile(r"[\x00-\x1f]")""",
        r"""BAD = "\u202e\u2066" """,
        r"""BAD = re.compile(r"[\u202a-\u202e]")""",
        r"""BAD = str.maketrans("", "", "\u200b\ufeff")""",
    ],
)
def test_a_second_set_would_be_found(code: str) -> None:
    assert [*second_sets(ast.parse(code))]


@pytest.mark.parametrize(
    "code",
    [
        "unicodedata.category(one) in ('Cc', 'Cf')",
        "from unicodedata import category",
        "''.join(one if one.isprintable() else ' ' for one in text)",
        "''.join(one for one in text if one.isprintable())",
    ],
)
def test_a_second_way_to_tell_characters_apart_would_be_found(code: str) -> None:
    assert [*categories(ast.parse(code))]


@pytest.mark.parametrize(
    "code",
    [
        "text if len(text) <= 60 else text[:59] + '…'",
        "f'{text[:most - 1]}…'",
        "f'{text[:most]}... ({left} more)'",
        "text[:60] + f'… ({left} more)'",
        "text[:60] + ' […]'",
        "textwrap.shorten(text, 60)",
    ],
)
def test_a_second_truncation_would_be_found(code: str) -> None:
    assert [*truncations(ast.parse(code))]


def test_what_steers_our_own_terminal_is_no_set() -> None:
    assert not is_second_set("\x1b[2J\x1b[H")
    assert not is_second_set("two\r\nlines")
