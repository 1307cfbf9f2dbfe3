"""What a rule that cannot work says of itself."""

from __future__ import annotations


class RuleError(ValueError):
    """A rule that could never do what its author meant; says why, and what to write instead."""
