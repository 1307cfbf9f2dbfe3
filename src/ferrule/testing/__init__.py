"""What a user's own tests need: a scripted model, caller and person, cassettes, snapshots of definitions.

Everything here is imported when first used: a script for the command line needs no cassettes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.testing.cassette import Cassette, ToolChangedWarning
    from ferrule.testing.recorded import Recorded, assert_definitions, definitions_snapshot
    from ferrule.testing.scripted_model import (
        Said,
        ScriptedAsker,
        ScriptedCall,
        ScriptedCaller,
        ScriptedModel,
        call,
        say,
    )
    from ferrule.testing.tape import CassetteError, CassetteMissError

__all__ = [
    "Cassette",
    "CassetteError",
    "CassetteMissError",
    "Recorded",
    "Said",
    "ScriptedAsker",
    "ScriptedCall",
    "ScriptedCaller",
    "ScriptedModel",
    "ToolChangedWarning",
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
            "ToolChangedWarning",
        ),
        "testing.tape": ("CassetteError", "CassetteMissError"),
        "testing.recorded": ("Recorded", "assert_definitions", "definitions_snapshot"),
        "testing.scripted_model": (
            "Said",
            "ScriptedModel",
            "say",
            "ScriptedCall",
            "ScriptedCaller",
            "call",
            "ScriptedAsker",
        ),
    },
)
