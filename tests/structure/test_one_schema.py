"""One walker of schemas, one explainer of bad arguments, one generator beside pydantic's, and one model of a form."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.structure.test_structure import MODULES, name, parsed, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

WALKER = "core/schemas.py"
EXPLAINER = "core/explain.py"
WORDS = "core/problems.py"
READER = "core/validator_errors.py"
GENERATOR = "core/function_params.py"
FORMS = "core/forms.py"


def modules_with(text: str, is_one: Callable[[ast.AST], bool]) -> set[str]:
    """The modules that contain such a node; only those that contain the text are looked into."""
    return {
        name(module) for module in MODULES if text in text_of(module) and any(map(is_one, ast.walk(parsed(module))))
    }


def writing(text: str) -> set[str]:
    return modules_with(text, lambda node: isinstance(node, ast.Constant) and node.value == text)


def calling(function: str) -> set[str]:
    return modules_with(
        f"{function}(",
        lambda node: isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == function,
    )


def test_one_walker_reads_and_writes_the_steps_of_a_reference() -> None:
    """Code that needs what a `$ref` leads to asks `core/schemas.py`."""
    assert writing("~1") == {WALKER}


def test_no_other_module_follows_a_reference_by_its_last_word() -> None:
    """`definitions[ref.rpartition("/")[2]]` is how a second walker begins, and `ref[len("#/$defs/"):]`."""

    def follows(node: ast.AST) -> bool:
        if isinstance(node, ast.Constant) and node.value in ("#/$defs/", "#/definitions/"):
            return True
        if not isinstance(node, ast.Subscript):
            return False
        within = ast.unparse(node.slice)
        return "$ref" in within and any(cut in within for cut in ("rpartition", "split", "removeprefix"))

    # The first writes references, the second asks whether there are others.
    assert modules_with("$ref", follows) == {GENERATOR, "dialects/mcp.py"}


def test_one_explainer_says_what_is_wrong_with_arguments() -> None:
    for words in ("expected {kind}, got {found}", "required, but missing{hint}", "must match {pattern}"):
        assert writing(words) <= {EXPLAINER, WORDS}, words


def test_one_reader_of_errors_leaves_the_words_to_the_explainer() -> None:
    assert calling("BrokenRule") == {EXPLAINER, READER}
    assert calling("Explainer") == {READER, "core/schema_compile.py"}


def test_one_generator_of_schemas_beside_pydantics() -> None:
    """`tests/core/test_plain_schema.py` compares the two."""

    def gives_types_a_schema(node: ast.AST) -> bool:
        return isinstance(node, ast.Dict) and any(
            isinstance(key, ast.Name)
            and key.id in ("str", "int", "bool")
            and '"type"' in ast.unparse(value).replace("'", '"')
            for key, value in zip(node.keys, node.values, strict=True)
        )

    assert modules_with('"type"', gives_types_a_schema) == {GENERATOR}


def test_one_model_of_a_form_is_shown_on_every_surface() -> None:
    """What a field takes, and what typed text means, `core/forms.py` says; a terminal and a page only show it."""
    assert calling("FormField") == {FORMS}
    assert calling("form_fields") == {"cli/server_talk/form.py", "panel/tools.py"}
    assert writing("enumNames") == {FORMS, "mcp_server/asking.py"}  # which makes forms for others
