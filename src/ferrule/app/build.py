"""Puts the parts together: settings in, a runtime with its tools, policy and records out."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ferrule.app.find_tools import build_tools
from ferrule.app.locations import added_folders, audit_path

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from ferrule.app.settings import Settings
    from ferrule.core.context import Session
    from ferrule.mcp_client.ports import Ports
    from ferrule.pipeline.confirm import Asker
    from ferrule.pipeline.run import Runtime
    from ferrule.records.audit import AuditLog

logger = logging.getLogger("ferrule.app")

_CLEAN_UP_SECONDS = 5.0
_SERVERS_SECONDS = 5.0
"""How long a start waits for MCP servers whose tools nobody knows yet; those that take longer join later."""
SHELLS = "ferrule.shells"
"""Where a session that ran a command keeps its shells; spelt out, because most programs never import them."""


class App:
    """A runtime with all that belongs to it; `async with` starts the plugins and closes the records."""

    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        *,
        ask: Asker | None = None,
        single_call: bool = False,
        ports: Ports | None = None,
    ) -> None:
        from ferrule.app.build_policy import build_policy
        from ferrule.app.build_protection import build_hooks, guarded_folders, sandbox_config
        from ferrule.core.context import Session
        from ferrule.pipeline.limits import Limits
        from ferrule.pipeline.run import Runtime
        from ferrule.policy.restrictions import RuleRestrictions

        self.settings = settings
        self.tools = build_tools(settings, workspace, ports)
        self._single_call = single_call
        built = build_policy(settings, workspace, self.tools)
        self.notes = [*built.notes, *self.tools.notes]
        """What a person should hear: a rule that names a tool which is not here, a server that is not trusted yet."""
        self.audit: AuditLog | None = None
        recorders: list[Any] = []
        if settings.audit.enabled:
            from ferrule.records.audit import AuditLog, Retention

            self.audit = AuditLog(
                audit_path(settings),
                acknowledge=settings.audit.acknowledge,
                retention=Retention(days=settings.audit.keep_days or None),
            )
            recorders.append(self.audit)
        limits = settings.limits
        self.runtime: Runtime = Runtime(
            self.tools.registry,
            policy=built.policy,
            ask=ask,
            recorders=recorders,
            limits=Limits(
                timeout=limits.timeout,
                result_chars=limits.result_chars,
                argument_bytes=limits.argument_bytes,
                concurrency=limits.concurrency,
            ),
            session=Session(
                workspace=workspace,
                config={
                    "single_call": single_call,
                    "roots": added_folders(settings, workspace),
                    "hard_links": settings.files.hard_links,
                    "restrictions": RuleRestrictions(built.policy),
                    "guarded": guarded_folders(settings, workspace),
                    **sandbox_config(settings, workspace),
                },
            ),
            hooks=build_hooks(settings),
        )

    async def __aenter__(self) -> App:
        from ferrule.plugins.module_tools import Broken

        for plugin in list(self.tools.plugins):
            if plugin.initialise is None:
                continue
            try:
                await plugin.initialise()
            except Exception as error:  # noqa: BLE001 - one plugin's fault must not take the others along
                self.tools.plugins.remove(plugin)
                self.tools.skipped.append(Broken(plugin.source, f"it could not start: {type(error).__name__}: {error}"))
                for tool in plugin.tools:
                    self.tools.registry.unregister(tool.name, tool.version)
        if self.tools.folders is not None and not self._single_call:
            self.tools.folders.watch()
        if self.tools.servers is not None and not self._single_call:
            try:
                await self.tools.servers.start_unlisted(wait=_SERVERS_SECONDS)
            except BaseException as error:  # whoever did not want to wait; what was started is ended all the same
                await self.__aexit__(type(error), error, None)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.tools.folders is not None:
            self.tools.folders.close()
        await close_session(self.runtime.session)
        if self.tools.servers is not None:
            await self.tools.servers.close()
        for plugin in self.tools.plugins:
            if plugin.clean_up is None:
                continue
            try:
                await asyncio.wait_for(plugin.clean_up(), _CLEAN_UP_SECONDS)
            except Exception:
                logger.exception("Plugin %s could not clean up", plugin.name)
        if self.audit is not None:
            self.audit.close()


async def close_session(session: Session) -> None:
    """End all that a session's calls left running. Whoever opens sessions besides the app's own closes them so."""
    if SHELLS in session.state:
        from ferrule.builtin.session_shells import close_shells

        await close_shells(session)
