"""What the agent says in the person's place is marked, so that nobody takes it for theirs."""

from __future__ import annotations

from ferrule.agent.conversation import NOTES


def test_every_note_stands_in_brackets() -> None:
    assert all(note.startswith("[") and note.endswith("]") for note in NOTES)
