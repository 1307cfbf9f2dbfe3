"""Puts the parts together: settings in, a runtime with its tools, policy and records out."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from ferrule.app.mcp_servers import build_servers, lock_mark, plugin_servers
from ferrule.app.settings import (
    PROJECT_FILE,
    RuleTable,
    SettingsError,
    SourcedRule,
    accounts_of,
    added_folders,
    audit_path,
    limit_of,
    loaded_folders,
    organisation_settings_file,
    tool_folders,
    user_settings_file,
)
from ferrule.core.context import Environment, SandboxChoice
from ferrule.core.nearest import UnknownNameError, check_names, is_named
from ferrule.core.phrases import phrase, said_by
from ferrule.registry.registry import Registry
from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ferrule.app.settings import HookSettings, Settings
    from ferrule.core.plugin import Plugin
    from ferrule.mcp_client.server_config import Ports
    from ferrule.mcp_client.servers import Servers
    from ferrule.pipeline.confirm import Asker
    from ferrule.pipeline.execute import RemoteRunner
    from ferrule.pipeline.hooks import Hook
    from ferrule.pipeline.run import Runtime
    from ferrule.plugins.discovery import FolderTools
    from ferrule.plugins.plugin import BrokenModule
    from ferrule.policy.decide import RulePolicy
    from ferrule.policy.rule_file import Written
    from ferrule.policy.rules import Rule
    from ferrule.records.audit import AuditLog
    from ferrule.registry.registry import ToolSource
    from ferrule.remote.caller import RemoteCalls
    from ferrule.remote.wire import Nkey


@dataclass(slots=True)
class Tools:
    """The registry with everything that was found, and what was not."""

    registry: Registry
    plugins: list[Plugin] = field(default_factory=list[Any])
    """The installed ones."""
    skipped: list[BrokenModule] = field(default_factory=list[Any])
    """What of them could not be loaded."""
    folders: FolderTools | None = None
    servers: Servers | None = None
    notes: list[str] = field(default_factory=list[str])
    """What a person should hear of the MCP servers."""

    @property
    def broken(self) -> list[BrokenModule]:
        """All that could not be loaded, as it is now: the files of a folder may change."""
        return [*self.skipped, *(self.folders.broken if self.folders is not None else ())]

    def unknown(self, place: str, names: Sequence[str], *others: str, elsewhere: bool = False) -> list[str]:
        """What to say of names in a setting that no tool has yet; raises `SettingsError` for one that is misspelt.

        What it says of such a tool holds once there is one. The setting also takes the words `others`. Tools may also
        be `elsewhere`, where they are not known.
        """
        if not names or names == ["*"]:
            return []
        from ferrule.policy.rule_file import MAY_COME

        try:
            missing = check_names(
                names, [*self.registry.known_names(), *MAY_COME, *others], complete=not self.broken and not elsewhere
            )
        except UnknownNameError as error:
            raise SettingsError(phrase("`{place}`: {error}", place=place, error=error)) from None
        return [phrase("`{place}` names `{name}`, which no tool here is called.", place=place, name=name)
                for name in missing]  # fmt: skip


def build_tools(
    settings: Settings,
    workspace: Path,
    ports: Callable[[], Ports] | None = None,
    *,
    plugins_come: bool = False,
    watched: bool = False,
) -> Tools:
    """Built-ins, installed plugins, the settings' folders, and what is known of the MCP servers, in one registry.

    No server is started here: `tools.servers` does that when it is asked to, or when one of its tools is called. Where
    the folders are to be `watched`, those that come later count too.
    """
    from ferrule.builtin.all_tools import Family, register_builtins
    from ferrule.toolbox.areas import register_toolbox

    registry = Registry(disabled=settings.tools.disabled)
    register_builtins(registry, drafts=settings.tools.drafts)
    tools = Tools(registry)
    # Where nothing brings tools, what loads them is not imported.
    installed = settings.tools.plugins and _may_be_installed()
    in_folders = settings.tools.folders or (
        settings.tools.drafts and (watched or any(one.exists() for one in loaded_folders(settings, workspace)))
    )
    if installed or in_folders:
        from ferrule.plugins.discovery import discover_installed
        from ferrule.plugins.plugin import descriptor_aside

        with descriptor_aside():
            if installed:
                found = discover_installed()
                found.register(registry)
                tools.plugins, tools.skipped = found.plugins, found.broken
            if in_folders:
                from ferrule.builtin.boxed_draft import DraftsFolder
                from ferrule.plugins.discovery import FolderTools

                tools.folders = FolderTools(
                    tool_folders(settings, workspace),
                    registry,
                    drafts=DraftsFolder(workspace) if settings.tools.drafts else None,
                )
                tools.folders.load()
    if settings.tools.code:
        from ferrule.code.run_code import RunCode

        registry.register(RunCode(registry), origin="builtin")
    tools.notes = register_toolbox(registry, accounts_of(settings, workspace))
    folders = added_folders(settings, workspace)
    tools.servers, notes = build_servers(settings, workspace, registry, folders, ports, may_come=plugins_come)
    tools.notes += notes
    tools.notes += tools.unknown("tools.disabled", settings.tools.disabled)
    tools.notes += tools.unknown("assistant.tools", settings.assistant.tools, *get_args(Family))
    for hook in settings.hooks:
        tools.notes += tools.unknown("hooks.tools", hook.tools)
    for pool, names in settings.remote.pools.items():
        tools.notes += tools.unknown(f"remote.pools.{pool}", [one for one in names if ":" not in one], elsewhere=True)
    return tools


def _may_be_installed() -> bool:
    """Whether an installed package may bring tools, found without the import of what reads packages' metadata."""
    for place in sys.path:
        try:
            with os.scandir(place or ".") as inside:
                packages = [one.path for one in inside if one.name.endswith((".dist-info", ".egg-info"))]
        except FileNotFoundError:
            continue
        except OSError:  # an archive, which may hold packages
            return True
        for package in packages:
            with suppress(OSError), open(f"{package}/entry_points.txt", "rb") as points:  # noqa: PTH123 - a hundred of them
                if _ENTRY_POINTS in points.read():
                    return True
    return False


