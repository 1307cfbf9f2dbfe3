"""Settings, declared once: files, environment and flags are read against these types.

Plain dataclasses, so that a start without any settings imports no validator.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

_STRICT_KEYS = {"extra": "forbid"}


@dataclass(slots=True)
class RuleTable:
    """A rule with examples that are tried when it is loaded: what it must match, and what it must not."""

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    rule: str
    match: list[str] = field(default_factory=list[str])
    no_match: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class SourcedRule(RuleTable):
    """A rule that knows where it was read; files cannot say that of themselves."""

    kind: str = "program"
    file: Path | None = None


@dataclass(slots=True)
class PermissionSettings:
    """What may run, by rules: `Tool` or `Tool(specifier)`. Deny beats ask beats allow, from every source.

    `dangerous` set to "allow" lets dangerous commands run by the same rules as others.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    mode: Literal["default", "plan", "accept-edits", "dont-ask", "bypass"] = "default"
    allow: list[str | RuleTable] = field(default_factory=list[str | RuleTable])
    ask: list[str | RuleTable] = field(default_factory=list[str | RuleTable])
    deny: list[str | RuleTable] = field(default_factory=list[str | RuleTable])
    dangerous: Literal["ask", "allow"] = "ask"


@dataclass(slots=True)
class LimitSettings:
    """Bounds on every call."""

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    timeout: float = 120.0
    result_chars: int = 100_000
    argument_bytes: int = 10_000_000
    concurrency: int = 200


@dataclass(slots=True)
class ToolSettings:
    """Which tools there are besides the built-ins, and which are switched off."""

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    plugins: bool = True
    folders: list[Path] = field(default_factory=list[Path])
    disabled: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class FileSettings:
    """Where file tools may go besides the workspace, and whether they change files that have other names."""

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    folders: list[Path] = field(default_factory=list[Path])
    hard_links: bool = False


@dataclass(slots=True)
class SandboxSettings:
    """What shell commands are confined to: `hosts` they may reach (`example.org`, `*.example.org`), folders besides
    the workspace that are `writable`. Without the sandbox a command may do whatever the person may.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    enabled: bool = True
    hosts: list[str] = field(default_factory=list[str])
    writable: list[Path] = field(default_factory=list[Path])


@dataclass(slots=True)
class LookSettings:
    """What becomes of files that git ignores (caches, build output) when a command made them without approval.

    `session` keeps them aside, where later commands of the session see them; `drop` drops them; `keep` puts them in the
    workspace; `ask` asks as for any other change.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    ignored: Literal["session", "drop", "keep", "ask"] = "session"


@dataclass(slots=True)
class ShellSettings:
    """How commands run before anyone has approved them."""

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    look: LookSettings = field(default_factory=LookSettings)


@dataclass(slots=True)
class HookSettings:
    """A program to ask before or after calls; `command` is the program, then its arguments."""

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

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
class McpServerSettings:
    """A server whose tools are used: a program (`command`, `args`, `env`, `cwd`), or a `url` with `headers`.

    `${NAME}` and `${NAME:-default}` stand for variables, and `${keyring:service/user}` for a secret in the keyring.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

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
class AuditSettings:
    """The audit log: where, how long, and whether a result waits until its record is on disk."""

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    enabled: bool = True
    path: Path | None = None
    keep_days: int = 90
    acknowledge: Literal["queued", "committed"] = "queued"


@dataclass(slots=True)
class AssistantSettings:
    """`ferrule chat` and `ferrule run`. The limits are for one turn, and 0 is no limit.

    `tools` are those the model is shown: names, `all`, or the standard ones and those of plugins where it is empty.
    `project_words` lets it read the `AGENTS.md` and `CLAUDE.md` of a workspace. Sessions are saved and can be resumed
    for `keep_days`.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    tools: list[str] = field(default_factory=list[str])
    max_steps: int = 100
    max_tokens: int = 0
    max_cost: float = 0.0
    max_seconds: float = 0.0
    project_words: bool = True
    save: bool = True
    keep_days: int = 30

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_tokens", "max_cost", "max_seconds", "keep_days"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"`{name}` is 0 for no limit, or a number above it")


@dataclass(slots=True)
class ProviderSettings:
    """A server of models: where it is, in which `form` it speaks, and the variable that holds its key.

    A key itself has no place here: settings are read, copied and shown.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    base_url: str = ""
    form: Literal["", "chat", "responses", "anthropic", "gemini"] = ""
    key_variable: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    context_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.base_url and not self.base_url.startswith(("https://", "http://")):
            raise ValueError("`base_url` begins with https:// or http://")


@dataclass(slots=True)
class ServiceLimitSettings:
    """What a tenant may use where nothing else is said of it; 0 is no limit."""

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    rate: float = 0.0
    burst: int = 0
    concurrency: int = 0
    calls_per_day: int = 0
    argument_bytes: int = 0
    result_bytes: int = 0

    def __post_init__(self) -> None:
        for one in fields(self):
            if not 0 <= getattr(self, one.name) < float("inf"):
                raise ValueError(f"`{one.name}` is 0 for no limit, or a number above it")


@dataclass(slots=True)
class ServiceSettings:
    """`ferrule serve`. `database` is a URL, of a SQLite file in the data folder where it is empty; every user of every
    tenant has a folder of their own under `workspace_root`.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    host: str = "127.0.0.1"
    port: int = 8760
    database: str = field(default="", repr=False)
    workspace_root: Path | None = None
    wait: float = 30.0
    body_bytes: int = 10_000_000
    approval_hours: float = 24.0
    lease_seconds: float = 15.0
    drain_seconds: float = 30.0
    keep_days: float = 30.0
    limits: ServiceLimitSettings = field(default_factory=ServiceLimitSettings)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65_536:
            raise ValueError("`port` is a number from 0 to 65535")
        if not 0 <= self.wait <= 55:
            raise ValueError("`wait` is a number of seconds from 0 to 55")
        for name in ("body_bytes", "approval_hours", "lease_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"`{name}` is a number above 0")
        for name in ("drain_seconds", "keep_days"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"`{name}` is 0 or a number above it")


@dataclass(slots=True)
class Settings:
    """Everything that can be set. A flag comes before the environment, that before the project's file, that before
    the person's file, and that before the default. `model` is the one to ask, as `provider/name`.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

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
    service: ServiceSettings = field(default_factory=ServiceSettings)
    model: str = ""
    providers: dict[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])
