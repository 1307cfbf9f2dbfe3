"""What can be asked from here: providers with a key, servers on this machine, and the model inside Ferrule.

Everything is asked at once and given up after a few seconds. A provider without a key is not contacted, and a server on
this machine counts only if it answers as a server of models does: on these ports anything may listen.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ferrule.models.endpoint import Endpoint, find_key
from ferrule.models.local.weights import available
from ferrule.models.providers import EMBEDDED, form_of
from ferrule.models.transport import TimeLimits, Transport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.models.providers import Provider

_LOCAL_SECONDS = 1.0


class Availability(StrEnum):
    """Whether models of a provider can be asked, and what is missing."""

    READY = "ready"
    NO_KEY = "no_key"
    KEY_REFUSED = "key_refused"
    NOT_RUNNING = "not_running"
    UNREACHABLE = "unreachable"
    NOT_INSTALLED = "not_installed"


@dataclass(slots=True, frozen=True)
class FoundProvider:
    """One provider: how it stands, the names of its models, and where its key was found."""

    provider: str
    label: str
    state: Availability
    models: tuple[str, ...] = ()
    key_from: str = ""
    key_variables: tuple[str, ...] = ()


async def discover(
    known: Mapping[str, Provider], environment: Mapping[str, str] | None = None, seconds: float = 4.0
) -> list[FoundProvider]:
    """Every provider and how it stands, in the order given; the model inside Ferrule first."""
    environment = os.environ if environment is None else environment
    asked = [_look_at(provider, environment, seconds) for provider in known.values()]
    return [await asyncio.to_thread(embedded), *await asyncio.gather(*asked)]


async def _look_at(provider: Provider, environment: Mapping[str, str], seconds: float) -> FoundProvider:
    key = await asyncio.to_thread(find_key, provider.name, provider.key_variables, environment)
    found_in = key.found_in if key else ""

    def found(state: Availability, models: tuple[str, ...] = ()) -> FoundProvider:
        return FoundProvider(provider.name, provider.label, state, models, found_in, provider.key_variables)

    if key is None and provider.needs_key:
        return found(Availability.NO_KEY)
    secret = key.secret if key else ""
    endpoint = Endpoint(provider.name, provider.label, provider.base_url, secret, found_in, provider.headers)
    seconds = min(seconds, _LOCAL_SECONDS) if endpoint.is_local else seconds
    form = form_of(provider)
    transport = Transport(endpoint, TimeLimits(connect=seconds))
    try:
        status, listed = await transport.get(form.models_path(), form.headers(endpoint), seconds)
    finally:
        await transport.close()
    names = tuple(form.model_names(listed)) if status == 200 else ()
    if status in (401, 403) and provider.needs_key:
        return found(Availability.KEY_REFUSED)
    if not provider.needs_key:  # whoever listens there must show that it is a server of models
        away = Availability.NOT_RUNNING if endpoint.is_local else Availability.UNREACHABLE
        return found(Availability.READY, names) if names else found(away)
    # Not every provider lists its models.
    return found(Availability.READY, names) if status in (200, 404, 405, 501) else found(Availability.UNREACHABLE)


def embedded() -> FoundProvider:
    """The models that run on this machine without a server: those whose weights are here, or can be fetched."""
    offered = available()
    if any(one.missing for one in offered):
        return FoundProvider(EMBEDDED, "this machine", Availability.NOT_INSTALLED)
    return FoundProvider(EMBEDDED, "this machine", Availability.READY, tuple(one.name for one in offered))