_ENTRY_POINTS = b"ferrule.tools"
WEB = ("FetchPage", "HttpRequest")


def assistant_tools(settings: Settings, registry: Registry) -> ToolSource:
    """The tools that the assistant's model is shown, as the settings have them; in code mode, what calls them.

    Without a choice, tools that do the same as another under another name are left out, and those for the web where no
    host is allowed, since they would only be refused.
    """
    from ferrule.builtin.all_tools import TWINS, builtin_names

    named = settings.assistant.tools or ["standard"]
    family = builtin_names("assistant")
    unwanted = TWINS if _allows_hosts(settings) else {*TWINS, *WEB}
    chosen = registry.filtered(
        lambda tool: (
            "all" in named
            or hasattr(tool, "within")
            or is_named(tool.name, named)
            or ("assistant" in named and tool.name in family)
            or ("standard" in named and tool.name not in unwanted)
        )
    )
    return shown_to_models(settings, chosen)


def shown_to_models(settings: Settings, tools: ToolSource) -> ToolSource:
    """The tools as a model sees them: in code mode those that programs can call are left out."""
    if not settings.tools.code:
        return tools
    from ferrule.code.run_code import only_code

    return only_code(tools)


def _allows_hosts(settings: Settings) -> bool:
    """Whether the user lets anything out: a host of the sandbox, a credential for a host, or a rule about the web."""
    permissions = settings.permissions
    rules = [one if isinstance(one, str) else one.rule for one in (*permissions.allow, *permissions.ask)]
    named = any(rule.partition("(")[0].strip() in ("*", "WebFetch", *WEB) for rule in rules)
    return named or bool(settings.sandbox.hosts or settings.credentials or settings.web.private)


# The policy that the settings describe: each rule read, checked against the tools there are, with its source.


@dataclass(slots=True, frozen=True)
class BuiltPolicy:
    """A policy, and what a person should hear of its rules."""

    policy: RulePolicy
    notes: list[str]


