"""Each provider's form of definitions, calls and results, without any provider's SDK."""

from ferrule.dialects.dialect import KNOWN, Dialect, ForeignDefinition, NameMap, dialect, read_call
from ferrule.dialects.exporter import Exporter
from ferrule.dialects.flatten import Exported, Loss
from ferrule.dialects.payload import DialectError

__all__ = [
    "KNOWN",
    "Dialect",
    "DialectError",
    "Exported",
    "Exporter",
    "ForeignDefinition",
    "Loss",
    "NameMap",
    "dialect",
    "read_call",
]
