"""`ferrule chat` with a model whose answer comes in pieces that a test lets through: `gated_chat.py FOLDER ARGUMENTS…`.

FOLDER holds `answer.json`, a list of pieces; before piece N it waits for the file `N` in that folder.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import ferrule.app.assistant
from ferrule.cli.main import main
from ferrule.core.model import AssistantMessage, Finished, ModelEvent, ModelRequest, TextDelta, Usage
from ferrule.testing import ScriptedModel


def _gated(folder: Path) -> ScriptedModel:
    pieces: list[str] = json.loads((folder / "answer.json").read_text())

    async def answer() -> AsyncIterator[ModelEvent]:
        for number, piece in enumerate(pieces):
            while not (folder / str(number)).exists():
                await asyncio.sleep(0.01)
            yield TextDelta(piece)
        yield Finished(AssistantMessage("".join(pieces)), Usage(), "end")

    def reply(_request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return answer()

    return ScriptedModel([reply, "A second answer."])


if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    ferrule.app.assistant.model_for = lambda name, settings: _gated(folder)
    main()