def build_policy(settings: Settings, workspace: Path, tools: Tools) -> BuiltPolicy:
    """Raises `SettingsError` with the file and the rule when one cannot work: half a policy would be none."""
    from ferrule.policy.decide import RulePolicy

    permissions = settings.permissions
    rules: list[Rule] = []
    notes: list[str] = []
    if permissions.allow or permissions.ask or permissions.deny:
        from ferrule.policy.patterns import RuleError
        from ferrule.policy.rule_file import KnownTools, RuleChecks

        known = KnownTools(tools.registry.get, tools.registry.known_names(), complete=not tools.broken)
        try:
            checked = RuleChecks(workspace, known).read(written_rules(settings))
        except RuleError as error:
            raise SettingsError(said_by(error)) from None
        rules, notes = checked.rules, checked.notes
    policy = RulePolicy(
        rules,
        mode=permissions.mode,
        dangerous=permissions.dangerous,
        own_files=own_files(workspace),
        tool_folders=[folder.resolve() for folder in loaded_folders(settings, workspace)],
        doubts=tools.servers.approvals if tools.servers is not None else None,
    )
    return BuiltPolicy(policy, notes)


def own_files(workspace: Path) -> list[Path]:
    """The settings files in force for a workspace, which no tool may write."""
    return [user_settings_file().absolute(), organisation_settings_file(), (workspace / PROJECT_FILE).absolute()]


def written_rules(settings: Settings) -> Iterator[Written]:
    """Every rule of the settings as it was written."""
    from ferrule.pipeline.authorise import Verdict
    from ferrule.policy.rule_file import Written
    from ferrule.policy.rules import Source, SourceKind

    permissions = settings.permissions
    for verdict in (Verdict.DENY, Verdict.ASK, Verdict.ALLOW):
        for one in getattr(permissions, verdict.value):
            table = one if isinstance(one, RuleTable) else RuleTable(one)
            source = Source(SourceKind(table.kind), table.file) if isinstance(table, SourcedRule) else Source()
            yield Written(verdict, table.rule, source, tuple(table.match), tuple(table.no_match))


# What stands around calls besides the rules, as the settings describe it: the sandbox of commands, and the hooks.


def sandbox_choice(settings: Settings, workspace: Path) -> SandboxChoice:
    """What a session must know of the sandbox."""
    chosen = settings.sandbox
    if chosen.hosts:
        from ferrule.process.sandbox.proxy import AllowedHosts, BadHost

        try:
            AllowedHosts(chosen.hosts)
        except BadHost as error:
            raise SettingsError(
                phrase(
                    "`sandbox.hosts`: {error}. Write a host as `example.org`, `*.example.org` or `*`, "
                    "optionally with a port: `example.org:443`.",
                    error=error,
                )
            ) from None
    return SandboxChoice(
        enabled=chosen.enabled,
        hosts=tuple(chosen.hosts or ()) or None,
        writable=tuple(writable_folders(settings, workspace)),
        see=tuple(seen_folders(settings, workspace)),
        ignored=settings.shell.look.ignored,
        memory=limit_of(settings.shell.memory),
        processes=settings.shell.processes,
        file_size=limit_of(settings.shell.file_size),
        unconfined=settings.shell.unconfined,
    )


def session_environment(settings: Settings, workspace: Path, *, single_call: bool = False) -> Environment:
    """Where the tools of a user's own session work."""
    return Environment(
        single_call=single_call,
        roots=added_folders(settings, workspace),
        hard_links=settings.files.hard_links,
        guarded=guarded_folders(settings, workspace),
        sandbox=sandbox_choice(settings, workspace),
    )


def writable_folders(settings: Settings, workspace: Path) -> list[Path]:
    """The folders that commands may write besides the workspace; relative ones start there."""
    return [workspace / folder.expanduser() for folder in settings.sandbox.writable]


def seen_folders(settings: Settings, workspace: Path) -> list[Path]:
    """The folders that commands may read besides the workspace; relative ones start there."""
    folders = [workspace / folder.expanduser() for folder in settings.shell.see]
    if not folders:
        return []
    from ferrule.process.arguments import wrong_text

    for folder in folders:
        real = folder.resolve()
        if (wrong := wrong_text(str(folder))) is not None:
            raise SettingsError(phrase("`shell.see`: {folder} {wrong}.", folder=repr(str(folder)), wrong=wrong))
        if not real.parts[1:] or real.parts[1] in ("proc", "sys", "dev"):
            raise SettingsError(
                phrase("`shell.see`: `{folder}` is not shown to commands. Name the folders they need.", folder=folder)
            )
    return folders


