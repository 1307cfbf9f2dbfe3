"""What a user's own tests need: a scripted model, caller and person, cassettes, snapshots of definitions.

Everything here is imported when first used: a script for the command line needs no cassettes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.testing.cassette import Cassette, CassetteMiss, ToolChanged
    from ferrule.testing.cassette_file import CassetteError
    from ferrule.testing.definitions import assert_definitions, definitions_snapshot
    from ferrule.testing.recorded import Recorded
    from ferrule.testing.scripted_asker import ScriptedAsker
    from ferrule.testing.scripted_caller import ScriptedCall, ScriptedCaller, call
    from ferrule.testing.scripted_model import Said, ScriptedModel, say

_HOMES = {
    "cassette": ("Cassette", "CassetteMiss", "ToolChanged"),
    "cassette_file": ("CassetteError",),
    "definitions": ("assert_definitions", "definitions_snapshot"),
    "recorded": ("Recorded",),
    "scripted_asker": ("ScriptedAsker",),
    "scripted_caller": ("ScriptedCall", "ScriptedCaller", "call"),
    "scripted_model": ("Said", "ScriptedModel", "say"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Cassette",
    "CassetteError",
    "CassetteMiss",
    "Recorded",
    "Said",
    "ScriptedAsker",
    "ScriptedCall",
    "ScriptedCaller",
    "ScriptedModel",
    "ToolChanged",
    "assert_definitions",
    "call",
    "definitions_snapshot",
    "say",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'ferrule.testing' has no attribute {name!r}")
    value = getattr(import_module(f"ferrule.testing.{home}"), name)
    globals()[name] = value
    return value
