"""The ports through which a server reaches the person and the model; where nobody stands behind one, it is declined."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.core.elicitation import Elicitor

Sampler = Callable[[str, Any], Awaitable[Any]]
"""Lets a server ask the model: its name and the SDK's parameters in, the SDK's result out."""
ShowUrl = Callable[[str, str], Awaitable[None]]
"""Shows the person the address at which to sign in to a server: its name, and the address. Raises `NotSigningIn`."""


class NotSigningIn(Exception):  # noqa: N818 - reads as what it says
    """Nobody signs in now; the words say why, and complete «the server cannot be used: …»."""


@dataclass(slots=True)
class Ports:
    """Everything that servers may ask of us, besides what the call that is running brings along."""

    elicitor: Elicitor | None = None
    sample: Sampler | None = None
    show_url: ShowUrl | None = None