def guarded_folders(settings: Settings, workspace: Path) -> tuple[Path, ...]:
    """Tools folders, which no command may write: Ferrule itself runs what they hold, and loads it at once.

    Not one that the whole workspace lies in, where nothing could be written then.
    """
    root = workspace.resolve()
    folders = [folder.resolve() for folder in loaded_folders(settings, workspace)]
    return tuple(folder for folder in folders if not root.is_relative_to(folder))


def build_hooks(settings: Settings) -> list[Hook]:
    """Every hook of the settings. Whether its program is there is found out when it is asked: a missing one refuses."""
    if not settings.hooks:
        return []
    from ferrule.policy.program_hook import program_hook

    return [
        program_hook(hook_command(one), event=one.event, tools=one.tools, timeout=one.timeout) for one in settings.hooks
    ]


def hook_command(hook: HookSettings) -> list[str]:
    """The command that is started; `~` in front of the program is the person's home."""
    return [os.path.expanduser(hook.command[0]), *hook.command[1:]]  # noqa: PTH111 - a name to look up stays one


# Other machines, as the settings describe them.


def build_remote(settings: Settings) -> RemoteCalls | None:
    """What runs calls on other machines; None where nothing says that any shall. It connects when it is first needed.

    Where tools are meant for a pool and there is no server, their calls say so: they never run here instead.
    """
    chosen = settings.remote
    url, file = chosen.url, chosen.key
    if not url:
        if not chosen.pools and not (data_folder() / "remote-dev").exists():
            return None
        from ferrule.remote.server import dev_connection

        found = dev_connection()
        if found is None and not chosen.pools:
            return None
        url, file = (found[0], file or found[1]) if found is not None else ("", None)
    from ferrule.remote.caller import RemoteCalls
    from ferrule.remote.wire import RemoteError

    try:
        return RemoteCalls(
            [one.strip() for one in url.split(",") if one.strip()],
            remote_key(file, chosen.trusted) if url else None,
            pools=chosen.pools,
            lease=chosen.lease,
            wait=chosen.wait,
            queue=chosen.queue,
            ca=chosen.ca.expanduser() if chosen.ca is not None else None,
        )
    except (RemoteError, ValueError) as error:
        raise SettingsError(said_by(error)) from None


def remote_key(file: Path | None, trusted: Sequence[str]) -> Nkey:
    """The key in a file; raises `RemoteError` where there is none."""
    from ferrule.remote.wire import RemoteError, read_key

    if file is None:
        raise RemoteError(
            phrase(
                "`remote.key` is missing: the file with the key to log in to the NATS server. `ferrule remote config` "
                "makes keys."
            )
        )
    return read_key(file.expanduser(), trusted)


logger = logging.getLogger("ferrule.app")

_SERVERS_SECONDS = 5.0
_SECONDS_BETWEEN_LOOKS = 0.3
"""At the lock of the plugins: one that the user disables ends within a second, also in a busy session."""
"""How long a start waits for MCP servers whose tools nobody knows yet; those that take longer join later."""


_WORKERS_SECONDS = 0.5
"""How long a start waits for the tools that only workers have; those that come later join later."""


