"""Reads what a provider or a client sent, and says plainly what is wrong with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.problems import got

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Item = dict[str, Any]


class DialectError(ValueError):
    """A payload that is not in the form its dialect prescribes."""


def plain(payload: Any, where: str) -> Any:
    """Dicts and lists as they are; SDK objects (anything with `model_dump`) as dicts."""
    dump: Callable[[], Any] | None = getattr(payload, "model_dump", None)
    if dump is not None:
        return dump()
    if isinstance(payload, (dict, list)):
        return cast("Any", payload)
    if isinstance(payload, tuple):
        return list(cast("tuple[Any, ...]", payload))
    raise DialectError(f"{where}: expected an object or a list, got {got(payload)}.")


def an_object(value: Any, where: str) -> Item:
    value = plain(value, where)
    if not isinstance(value, dict):
        raise DialectError(f"{where}: expected an object, got {got(value)}.")
    return cast("Item", value)


def a_list(value: Any, where: str) -> list[Any]:
    value = plain(value, where)
    if not isinstance(value, list):
        raise DialectError(f"{where}: expected a list, got {got(value)}.")
    return cast("list[Any]", value)


def field(item: Item, *spellings: str) -> Any:
    """A field under the first spelling that is there; SDK objects may write `file_uri` for `fileUri`."""
    for key in spellings:
        if item.get(key) is not None:
            return item[key]
    return None


def a_name(item: Item, where: str, key: str = "name") -> str:
    value = item.get(key)
    if value is None:
        raise DialectError(f"{where}: `{key}` is missing.")
    if not isinstance(value, str) or not value:
        raise DialectError(f"{where}.{key}: expected a non-empty string, got {got(value)}.")
    return value


def some_text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise DialectError(f"{where}: expected a string, got {got(value)}.")


def some_arguments(value: Any, where: str) -> str | Mapping[str, Any] | None:
    """Arguments pass through untouched, broken JSON text included: who validates the call reports that."""
    if value is None or isinstance(value, (str, dict)):
        return cast("Any", value)
    raise DialectError(f"{where}: expected an object or JSON text, got {got(value)}.")


def arguments_as_text(arguments: Any) -> str:
    """A call's arguments as the JSON text that OpenAI sends."""
    if isinstance(arguments, bytes):
        return arguments.decode("utf-8", "replace")
    if isinstance(arguments, str):
        return arguments
    return json.dumps(dict(arguments or {}), ensure_ascii=False, default=str)


def arguments_as_object(arguments: Any, name: str) -> Item:
    """A call's arguments as an object; text that is not one cannot be written in this dialect."""
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = json.loads(arguments) if arguments else {}
        except (ValueError, RecursionError):
            what = f"The arguments of `{name}` are not JSON, and this dialect has no place for text."
            raise DialectError(what) from None
        if not isinstance(arguments, dict):
            raise DialectError(f"The arguments of `{name}` are {got(arguments)}; this dialect takes an object.")
    return dict(cast("Mapping[str, Any]", arguments or {}))
