"""Values as JSON text. Apart, because it imports pydantic, which a program that runs no call never pays for."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticSerializationError, to_json

NO_JSON_FORM = (PydanticSerializationError, ValueError, RecursionError)


def to_text(arguments: Any) -> bytes:
    """Arguments as JSON; `NaN` and the infinities stay visible, for the validation to refuse."""
    return to_json(arguments, inf_nan_mode="constants")


def to_words(value: Any) -> str:
    """A result as JSON that every reader takes."""
    return to_json(value, fallback=str, inf_nan_mode="strings").decode()
