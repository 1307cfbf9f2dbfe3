"""Failures carry their kind from birth (T9)."""

from __future__ import annotations

import pytest

from ferrule import DefinitionError, ErrorKind, StoppedError, ToolError
from ferrule.core.errors import MissingExtraError, Stage


def test_the_kinds_are_stable_words() -> None:
    assert {kind.value for kind in ErrorKind} == {
        "validation_error", "execution_error", "permission_error", "timeout_error", "not_found_error",
        "cancelled_error", "deferred_error", "unknown_error",
    }  # fmt: skip


def test_the_stages_are_seven_in_order() -> None:
    """P1."""
    assert [stage.value for stage in Stage] == [
        "lookup", "validate", "authorise", "confirm", "execute", "format", "record",
    ]  # fmt: skip


def test_a_tool_error_is_an_execution_error_unless_said() -> None:
    error = ToolError("no")
    assert (error.message, error.kind, error.suggestion, error.details) == ("no", ErrorKind.EXECUTION, None, None)
    assert ToolError("no", kind="not_found_error").kind is ErrorKind.NOT_FOUND
    with pytest.raises(ValueError, match="nonsense"):
        ToolError("no", kind="nonsense")


def test_an_early_exit_says_where_and_why() -> None:
    stopped = StoppedError(Stage.LOOKUP, ErrorKind.NOT_FOUND, "gone", "look elsewhere", {"a": 1})
    assert str(stopped) == "gone"
    assert (stopped.stage, stopped.kind, stopped.suggestion, stopped.details) == (
        "lookup", "not_found_error", "look elsewhere", {"a": 1},
    )  # fmt: skip


def test_a_missing_part_says_how_to_install_it() -> None:
    error = MissingExtraError("raw_tool", "schema")
    assert str(error) == "raw_tool needs an optional part of Ferrule. Install it: pip install 'ferrule[schema]'"
    assert isinstance(error, ImportError)
    assert issubclass(DefinitionError, TypeError)
