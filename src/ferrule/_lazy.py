"""Public names that are imported when they are first used, so that importing a module costs next to nothing."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def lazy_names(module: str, homes: Mapping[str, Iterable[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A module's `__getattr__` and `__dir__`: each name lives in the module of Ferrule that it is listed under."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(f"ferrule.{home}"), name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted(sys.modules[module].__all__)

    return get, names
