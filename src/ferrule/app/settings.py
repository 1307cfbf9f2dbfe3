"""Settings, declared once, and how they are read: from files, environment and flags, in order.

Plain dataclasses, so that a start without any settings imports no validator. What a workspace may not decide for the
person is refused.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from ferrule.core.access import LOOSEST_FIRST, Mode
from ferrule.core.call import DEFAULT_LIMITS
from ferrule.core.phrases import phrase
from ferrule.core.sizes import read_size, size_words
from ferrule.toolbox.accounts import Accounts, Api, CalendarAccount, Credential, DatabaseAccount, MailAccount, WebAccess
from ferrule.workspace.confined import read_given
from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.data_folder import user_settings_file as user_settings_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import TypeAdapter

    from ferrule.app.service_settings import ServiceSettings


_WHEN_LOOKED_AT: Any = None


class _Section:
    """A table of settings, which has no keys but those that are declared."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}


@dataclass(slots=True)
class RuleTable(_Section):
    """A rule with examples that are tried when it is loaded: what it must match, and what it must not."""

    rule: str
    match: list[str] = field(default_factory=list[str])
    no_match: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class SourcedRule(RuleTable):
    """A rule that knows where it was read; files cannot say that of themselves."""

    kind: str = "program"
    file: Path | None = None


@dataclass(slots=True)
class PermissionSettings(_Section):
    """What may run, by rules: `Tool` or `Tool(specifier)`. Deny beats ask beats allow, from every source.

    `dangerous` set to "allow" lets dangerous commands run by the same rules as others.
    """

    mode: Mode = Mode.DEFAULT
    allow: list[str | RuleTable] = field(default_factory=list[str | RuleTable])
    ask: list[str | RuleTable] = field(default_factory=list[str | RuleTable])
    deny: list[str | RuleTable] = field(default_factory=list[str | RuleTable])
    dangerous: Literal["ask", "allow"] = "ask"


@dataclass(slots=True)
class LimitSettings(_Section):
    """Bounds on every call."""

    timeout: float = DEFAULT_LIMITS.timeout
    result_chars: int = DEFAULT_LIMITS.result_chars
    argument_bytes: int = DEFAULT_LIMITS.argument_bytes
    concurrency: int = DEFAULT_LIMITS.concurrency


@dataclass(slots=True)
class ToolSettings(_Section):
    """Which tools there are besides the built-ins, which are switched off, and whether harmless mistakes in arguments
    are repaired. With `code`, models call tools from programs that they write.
    """

    plugins: bool = True
    drafts: bool = True
    repair: bool = True
    code: bool = False
    folders: list[Path] = field(default_factory=list[Path])
    disabled: list[str] = field(default_factory=list[str])
    search_above: int = 40
    """With more tools than this, a model searches for them; 0 shows all of them always."""


@dataclass(slots=True)
class FileSettings(_Section):
    """Where file tools may go besides the workspace, and whether they change files that have other names."""

    folders: list[Path] = field(default_factory=list[Path])
    hard_links: bool = False


@dataclass(slots=True)
class SandboxSettings(_Section):
    """What shell commands are confined to: `hosts` they may reach (`example.org`, `*.example.org`), folders besides
    the workspace that are `writable`. Without the sandbox a command may do whatever the person may.
    """

    enabled: bool = True
    hosts: list[str] = field(default_factory=list[str])
    writable: list[Path] = field(default_factory=list[Path])


@dataclass(slots=True)
class LookSettings(_Section):
    """What becomes of files that git ignores (caches, build output) when a command made them without approval.

    `session` keeps them aside, where later commands of the session see them; `drop` drops them; `keep` puts them in the
    workspace; `ask` asks as for any other change.
    """

    ignored: Literal["session", "drop", "keep", "ask"] = "session"


