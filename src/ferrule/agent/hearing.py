"""One answer of a model, heard while it is given: what can be shown goes on at once, and nothing said is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.model import Finished, ModelError, ModelFault, Preparing, Retrying, TextDelta, ThinkingDelta
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.agent.agent_events import AgentEvent
    from ferrule.core.model import Model, ModelRequest


# What the agent itself says to a model in the person's place, marked as such.


GO_ON = "[Your answer was cut off, because it reached its length limit. Go on exactly where it stopped.]"
SAY_SOMETHING = "[Your answer was empty. Say what you found or did, or make the next call.]"
NOTES = frozenset({GO_ON, SAY_SOMETHING})


class Hearing:
    """Listens to one answer. `text` is what was said until now, also when the answer breaks off."""

    def __init__(self, show: Callable[[AgentEvent], None]) -> None:
        self._show = show
        self.text = ""

    async def listen(self, model: Model, request: ModelRequest) -> Finished:
        """The whole answer; raises `ModelError`. Being cancelled closes the model's stream."""
        self.text = ""
        finished: Finished | None = None
        stream = model.stream(request)
        try:
            async for event in stream:
                if isinstance(event, TextDelta):
                    self.text += event.text
                    self._show(event)
                elif isinstance(event, Retrying):
                    if event.restarted:
                        self.text = ""
                    self._show(event)
                elif isinstance(event, ThinkingDelta | Preparing):
                    self._show(event)
                elif isinstance(event, Finished):
                    finished = event
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        if finished is None:
            raise ModelError(
                ModelFault.GARBLED,
                phrase("The answer of `{name}` ended before it was whole.", name=model.name),
                suggestion=phrase("Try again; if it happens again, choose another model."),
            )
        return finished
