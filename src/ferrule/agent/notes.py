"""What the agent itself says to a model in the person's place, marked as such."""

from __future__ import annotations

GO_ON = "[Your answer was cut off, because it reached its length limit. Go on exactly where it stopped.]"
SAY_SOMETHING = "[Your answer was empty. Say what you found or did, or make the next call.]"
NOTES = frozenset({GO_ON, SAY_SOMETHING})
