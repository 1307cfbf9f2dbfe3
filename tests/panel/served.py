"""A service with its panel."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ferrule.panel.service_panel import panel_of
from tests.service.serving import TOOLS, Running, running


@asynccontextmanager
async def shown(folder: Path, *, tools: tuple[Any, ...] | None = TOOLS, **settings: Any) -> AsyncGenerator[Running]:
    """A service with its panel; without `tools`, with those that any service has."""
    async with running(f"sqlite:///{folder / 's.db'}", folder, tools=tools, pages=panel_of, **settings) as service:
        yield service
