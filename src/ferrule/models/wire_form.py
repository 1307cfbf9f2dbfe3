"""What an adapter must know of a provider's form: how to ask, and how to read what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.model import ModelEvent, ModelRequest
    from ferrule.models.endpoint import Endpoint
    from ferrule.models.faults import Faults


@dataclass(slots=True, frozen=True)
class Frame:
    """One message of a stream, or a whole body (`event` is then "whole"). `data` is None for the end mark."""

    event: str
    data: Any


class AnswerReader(Protocol):
    """Reads one answer. Whatever a server sends, it raises nothing but what `Faults` makes."""

    @property
    def is_complete(self) -> bool:
        """Whether the model has said why it stopped: what follows is accounting at most."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come."""
        ...

    def read(self, frame: Frame) -> list[ModelEvent]:
        """The events that follow from a frame."""
        ...

    def finish(self) -> list[ModelEvent]:
        """The last events, `Finished` at the end; only after `is_complete`."""
        ...


class WireForm(Protocol):
    """One provider's form of requests and answers."""

    @property
    def optional_fields(self) -> frozenset[str]:
        """Fields of a request that may be left out when a server refuses them by name."""
        ...

    def path(self, model: str) -> str:
        """Where to ask, under the endpoint's base address."""
        ...

    def headers(self, endpoint: Endpoint) -> Mapping[str, str]:
        """The headers that carry the key."""
        ...

    def body(self, request: ModelRequest, model: str) -> dict[str, Any]:
        """The request."""
        ...

    def reader(self, faults: Faults, model: str) -> AnswerReader:
        """A reader for one answer."""
        ...

    def models_path(self) -> str:
        """Where the provider lists its models."""
        ...

    def model_names(self, body: Any) -> list[str]:
        """The names in such a list that can chat."""
        ...