class App:
    """A runtime with all that belongs to it; `async with` starts the plugins and closes the records."""

    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        *,
        ask: Asker | None = None,
        single_call: bool = False,
        ports: Callable[[], Ports] | None = None,
        remote: RemoteRunner | None = None,
        plugins_come: bool = False,
    ) -> None:
        """With `plugins_come`, `follow_plugins` takes those in that are enabled while it runs, and lets others go."""
        from ferrule.core.call import Limits
        from ferrule.core.context import Session
        from ferrule.pipeline.run import Runtime

        self.settings = settings
        self._seen_lock = lock_mark()  # before it is read
        self.tools = build_tools(settings, workspace, ports, plugins_come=plugins_come, watched=not single_call)
        self._workspace = workspace
        self._looking: asyncio.Lock | None = None
        self._following: asyncio.Task[None] | None = None
        self._single_call = single_call
        built = build_policy(settings, workspace, self.tools)
        self.policy = built.policy
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
        self.remote = build_remote(settings) if remote is None else None
        self.runtime: Runtime = Runtime(
            self.tools.registry,
            policy=built.policy,
            ask=ask,
            recorders=recorders,
            limits=Limits(**asdict(settings.limits)),
            session=Session(
                workspace=workspace,
                environment=session_environment(settings, workspace, single_call=single_call),
                language=settings.lang or "en",
            ),
            hooks=build_hooks(settings),
            repair=settings.tools.repair,
            own_loop=True,
            remote=remote or self.remote,
        )

    async def __aenter__(self) -> App:
        import asyncio

        from ferrule.pipeline.additions import end_plugins

        for plugin in list(self.tools.plugins):
            if why := await self._start(plugin):
                from ferrule.plugins.plugin import BrokenModule

                self.tools.plugins.remove(plugin)
                self.tools.skipped.append(BrokenModule(plugin.source, why))
                for tool in plugin.tools:
                    self.tools.registry.unregister(tool)
        if (folders := self.tools.folders) is not None:
            loop = asyncio.get_running_loop()

            def start(plugin: Plugin) -> str:
                return asyncio.run_coroutine_threadsafe(self._start(plugin), loop).result()

            def end(plugin: Plugin) -> None:
                asyncio.run_coroutine_threadsafe(end_plugins([plugin], own_loop=True), loop).result()

            await asyncio.to_thread(folders.start_plugins, start, end)
            if not self._single_call:
                folders.watch()
        if self.tools.servers is not None:
            self._following = asyncio.create_task(self._follow_lock())
        if self.tools.servers is not None and not self._single_call:
            try:
                await self.tools.servers.start_unlisted(wait=_SERVERS_SECONDS)
            except BaseException:  # whoever did not want to wait; what was started is ended all the same
                await self.__aexit__()
                raise
        if self.remote is not None and self.remote.pools:
            from ferrule.remote.offers import follow

            try:
                await follow(self.remote, self.tools.registry, _WORKERS_SECONDS)
            except BaseException:
                await self.__aexit__()
                raise
        return self

    async def _start(self, plugin: Plugin) -> str:
        """Start a plugin; gives why it could not be, and nothing where it was."""
        from ferrule.pipeline.additions import start_plugin, why_not_started

        try:
            await start_plugin(plugin, own_loop=True)
        except Exception as error:  # one plugin's fault must not take the others along
            logger.info("Plugin %s could not start", plugin.name, exc_info=error)
            return why_not_started(error)
        return ""

    async def _follow_lock(self) -> None:
        """Take in at once what `ferrule plugin` or another process changed: what is disabled ends here too."""
        import asyncio

        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            if (now := lock_mark()) == self._seen_lock:
                continue
            self._seen_lock = now
            try:
                await self.follow_plugins()
            except Exception:
                logger.exception("The plugins could not be looked at again")

    async def follow_plugins(self) -> None:
        """Have the tools of the plugins that are enabled now."""
        import asyncio

        if self.tools.servers is None:
            return
        self._looking = self._looking or asyncio.Lock()
        async with self._looking:  # who read the lock last has the last word
            plugins, notes = await asyncio.to_thread(plugin_servers, self._workspace)
            for note in notes:
                logger.warning("%s", note)
            await self.tools.servers.follow(plugins)

    async def __aexit__(self, *_error: object) -> None:
        import asyncio

        from ferrule.pipeline.additions import end_plugins

        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
        if self.tools.folders is not None:
            await asyncio.to_thread(self.tools.folders.close)
        await self.runtime.session.close()
        if self.remote is not None:
            await self.remote.close()
        if self.tools.servers is not None:
            await self.tools.servers.close()
        in_folders = self.tools.folders.started if self.tools.folders is not None else []
        await end_plugins([*self.tools.plugins, *in_folders], own_loop=True)
        if self.audit is not None:
            from ferrule.records.database import AuditError

            try:
                self.audit.close()
            except AuditError as problem:  # the calls have happened, and whoever made them wants their results
                self.unrecorded = said_by(problem)