@dataclass(slots=True)
class ShellSettings(_Section):
    """How unapproved commands run, which folders besides the workspace all commands `see`, what each may use at most,
    and whether those that rules allow run where no sandbox works.
    """

    see: list[Path] = field(default_factory=list[Path])
    look: LookSettings = field(default_factory=LookSettings)
    memory: str = "auto"
    processes: int | Literal["auto", "off"] = "auto"
    file_size: str = "auto"
    unconfined: Literal["ask", "allow"] = "ask"

    def __post_init__(self) -> None:
        for name, least in (("memory", _LEAST_MEMORY), ("file_size", 1)):
            if isinstance(size := limit_of(getattr(self, name)), int) and size < least:
                raise ValueError(f'`{name}` is at least {size_words(least)}, "auto" or "off"')
        if isinstance(self.processes, int) and not _LEAST_PROCESSES <= self.processes <= _MOST_PROCESSES:
            raise ValueError(f'`processes` is from {_LEAST_PROCESSES} to {_MOST_PROCESSES:,}, "auto" or "off"')


_LEAST_MEMORY, _LEAST_PROCESSES = 100_000_000, 16  # with less hardly any command starts
_MOST_PROCESSES = 4_000_000  # the kernel has numbers for a few more


def limit_of(said: str) -> int | Literal["auto", "off"]:
    """A limit in bytes as it is written: `6 GB`, `auto` or `off`."""
    return said if said in ("auto", "off") else read_size(said)


@dataclass(slots=True)
class HookSettings(_Section):
    """A program to ask before or after calls; `command` is the program, then its arguments."""

    event: Literal["before", "after"]
    command: list[str]
    tools: list[str] = field(default_factory=lambda: ["*"])
    timeout: float = 10.0

    def __post_init__(self) -> None:
        if not self.command or not self.command[0]:
            raise ValueError("`command` needs a program, then its arguments")
        if not 0 < self.timeout < float("inf"):
            raise ValueError("`timeout` is a number of seconds above 0")
        if not self.tools:
            raise ValueError('`tools` names no tool; leave it out, or say ["*"]')


@dataclass(slots=True)
class McpServerSettings(_Section):
    """A server whose tools are used: a program (`command`, `args`, `env`, `cwd`), or a `url` with `headers`.

    `${NAME}` and `${NAME:-default}` stand for variables, and `${keyring:service/user}` for a secret in the keyring.
    """

    command: str = ""
    args: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    client_id: str = ""
    client_secret: str = ""
    timeout: float | None = None
    start_timeout: float = 30.0
    protocol: str = ""
    roots: bool = True
    enabled: bool = True


@dataclass(slots=True)
class SourcedServer(McpServerSettings):
    """A server that knows where it was read."""

    kind: str = "program"
    file: Path | None = None


@dataclass(slots=True)
class AuditSettings(_Section):
    """The audit log: where, how long, and whether a result waits until its record is on disk."""

    enabled: bool = True
    path: Path | None = None
    keep_days: int = 90
    acknowledge: Literal["queued", "committed"] = "queued"


@dataclass(slots=True)
class AssistantSettings(_Section):
    """`ferrule chat` and `ferrule run`. The limits are for one turn, and 0 is no limit.

    `tools` are those the model is shown: names, `standard` (the built-ins under their standard names, and those of
    plugins, as where it is empty), `assistant` (the seven with names like `readFile`) or `all`.
    `project_words` lets it read the `AGENTS.md` and `CLAUDE.md` of a workspace. Sessions are saved and can be resumed
    for `keep_days`. `notify` is how a chat calls whoever waited for `notify_seconds` or longer.
    """

    tools: str | list[str] = field(default_factory=list[str])
    max_steps: int = 100
    max_tokens: int = 0
    max_cost: float = 0.0
    max_seconds: float = 0.0
    project_words: bool = True
    save: bool = True
    keep_days: int = 30
    notify: Literal["bell", "desktop", "off"] = "bell"
    notify_seconds: float = 10.0

    def __post_init__(self) -> None:
        self.tools = [self.tools] if isinstance(self.tools, str) else self.tools
        for name in ("max_steps", "max_tokens", "max_cost", "max_seconds", "keep_days", "notify_seconds"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"`{name}` is 0 for no limit, or a number above it")


