"""The service put together: settings in, an ASGI application with its store, tools and upkeep out."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ferrule.app.build import App, build_hooks, guarded_folders, own_files, sandbox_choice
from ferrule.app.mcp_servers import known_servers
from ferrule.app.service_settings import EntitySettings
from ferrule.app.settings import AuditSettings, tool_folders, without_accounts
from ferrule.core.call import Limits
from ferrule.core.context import Environment
from ferrule.core.errors import MissingExtraError
from ferrule.core.files import locked
from ferrule.policy import RulePolicy
from ferrule.records import LogRecorder, log_registry
from ferrule.service.access import Access
from ferrule.service.answer_cache import AnswerCache
from ferrule.service.approvals import CallApprovals
from ferrule.service.calls import Calls
from ferrule.service.database import Database, DatabaseProblem
from ferrule.service.directory import Directory, note_change, prepare_first_start
from ferrule.service.drafted_tools import DraftHandler, TenantDraftTool
from ferrule.service.entity_catalog import EntityCatalog
from ferrule.service.feed import EventFeed
from ferrule.service.intent_handlers import all_handlers
from ferrule.service.intents import CreateIntent, IntentWorld, QueryEntitySchema
from ferrule.service.limits import CallLimits, FairGate
from ferrule.service.oidc import OidcTokens, read_key_file
from ferrule.service.outgoing import FetchProblem, Webhooks
from ferrule.service.requests import AnswerModel, AnswerRequest
from ferrule.service.sessions import UserSessions, require_apart
from ferrule.service.tables import HEAD
from ferrule.service.telemetry import ServiceTelemetry, provider_is_set
from ferrule.service.tenant_records import TenantRecorder, metrics_page
from ferrule.service.upkeep import Upkeep
from ferrule.service.writer import GroupWriter
from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from pydantic import BaseModel
    from sqlalchemy import Connection

    from ferrule.app.service_settings import ServiceSettings
    from ferrule.app.settings import Settings
    from ferrule.core.model import Model
    from ferrule.core.tool import Tool
    from ferrule.registry.registry import Registry
    from ferrule.service.directory import Principal

logger = logging.getLogger("ferrule.service")

T = TypeVar("T")

_LOOK_FOR_SCHEMA = 1.0
_STOP_SECONDS = 5.0


def database_url(settings: ServiceSettings) -> str:
    """Where the store is: the URL of the settings, or a file in the data folder."""
    return settings.database or f"sqlite:///{data_folder() / 'service.db'}"


class Service:
    """Everything of one instance. `async with` opens it; `app` is what an ASGI server serves."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        *,
        tools: Registry | None = None,
        model: Model | None = None,
        entities: Mapping[str, type[BaseModel]] | None = None,
        telemetry: ServiceTelemetry | None = None,
    ) -> None:
        """`folder` is where relative paths of the settings start. `tools` and `model` are used instead of those of the
        settings; `entities` are pydantic models whose rows the service keeps, besides those of the settings.

        `telemetry` is by default what the global providers of OpenTelemetry take, if there are any.
        """
        self.settings = settings.service
        shared = settings if settings.service.share_accounts else without_accounts(settings)
        # Files of drafts would run in this process for every tenant: here a draft is one tenant's, and runs in a box.
        without = replace(shared, audit=AuditSettings(enabled=False), tools=replace(shared.tools, drafts=False))
        self._app = App(without, folder, plugins_come=True)
        self.tools = tools if tools is not None else self._app.tools.registry
        self.database = Database(database_url(self.settings))
        if telemetry is None and provider_is_set():
            telemetry = ServiceTelemetry(registry_size=lambda: self.tools.size)
        self.telemetry = telemetry
        self.first_key: str | None = None
        """The secret of the first administrator, on the very first start alone."""
        self.not_ready_because = "The service is starting."
        self.ready = False
        self._waiting_for_schema: asyncio.Task[None] | None = None
        self._lock = ExitStack()
        self._all_settings = settings
        self.in_code_mode = settings.tools.code
        """Whether MCP clients are shown `run_code` in place of the tools that programs can call."""
        self.folder = folder
        """Where relative paths of the settings start, and the workspace of plugins."""
        self.tokens: OidcTokens | None = None
        """Who the tokens of the configured issuer speak for; None where there is none."""
        self._mcp: Any = None  # an `McpEndpoint`, which knows of the service and not the other way round
        self._model = AnswerModel(settings, model)
        self.entities = EntityCatalog(self.database)
        for name, one in settings.service.entities.items():
            self.entities.add(name, one)
        for name, kind in (entities or {}).items():
            self.entities.add(name, EntitySettings(model=f"{kind.__module__}:{kind.__qualname__}", writable=True), kind)
        self.intents = IntentWorld(self.database, self.entities, all_handlers(DraftHandler()))
        own: list[Tool[Any]] = [CreateIntent(self.intents), QueryEntitySchema(self.intents)]
        if settings.tools.drafts:
            own.append(TenantDraftTool(self.tools, self.intents))
        for made in own:
            if made.name not in self.tools:
                self.tools.register(made, origin="builtin")
        self.requests: Counter[tuple[str, int]] = Counter()
        """HTTP requests by endpoint and status."""

    @property
    def notes(self) -> list[str]:
        """What the operator should hear: a rule that names no tool, a server that is not trusted."""
        return self._app.notes

    @property
    def workspace_root(self) -> Path:
        return self.settings.workspace_root or data_folder() / "workspaces"

    async def __aenter__(self) -> Self:
        self._check_issuer()
        kept = [Path(self.database.url.database or "")] if self.database.is_sqlite else []
        require_apart(self._all_settings, self.tools, self.workspace_root, data_folder(), *kept)
        if self.database.is_sqlite:
            # It has one instance, whose calls nobody else judges.
            if not self._lock.enter_context(locked(Path(f"{self.database.url.database}.lock"), 0)):
                self._lock.close()
                raise DatabaseProblem(
                    "Another `ferrule serve` uses this database. Stop it, or give this one another with --database. "
                    "Several instances share a PostgreSQL database."
                )
            if self.database.revision() != HEAD:
                self.database.migrate()
        await self._app.__aenter__()
        self._subscriptions = [self.tools.subscribe(log_registry)]
        revision = await asyncio.to_thread(self.database.revision)
        if revision == HEAD:
            await self._open()
        else:
            self.not_ready_because = "The database's schema is not current. Run `ferrule serve migrate`."
            logger.warning("%s", self.not_ready_because)
            self._waiting_for_schema = asyncio.get_running_loop().create_task(self._wait_for_schema())
        return self

    def _check_issuer(self) -> None:
        """A file of keys that cannot be read is said at the start; a server may come up later than this one."""
        place = self.settings.oidc.jwks
        if self.settings.oidc.issuer and place and "://" not in place:
            try:
                read_key_file(place)
            except FetchProblem as problem:
                raise ValueError(f"`service.oidc.jwks`: {problem}.") from None

    async def _wait_for_schema(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_FOR_SCHEMA)
            try:
                if await asyncio.to_thread(self.database.revision) == HEAD:
                    break
            except DatabaseProblem as problem:
                logger.warning("%s", problem)
        self.database.engine.dispose()  # connections from before do not have the application's role
        await self._open()

    async def _open(self) -> None:
        """Everything that needs the tables."""
        self.database.check_guarded()
        settings, everything = self.settings, self._all_settings
        self.writer = GroupWriter(self.database)
        self.first_key = await self.writer.change(
            "default", lambda connection: prepare_first_start(connection, self.database)
        )
        self.directory = Directory(self.database)
        if settings.oidc.issuer:
            self.tokens = OidcTokens(settings.oidc, self.database, self.writer, self.directory)
        self.records = TenantRecorder(
            self.writer, count_writes=settings.answers.cache_seconds > 0 and self._model.is_set
        )
        telemetry = self.telemetry
        operator = self._app.runtime.policy
        assert isinstance(operator, RulePolicy)  # noqa: S101 - the settings make no other
        self.answers = AnswerCache(
            self.database, self.writer, self.entities, seconds=settings.answers.cache_seconds,
            similar=settings.answers.similar,
        )  # fmt: skip
        answering = AnswerRequest(self.directory, self.answers, self._model, everything)
        self.access = Access(
            self.directory, self.tools, operator, self._policy_options(), own_tools=self.intents.tools_of,
            unlisted=[answering],
        )  # fmt: skip
        self.limits = CallLimits(self.database, self.directory, asdict(settings.limits))
        self.webhooks = Webhooks(settings.webhooks, settings.public_url, self.database, self.writer)
        self.feed = EventFeed(self.database, self.writer)
        self.approvals = CallApprovals(
            self.database, self.writer, seconds=settings.approval_hours * 3600, directory=self.directory,
            feed=self.feed, webhooks=self.webhooks,
        )  # fmt: skip
        self.sessions = UserSessions(
            self.workspace_root,
            recorders=[self.records, LogRecorder(names=True), *([telemetry.recorder] if telemetry is not None else [])],
            tracer=telemetry.tracer if telemetry is not None else None,
            hooks=build_hooks(everything),
            limits=Limits(**asdict(everything.limits)),
            repair=everything.tools.repair,
            environment=self._session_environment,
            recheck=self.access.recheck,
            remote=self._app.remote,
        )
        self.calls = Calls(
            self.database, self.writer, self.access, self.directory, self.sessions, self.limits, FairGate(),
            self.approvals, lease=settings.lease_seconds, feed=self.feed, telemetry=telemetry,
        )  # fmt: skip
        answering.calls = self.calls
        self.intents.directory, self.intents.writer, self.intents.access = self.directory, self.writer, self.access
        self.upkeep = Upkeep(self.calls, self.directory, keep_days=settings.keep_days, audit_days=settings.audit_days)
        self.directory.on_change = self._rights_changed
        loop = asyncio.get_running_loop()

        def hear(news: str) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody hears any more
                loop.call_soon_threadsafe(self.upkeep.hear, news)

        def told(_: object) -> None:
            with suppress(RuntimeError):  # as above
                loop.call_soon_threadsafe(self.feed.tools_changed)

        self._subscriptions.append(self.tools.subscribe(told))
        self.database.listen(hear)
        await self.upkeep.start()
        self.webhooks.start()
        self.ready = True

    def _rights_changed(self) -> None:
        self.feed.tools_changed()
        self.upkeep.look_now()

    async def follow_plugins(self) -> None:
        """Have the tools of the plugins that are enabled now."""
        await self._app.follow_plugins()

    def _policy_options(self) -> dict[str, Any]:
        settings, tools = self._all_settings, self._app.tools
        return {
            "dangerous": settings.permissions.dangerous,
            "own_files": own_files(self.folder),
            "tool_folders": [folder.resolve() for folder in tool_folders(settings, self.folder)],
            "doubts": tools.servers.approvals if tools.servers is not None else None,
        }

    def _session_environment(self, workspace: Path) -> Environment:
        """As for a user's own session, but for folders besides the workspace: tenants would share those."""
        settings = self._all_settings
        chosen = sandbox_choice(settings, workspace)
        # An approver answers for a tenant; what runs with the service's own rights is for the operator to say.
        unconfined = "allow" if chosen.unconfined == "allow" else "refuse"
        return Environment(
            hard_links=settings.files.hard_links,
            guarded=guarded_folders(settings, self.folder),
            sandbox=replace(chosen, unconfined=unconfined),
        )

    def servers_document(self) -> dict[str, Any]:
        """The MCP servers and plugins whose tools there are. No argument, header or variable of theirs: any may hold a
        secret.
        """
        tools = self._app.tools
        joined = tools.servers.joined if tools.servers is not None else {}
        listed: list[dict[str, Any]] = []
        for known in known_servers(self._all_settings, self.folder).servers:
            config = known.config
            address = str(config.command[0]) if config.command else (urlsplit(config.url).hostname or "")
            listed.append({"name": config.name, "kind": "mcp", "address": address, "trusted": known.trusted})
        named = {one["name"] for one in listed}
        plugins = [*(name for name in joined if name not in named), *(plugin.name for plugin in tools.plugins)]
        listed += [{"name": name, "kind": "plugin", "address": "", "trusted": True} for name in dict.fromkeys(plugins)]
        for one in listed:
            there = joined.get(one["name"])
            made = there.made if there is not None else None
            problems = [
                *(there.problems if there is not None else ()),
                *([made.problem] if made and made.problem else []),
            ]
            one["problem"] = "; ".join(str(problem) for problem in problems)
            one["tools"] = [tool.name for tool in there.tools.values()] if there is not None else []
            one["tools"] += [
                tool.name for plugin in tools.plugins if plugin.name == one["name"] for tool in plugin.tools
            ]
        return {"servers": listed, "notes": [str(note) for note in tools.notes]}

    async def change(self, tenant: str, make: Callable[[Connection], T]) -> T:
        """Make a change of people, rights or intents, and have every instance read anew before this one goes on."""

        def noted(connection: Connection) -> T:
            made = make(connection)
            note_change(connection, self.database)
            return made

        made = await self.writer.change(tenant, noted)
        self.directory.forget()
        return made

    async def metrics_text(self, principal: Principal) -> str:
        """The metrics of a tenant; of all of them for the operator's."""
        statistics = self.records.statistics
        size = self.tools.size
        if not principal.operator:
            own = {name: counts for name, counts in statistics.items() if name == principal.tenant}
            return metrics_page(own, registry_size=size)
        running = Counter(live.tenant for live in self.calls.live.values())
        pools = await self._app.remote.pool_counts() if self._app.remote is not None else None
        return metrics_page(statistics, registry_size=size, requests=self.requests, running=running, pools=pools)

    async def mcp(self) -> Any:
        """What answers at `/mcp`, made when it is first wanted: importing the SDK takes long."""
        if self._mcp is None:
            try:
                module = await asyncio.to_thread(import_module, "ferrule.service.mcp_endpoint")
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("ferrule"):
                    raise
                raise MissingExtraError("MCP", "mcp") from error
            if self._mcp is None:
                self._mcp = module.McpEndpoint(self)
        return self._mcp

    async def close_mcp(self) -> None:
        if self._mcp is not None:
            await self._mcp.close()

    async def drain(self) -> None:
        """Take no more calls, and wait for those that run; after `drain_seconds` they are stopped. Requests whose steps
        are kept go on elsewhere.
        """
        if not self.ready or self.calls.draining:
            return
        self.calls.close()
        self.feed.close()
        with suppress(DatabaseProblem):  # what was let in before is stored after this, and begins
            await self.writer.change("", lambda connection: None)
        left = {live.task for live in self.calls.live.values() if live.task is not None}
        if not left:
            return
        logger.info("Waiting for %d calls to end", len(left))
        _, left = await asyncio.wait(left, timeout=self.settings.drain_seconds)
        if not left:
            return
        for live in list(self.calls.live.values()):
            self.calls.stop(live, leave=True)
        _, left = await asyncio.wait(left, timeout=_STOP_SECONDS)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_STOP_SECONDS)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waiting_for_schema is not None:
            self._waiting_for_schema.cancel()
            await asyncio.wait({self._waiting_for_schema})
        if self.ready:
            await self.drain()
            await self.close_mcp()
            self.ready = False
            self.not_ready_because = "This instance has stopped."
            await self.upkeep.stop()
            await self.webhooks.close()
            await self.sessions.close()
            await asyncio.to_thread(self.writer.close)
            self.directory.close()
        for unsubscribe in self._subscriptions:
            unsubscribe()
        await self._model.close()
        await asyncio.to_thread(self.entities.close)
        await self._app.__aexit__(kind, error, trace)
        await asyncio.to_thread(self.database.close)
        self._lock.close()
