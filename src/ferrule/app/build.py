"""Puts the parts together: settings in, a runtime with its tools, policy and records out."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from ferrule.app.find_tools import build_tools
from ferrule.app.locations import added_folders, audit_path
from ferrule.core.phrases import said_by

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

    from ferrule.app.settings import Settings
    from ferrule.mcp_client.server_config import Ports
    from ferrule.pipeline.confirm import Asker
    from ferrule.pipeline.run import Runtime
    from ferrule.records.audit import AuditLog

logger = logging.getLogger("ferrule.app")

_CLEAN_UP_SECONDS = 5.0
_SECONDS_TO_ANSWER = 1.0
"""How long the end waits for a sign of life from the tools' event loop, before plugins go without their clean-up."""
_SERVERS_SECONDS = 5.0
"""How long a start waits for MCP servers whose tools nobody knows yet; those that take longer join later."""


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
        from ferrule.app.build_policy import build_hooks, build_policy, guarded_folders, sandbox_choice
        from ferrule.core.context import Environment, Session
        from ferrule.pipeline.run import Runtime
        from ferrule.pipeline.stages import Limits

        self.settings = settings
        self.tools = build_tools(settings, workspace, ports)
        self._single_call = single_call
        built = build_policy(settings, workspace, self.tools)
        self.notes = [*built.notes, *self.tools.notes]
        """What a person should hear: a rule that names a tool which is not here, a server that is not trusted yet."""
        self.unrecorded = ""
        """Once it is closed: why calls that were made are not on record; empty when all are."""
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
                environment=Environment(
                    single_call=single_call,
                    roots=added_folders(settings, workspace),
                    hard_links=settings.files.hard_links,
                    guarded=guarded_folders(settings, workspace),
                    sandbox=sandbox_choice(settings, workspace),
                ),
            ),
            hooks=build_hooks(settings),
            own_loop=True,
        )

    async def __aenter__(self) -> App:
        from ferrule.plugins.plugin import BrokenModule

        for plugin in list(self.tools.plugins):
            if plugin.initialise is None:
                continue
            try:
                await self._for_plugins(plugin.initialise)
            except Exception as error:  # one plugin's fault must not take the others along
                logger.info("Plugin %s could not start", plugin.name, exc_info=error)
                self.tools.plugins.remove(plugin)
                self.tools.skipped.append(
                    BrokenModule(plugin.source, f"it could not start: {type(error).__name__}: {error}")
                )
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
        await self.runtime.session.close()
        if self.tools.servers is not None:
            await self.tools.servers.close()
        await self._clean_up()
        if self.audit is not None:
            from ferrule.records.database import AuditError

            try:
                self.audit.close()
            except AuditError as problem:  # the calls have happened, and whoever made them wants their results
                self.unrecorded = said_by(problem)

    async def _for_plugins(self, work: Callable[[], Awaitable[None]]) -> None:
        """Plugins start and end on the loop that their tools run on: what they open there belongs to it."""
        from ferrule.pipeline.tool_loops import tool_loops

        await tool_loops.run(work)

    async def _clean_up(self) -> None:
        plugins = [one for one in self.tools.plugins if one.clean_up is not None]
        if not plugins:
            return
        try:
            await asyncio.wait_for(self._for_plugins(_nothing), _SECONDS_TO_ANSWER)
        except TimeoutError:
            names = ", ".join(one.name for one in plugins)
            logger.warning("Plugins could not clean up, because a tool blocks the event loop: %s", names)
            return
        for plugin in plugins:
            try:
                await asyncio.wait_for(self._for_plugins(cast("Any", plugin.clean_up)), _CLEAN_UP_SECONDS)
            except Exception:
                logger.exception("Plugin %s could not clean up", plugin.name)


async def _nothing() -> None:
    """Shows that a loop moves."""