@dataclass(slots=True)
class NoteSettings(_Section):
    """Folders of notes besides the workspace, which is one where it holds `.obsidian`; relative ones start there."""

    vaults: list[Path] = field(default_factory=list[Path])


@dataclass(slots=True)
class ProviderSettings(_Section):
    """A server of models: where it is, in which `form` it speaks, and the variable that holds its key.

    A key itself has no place here: settings are read, copied and shown.
    """

    base_url: str = ""
    form: Literal["", "chat", "responses", "anthropic", "gemini"] = ""
    key_variable: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    context_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.base_url and not self.base_url.startswith(("https://", "http://")):
            raise ValueError("`base_url` begins with https:// or http://")


@dataclass(slots=True)
class RemoteSettings(_Section):
    """Tools that run on other machines: the NATS server's `url` (several with commas), the file of the `key` to log in
    and to sign with, whose keys are `trusted` besides, and which tools the workers of each of the `pools` run.

    A tool is meant by its name, which may contain `*`, by `tag:NAME` or by `kind:NAME`. Tools that only workers have
    are there too. A call waits `wait` seconds for a worker that has its tool, and `queue` seconds for a free one; one
    whose worker says nothing for two leases is lost.
    """

    url: str = ""
    key: Path | None = None
    trusted: list[str] = field(default_factory=list[str])
    ca: Path | None = None
    lease: float = 10.0
    wait: float = 10.0
    queue: float = 300.0
    pools: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        for name, least, most in (("lease", 0.4, 300), ("wait", 0, 3600), ("queue", 0.1, 1200)):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"`{name}` is from {least} to {most} seconds")


