"""The ports through which a server reaches the person and the model; where nobody stands behind one, it is declined."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True, frozen=True)
class Asked:
    """What a server wants to know: fields of a form (`schema`), or that the person visits an address (`url`)."""

    server: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None


@dataclass(slots=True, frozen=True)
class Reply:
    """What the person said; `content` holds the fields of an accepted form."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


class Person(Protocol):
    """Puts a server's question to a person. One question at a time is asked."""

    async def reply(self, asked: Asked) -> Reply: ...


Sampler = Callable[[str, Any], Awaitable[Any]]
"""Lets a server ask the model: its name and the SDK's parameters in, the SDK's result out."""
ShowUrl = Callable[[str, str], Awaitable[None]]
"""Shows the person the address at which to sign in to a server: its name, and the address."""


@dataclass(slots=True)
class Ports:
    """Everything that servers may ask of us."""

    person: Person | None = None
    sample: Sampler | None = None
    show_url: ShowUrl | None = None
