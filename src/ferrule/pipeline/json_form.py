"""Values as JSON text. Apart, because it imports pydantic, which a program that runs no call never pays for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ferrule.core.result import plainly

_ADDRESS = re.compile(r"\A<.* at 0x[0-9a-fA-F]+>\Z", re.DOTALL)
_UNFIT = re.compile(r"TypeError: (\w+) has no JSON form")
NO_JSON_FORM = (PydanticSerializationError, ValueError, RecursionError)


def to_text(arguments: Any) -> bytes:
    """Arguments as JSON; `NaN` and the infinities stay visible, for the validation to refuse."""
    return to_json(arguments, inf_nan_mode="constants", fallback=_plain)


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _shown(value: object) -> Any:
    """What a value says of itself; an address in memory says nothing."""
    kind = type(value)
    said = plainly(value)
    if isinstance(said, str) and _ADDRESS.search(said):
        raise TypeError(f"{kind.__name__} has no JSON form")
    return said


def unfit_part(error: Exception) -> str:
    """What in a value has no JSON form, in a few words; empty where that cannot be told."""
    said = str(error)
    if found := _UNFIT.search(said):
        return f"a {found[1]}"
    if "utf-8" in said:
        return "bytes that are not UTF-8 text"
    return "itself" if "Circular reference" in said else ""


def to_words(value: Any) -> str:
    """A result as JSON that every reader takes."""
    try:
        return to_json(value, fallback=_shown, inf_nan_mode="strings").decode()
    except PydanticSerializationError as error:
        if "surrogate" not in str(error):
            raise
        # Such as the name of a file that is not UTF-8; the formatting stage makes it well-formed text.
        plain = to_jsonable_python(value, fallback=_shown, inf_nan_mode="strings")
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