@dataclass(slots=True)
class Settings(_Section):
    """Everything that can be set. A flag comes before the environment, that before the project's file, that before
    the person's file, and that before the default. `model` is the one to ask, as `provider/name`.
    """

    lang: Literal["", "en", "zh"] = ""
    trusted_folders: list[Path] = field(default_factory=list[Path])
    permissions: PermissionSettings = field(default_factory=PermissionSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    tools: ToolSettings = field(default_factory=ToolSettings)
    files: FileSettings = field(default_factory=FileSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    shell: ShellSettings = field(default_factory=ShellSettings)
    hooks: list[HookSettings] = field(default_factory=list[HookSettings])
    mcp_servers: dict[str, McpServerSettings] = field(default_factory=dict[str, McpServerSettings])
    trusted_mcp_servers: list[str] = field(default_factory=list[str])
    audit: AuditSettings = field(default_factory=AuditSettings)
    assistant: AssistantSettings = field(default_factory=AssistantSettings)
    service: ServiceSettings = _WHEN_LOOKED_AT
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    databases: dict[str, DatabaseAccount] = field(default_factory=dict[str, DatabaseAccount])
    mail: dict[str, MailAccount] = field(default_factory=dict[str, MailAccount])
    calendars: dict[str, CalendarAccount] = field(default_factory=dict[str, CalendarAccount])
    credentials: dict[str, Credential] = field(default_factory=dict[str, Credential])
    apis: dict[str, Api] = field(default_factory=dict[str, Api])
    web: WebAccess = field(default_factory=WebAccess)
    notes: NoteSettings = field(default_factory=NoteSettings)
    model: str = ""
    providers: dict[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])

    def __post_init__(self) -> None:
        if self.service is _WHEN_LOOKED_AT:
            del self.service

    def __getattr__(self, name: str) -> Any:
        """The service's settings are imported when they are first looked at, which few commands do."""
        if name != "service":
            raise AttributeError(name)
        from ferrule.app.service_settings import ServiceSettings

        self.service = ServiceSettings()
        return self.service


# Where Ferrule keeps a person's settings and records.


PROJECT_FILE = "ferrule.toml"
ORGANISATION_FILE = Path("/etc/ferrule/ferrule.toml")


def organisation_settings_file() -> Path:
    """What an organisation sets for everybody on this machine; no variable names another file."""
    return ORGANISATION_FILE


def audit_path(settings: Settings) -> Path:
    """The audit log's file."""
    return settings.audit.path.expanduser() if settings.audit.path else data_folder() / "audit.db"


def sessions_folder() -> Path:
    """Where the assistant's sessions are saved."""
    return data_folder() / "sessions"


def tool_folders(settings: Settings, workspace: Path) -> list[Path]:
    """The folders of Python files with tools; relative ones start from the workspace."""
    return [workspace / folder.expanduser() for folder in settings.tools.folders]


def loaded_folders(settings: Settings, workspace: Path) -> list[Path]:
    """The same, and the workspace's folder of drafts that the user agreed to."""
    return [*tool_folders(settings, workspace), *([workspace / ".ferrule/tools"] if settings.tools.drafts else [])]


def added_folders(settings: Settings, workspace: Path) -> tuple[Path, ...]:
    """The folders that file tools may use besides the workspace; relative ones start there."""
    vaults = (workspace / folder.expanduser() for folder in settings.notes.vaults)
    outside = [folder for folder in vaults if not Path(os.path.normpath(folder)).is_relative_to(workspace)]
    return (*(workspace / folder.expanduser() for folder in settings.files.folders), *outside)


def accounts_of(settings: Settings, workspace: Path) -> Accounts:
    """What the toolbox's tools may use; relative files start from the workspace."""
    vaults = [workspace / folder.expanduser() for folder in settings.notes.vaults]
    if (workspace / ".obsidian").is_dir():
        vaults.append(workspace)
    return Accounts(
        databases=settings.databases,
        mail=settings.mail,
        calendars=settings.calendars,
        credentials=settings.credentials,
        apis={name: replace(one, spec=workspace / one.spec.expanduser()) for name, one in settings.apis.items()},
        web=settings.web,
        vaults=vaults,
        workspace=workspace,
    )


def without_accounts(settings: Settings) -> Settings:
    """The same settings for people who must not use what the user who wrote them may."""
    nothing = Settings()
    return replace(settings, **{name: getattr(nothing, name) for name in _ACCOUNTS})


# Reads settings from their sources, in order, and refuses what a workspace may not decide for the person.


_ENVIRONMENT = "FERRULE_"
_ACCOUNTS = ("databases", "mail", "calendars", "credentials", "apis", "web", "notes")
_THE_PERSONS = (
    "hooks",
    "audit",
    "trusted_folders",
    "trusted_mcp_servers",
    "model",
    "providers",
    "service",
    "remote",
    *_ACCOUNTS,
)
_OF_A_LIST = {
    "hooks": HookSettings,
    "providers": ProviderSettings,
    "mcp_servers": McpServerSettings,
    "databases": DatabaseAccount,
    "mail": MailAccount,
    "calendars": CalendarAccount,
    "credentials": Credential,
    "apis": Api,
}
_OTHER_VARIABLES = {
    "FERRULE_API_KEY",
    "FERRULE_CONFIG",
    "FERRULE_DATA",
    "FERRULE_MCP_TOKEN",
    "FERRULE_PYTHON",
    "FERRULE_TEST_JOBS",
}
_RULES = ("allow", "ask", "deny")
_ADD_UP = (*_RULES, "disabled", "hooks", "trusted_mcp_servers")
# What is opened up adds up too, but an empty list closes all of it again.
_OPENED = ("hosts", "writable", "see")


class SettingsError(ValueError):
    """A setting is wrong; says which file or variable, which key, and what it takes."""


@dataclass(slots=True)
class Loaded:
    """The settings in force, the files they came from, and what was set aside: of the workspace's, and of anyone's."""

    settings: Settings
    files: list[Path]
    set_aside: list[str]
    """What an untrusted workspace asked for and did not get."""
    overruled: list[str]
    """What anyone set looser than the organisation has it."""
    not_the_projects: list[str] = field(default_factory=list[str])
    """What the workspace's file says although only the user's own may, in a trusted folder too."""


def load_settings(workspace: Path, flags: Mapping[str, Any] | None = None) -> Loaded:
    """Settings for a workspace. `flags` is a nested mapping in the files' own form."""
    user_file, project_file = user_settings_file(), workspace / PROJECT_FILE
    organisation_file = organisation_settings_file()
    if os.environ.get("FERRULE_CONFIG") and not user_file.exists():
        raise SettingsError(phrase("FERRULE_CONFIG points to {file}, which does not exist.", file=user_file))
    environment = _from_environment()
    merged: dict[str, Any] = {}
    files: list[Path] = []
    set_aside: list[str] = []
    overruled: list[str] = []
    not_the_projects: list[str] = []
    if organisation := _read(organisation_file):
        files.append(organisation_file)
        _check(organisation, str(organisation_file))
        merged = _sourced(organisation, "organisation", organisation_file)
    if user := _read(user_file):
        files.append(user_file)
        _check(user, str(user_file))
        merged = _merge(merged, _sourced(user, "user", user_file))
    if project := _read(project_file, of_the_workspace=True):
        files.append(project_file)
        asked = _check(project, str(project_file))
        if "unconfined" in project.get("shell", {}):
            not_the_projects.append("shell.unconfined")
            project["shell"] = {key: value for key, value in project["shell"].items() if key != "unconfined"}
        if not is_trusted(workspace, merged.get("trusted_folders", [])):
            project = _narrowed(project, asked, _check(merged, str(user_file)), set_aside)
        merged = _merge(merged, _sourced(project, "project", project_file))
    if not (merged or environment or flags):
        return Loaded(Settings(), files, set_aside, overruled, not_the_projects)
    for given, kind, name in ((environment, "environment", "the environment"), (flags, "flag", "the command line")):
        if given:
            _check(given, name)
            merged = _merge(merged, _sourced(given, kind, None))
    settings = _check(merged, "the settings together")
    if organisation:
        # No user has a looser mode than their organisation, or switches off its questions or sandbox.
        said, permissions = organisation.get("permissions", {}), settings.permissions
        if "mode" in said and LOOSEST_FIRST.index(permissions.mode) < LOOSEST_FIRST.index(said["mode"]):
            overruled.append(f"permissions.mode = {permissions.mode.value!r}")
            permissions.mode = Mode(said["mode"])
        if said.get("dangerous") == "ask" and permissions.dangerous == "allow":
            overruled.append("permissions.dangerous = 'allow'")
            permissions.dangerous = "ask"
        if organisation.get("sandbox", {}).get("enabled") is True and not settings.sandbox.enabled:
            overruled.append("sandbox.enabled = False")
            settings.sandbox.enabled = True
        if organisation.get("shell", {}).get("unconfined") == "ask" and settings.shell.unconfined == "allow":
            overruled.append("shell.unconfined = 'allow'")
            settings.shell.unconfined = "ask"
    return Loaded(settings, files, set_aside, overruled, not_the_projects)


def _sourced(given: Mapping[str, Any], kind: str, file: Path | None) -> dict[str, Any]:
    """The same settings, in which each rule and each server knows where it stands."""
    sourced = dict(given)
    if permissions := given.get("permissions"):
        kept = dict(permissions)
        for key in _RULES:
            if key in kept:
                tables: list[dict[str, Any]] = [one if isinstance(one, dict) else {"rule": one} for one in kept[key]]
                kept[key] = [SourcedRule(**table, kind=kind, file=file) for table in tables]
        sourced["permissions"] = kept
    if servers := given.get("mcp_servers"):
        sourced["mcp_servers"] = {
            name: SourcedServer(**table, kind=kind, file=file) for name, table in dict(servers).items()
        }
    return sourced


def _read(file: Path, *, of_the_workspace: bool = False) -> dict[str, Any]:
    """A file of settings; the person's own may also be a pipe that they made for it."""
    try:
        data = read_given(file) if of_the_workspace else file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(phrase("{path} could not be read: {why}.", path=file, why=error.strerror)) from None
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise SettingsError(phrase("{file} is not UTF-8 text. Save it as UTF-8.", file=file)) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(phrase("{file} is not valid TOML: {error}.", file=file, error=error)) from None


def _from_environment() -> dict[str, Any]:
    """`FERRULE_LIMITS_TIMEOUT=30` is `timeout = 30` under `[limits]`; lists are separated by commas."""
    given: dict[str, Any] = {}
    for variable, text in os.environ.items():
        if not variable.startswith(_ENVIRONMENT) or variable in _OTHER_VARIABLES or not text:
            continue
        path = variable.removeprefix(_ENVIRONMENT).lower()
        here: Any = given
        shape: Any = Settings()
        section, _, key = path.partition("_")
        if is_dataclass(getattr(shape, section, None)) and key:
            shape, here, path = getattr(shape, section), given.setdefault(section, {}), key
        names = [one.name for one in fields(shape)]
        if path not in names:
            raise SettingsError(
                phrase(
                    "{variable} is not a setting. Known settings: {names}.",
                    variable=variable,
                    names=_names_under(shape),
                )
            )
        current = getattr(shape, path)
        here[path] = _listed(text) if isinstance(current, list) else text
    return given


def _listed(text: str) -> list[str]:
    """Parts between commas; a comma in brackets belongs to its rule: `Read(a,b),Bash`."""
    parts, depth = [""], 0
    for character in text:
        depth = max(0, depth + (character == "(") - (character == ")"))
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _names_under(shape: Any) -> str:
    return ", ".join(f"{one.name}" for one in fields(shape))


def is_trusted(workspace: Path, listed: Sequence[object]) -> bool:
    """Whether a folder is one of those that the person listed, or lies in one."""
    from pathlib import Path

    here = workspace.resolve()
    folders = [Path(str(one)).expanduser().resolve() for one in listed]
    return any(here == folder or folder in here.parents for folder in folders)


def _narrowed(project: Mapping[str, Any], asked: Settings, person: Settings, set_aside: list[str]) -> dict[str, Any]:
    """What an untrusted workspace may set, of what it `asked` for; the rest is named in `set_aside`.

    A file inside the workspace can be written by whoever wrote the workspace, an agent included. It may make things
    stricter; what would let more run, or load code, needs the person's word that the folder is trusted.
    """
    kept: dict[str, Any] = {key: project[key] for key in ("lang",) if key in project}
    permissions = dict(project.get("permissions", {}))
    if permissions.pop("allow", None):
        set_aside.append("permissions.allow")
    if permissions.get("dangerous") == "allow" and person.permissions.dangerous != "allow":
        set_aside.append(f"permissions.dangerous = {permissions.pop('dangerous')!r}")
    mode = permissions.get("mode")
    if mode and LOOSEST_FIRST.index(mode) < max(
        LOOSEST_FIRST.index(person.permissions.mode), LOOSEST_FIRST.index(Mode.DEFAULT)
    ):
        set_aside.append(f"permissions.mode = {permissions.pop('mode')!r}")
    kept["permissions"] = permissions
    limits = dict(project.get("limits", {}))
    for key in [key for key, value in limits.items() if value > getattr(person.limits, key)]:
        del limits[key]
        set_aside.append(f"limits.{key}")
    kept["limits"] = limits
    tools = dict(project.get("tools", {}))
    set_aside += [f"tools.{key}" for key in ("folders", "plugins", "drafts", "code") if tools.pop(key, None)]
    if not person.tools.repair and tools.pop("repair", None):
        set_aside.append("tools.repair")
    kept["tools"] = tools
    files = dict(project.get("files", {}))
    set_aside += [f"files.{key}" for key in ("folders", "hard_links") if files.pop(key, None)]
    kept["files"] = files
    sandbox = dict(project.get("sandbox", {}))
    if person.sandbox.enabled and not asked.sandbox.enabled:
        set_aside.append(f"sandbox.enabled = {sandbox.pop('enabled')!r}")
    set_aside += [f"sandbox.{key}" for key in _OPENED if sandbox.get(key) and sandbox.pop(key)]
    kept["sandbox"] = sandbox
    shell = dict(project.get("shell", {}))
    raised = [key for key in ("memory", "processes", "file_size") if shell.pop(key, None) is not None]
    set_aside += [f"shell.{key}" for key in raised] + (["shell.see"] if shell.pop("see", None) else [])
    if asked.shell.look.ignored == "keep" != person.shell.look.ignored and shell.pop("look", None):
        set_aside.append("shell.look.ignored = 'keep'")
    kept["shell"] = shell
    kept["assistant"] = _narrowed_assistant(project.get("assistant", {}), person, set_aside)
    # Servers are kept: each waits for the person's word of its own. But none takes the place of the person's.
    servers = dict(project.get("mcp_servers", {}))
    taken = [name for name in servers if name in person.mcp_servers]
    set_aside += [f"mcp_servers.{name}" for name in taken if servers.pop(name) is not None]
    if servers:
        kept["mcp_servers"] = servers
    # A model is asked with the person's key and money, and sees their files: whose it is, they alone decide.
    set_aside += [key for key in _THE_PERSONS if key in project]
    return kept


def _narrowed_assistant(asked: Mapping[str, Any], person: Settings, set_aside: list[str]) -> dict[str, Any]:
    """A workspace may lower the assistant's limits; what it may use and what is kept of it the person says."""
    kept: dict[str, Any] = {}
    for key, value in asked.items():
        lower = key.startswith("max_") and value and value <= (getattr(person.assistant, key) or float("inf"))
        if lower or (key == "project_words" and not value):
            kept[key] = value
        else:
            set_aside.append(f"assistant.{key}")
    return kept


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The upper source wins, key by key; rules, hooks and what is disabled add up: nobody lifts another's refusal."""
    merged = dict(below)
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge(merged[key], cast("dict[str, Any]", value))
        elif (key in _ADD_UP or (key in _OPENED and value)) and isinstance(merged.get(key), list):
            merged[key] = [*merged[key], *cast("list[Any]", value)]
        else:
            merged[key] = value
    return merged


def _shape_at(place: tuple[int | str, ...]) -> Any:
    """The settings that the last key of a place stands among; those of a list are told by its name."""
    from ferrule.app.service_settings import EntitySettings, WebhookSettings

    shape: Any = Settings()
    in_lists = {**_OF_A_LIST, "webhooks": WebhookSettings, "entities": EntitySettings}
    for part in place:
        if part in in_lists or part in _RULES:
            return in_lists.get(str(part), RuleTable)
        shape = getattr(shape, str(part))
    return shape


@cache
def _settings_adapter() -> TypeAdapter[Settings]:
    """Made once: that takes longer than all the rest of the way."""
    from pydantic import TypeAdapter

    from ferrule.app.service_settings import ServiceSettings as ServiceSettings  # the adapter looks for it here

    return TypeAdapter(Settings)


def _check(given: Mapping[str, Any], source: str) -> Settings:
    from pydantic import ValidationError

    from ferrule.core.nearest import nearest

    try:
        return _settings_adapter().validate_python(dict(given))
    except ValidationError as error:
        found = error.errors(include_url=False)
        unknown = ("unexpected_keyword_argument", "extra_forbidden")
        first = next((one for one in found if one["type"] in unknown), found[0])  # one misspelt is also one missing
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            raise SettingsError(
                phrase("{source}: `{place}` is required, but missing.", source=source, place=place)
            ) from None
        if first["type"] in unknown:
            shape = _shape_at(first["loc"][:-1])
            close = nearest(str(first["loc"][-1]), [one.name for one in fields(shape)], most=1)
            hint = (
                phrase("Did you mean `{name}`?", name=close[0])
                if close
                else phrase("Known settings: {names}.", names=_names_under(shape))
            )
            raise SettingsError(
                phrase("{source}: there is no setting `{place}`. {hint}", source=source, place=place, hint=hint)
            ) from None
        raise SettingsError(
            phrase(
                "{source}: `{place}`: {what}; got {value}.",
                source=source,
                place=place,
                what=first["msg"],
                value=repr(first["input"]),
            )
        ) from None
