"""The panel of a service: every page, over its API, for whoever holds a key or a token of its issuer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.panel import administration, calls, plugins, records, tools
from ferrule.panel.app import Panel
from ferrule.panel.sign_in import ServiceSignIn

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from ferrule.app.service_settings import ServiceSettings


def panel_of(settings: ServiceSettings) -> Callable[[ASGIApp], ASGIApp]:
    """Puts the panel in front of a service's API."""
    pages = (*calls.PAGES, *tools.PAGES, *records.PAGES, *plugins.PAGES, *administration.PAGES)
    return lambda api: Panel(api, ServiceSignIn(api, settings), pages)
