"""What a user's own tests need: a scripted model, caller and person, cassettes, snapshots of definitions."""

from ferrule.testing.cassette import Cassette, CassetteMiss, ToolChanged
from ferrule.testing.cassette_file import CassetteError
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
