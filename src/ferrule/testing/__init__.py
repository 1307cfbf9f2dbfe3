"""What a user's own tests need: a scripted model, caller and person, cassettes, snapshots of definitions.

Everything here is imported when first used: a script for the command line needs no cassettes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.testing.cassette import Cassette, CassetteError, CassetteMiss, ToolChanged
    from ferrule.testing.definitions import assert_definitions, definitions_snapshot
    from ferrule.testing.recorded import Recorded
    from ferrule.testing.scripted_asker import ScriptedAsker
    from ferrule.testing.scripted_caller import ScriptedCall, ScriptedCaller, call
    from ferrule.testing.scripted_model import Said, ScriptedModel, say

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "testing.cassette": (
            "Cassette",
            "CassetteMiss",
            "ToolChanged",
            "CassetteError",
        ),
        "testing.definitions": ("assert_definitions", "definitions_snapshot"),
        "testing.recorded": ("Recorded",),
        "testing.scripted_asker": ("ScriptedAsker",),
        "testing.scripted_caller": ("ScriptedCall", "ScriptedCaller", "call"),
        "testing.scripted_model": ("Said", "ScriptedModel", "say"),
    },
)
