"""The agent's model as a tool may ask it (T8): one prompt, one answer, counted into the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.agent.hearing import Hearing
from ferrule.core.conversation import UserMessage
from ferrule.core.errors import ToolError
from ferrule.core.model import ModelError, ModelRequest
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.model import Model, Usage


class TurnModel:
    """What a session's `model_adapter` is while an agent's turn runs."""

    def __init__(self, model: Model, count: Callable[[Usage], None]) -> None:
        self._model = model
        self._count = count

    async def complete(self, prompt: str) -> str:
        """The model's words; its failures are the tool's, in words that the model above reads."""
        try:
            finished = await Hearing(lambda event: None).listen(self._model, ModelRequest([UserMessage(prompt)]))
        except ModelError as error:
            raise ToolError(
                phrase("The model could not be asked: {message}", message=error.message),
                suggestion=error.suggestion or None,
            ) from None
        self._count(finished.usage)
        return finished.message.text
