"""The settings of `ferrule serve`, a part of all settings (`ferrule.app.settings`)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path  # noqa: TC003 - read at run time by pydantic
from typing import Any, ClassVar

_STRICT_KEYS = {"extra": "forbid"}


def _limit(description: str = "") -> Any:
    return field(default=None, metadata={"description": description} if description else {})


@dataclass
class ToolLimitSettings:
    """What a tenant may use of one tool; 0 is no limit. Messages, forms and options take the limits from here."""

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    rate: float | None = _limit("Calls a second.")
    burst: int | None = _limit("Calls at once above the rate.")
    concurrency: int | None = _limit("Unfinished calls that run.")
    calls_per_day: int | None = _limit()
    argument_bytes: int | None = _limit()
    result_bytes: int | None = _limit()
    spend_per_day: float | None = _limit("Of what calls cost, in UTC.")
    spend_per_month: float | None = _limit()

    def __post_init__(self) -> None:
        for name in LIMITS:
            if not 0 <= (getattr(self, name) or 0) < float("inf"):
                raise ValueError(f"`{name}` is 0 for no limit, or a number above it")


LIMITS = {one.name: int if str(one.type).startswith("int") else float for one in fields(ToolLimitSettings)}
"""Every limit by its name, and whether it is a whole number."""


@dataclass(slots=True)
class ServiceLimitSettings(ToolLimitSettings):
    """What a tenant may use where nothing else is said of it, in all and of single `tools`."""

    tools: dict[str, ToolLimitSettings] = field(default_factory=dict[str, ToolLimitSettings])


@dataclass(slots=True)
class OidcSettings:
    """Tokens of an OpenID Connect issuer, besides API keys. `jwks` is the URL or the file of its keys; without it they
    are found through the issuer. `*_claim` name claims, with dots between the levels of a nested one. `tenants` and
    `roles` translate what a claim says; without them it is taken as it is. `tenant` is the tenant of every token.
    `client_id` is the client that signs users in to the panel, and `client_secret` says where its secret is, if it has
    one: `${NAME}`, `${file:PATH}`, `${command:PROGRAM}` or `${keyring:SERVICE/USER}`.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    issuer: str = ""
    audience: str = ""
    jwks: str = ""
    algorithms: list[str] = field(default_factory=lambda: ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
    tenant: str = ""
    tenant_claim: str = "tenant"
    tenants: dict[str, str] = field(default_factory=dict[str, str])
    user_claim: str = "sub"
    roles_claim: str = "roles"
    roles: dict[str, str] = field(default_factory=dict[str, str])
    default_roles: list[str] = field(default_factory=lambda: ["member"])
    scope_claim: str = ""
    leeway: float = 30.0
    client_id: str = ""
    client_secret: str = ""

    def __post_init__(self) -> None:
        if not self.issuer:
            return
        if not self.audience:
            raise ValueError("`audience` must say whom the tokens are for; without it tokens for others would do")
        for name in ("issuer", "jwks"):
            if "://" in getattr(self, name) and not _is_safe_url(getattr(self, name)):
                raise ValueError(f"`{name}` must be an https:// URL; http:// is for this machine alone")
        if not self.jwks and "://" not in self.issuer:
            raise ValueError("`jwks` must name the issuer's keys where `issuer` is not a URL")
        if not self.algorithms or not set(self.algorithms) <= ASYMMETRIC:
            raise ValueError(f"`algorithms` are some of {', '.join(sorted(ASYMMETRIC))}")
        if not 0 <= self.leeway <= 300:
            raise ValueError("`leeway` is a number of seconds from 0 to 300")
        if self.client_secret:
            from ferrule.process.references import require_reference  # settings are read at every start

            require_reference("client_secret", self.client_secret)


ASYMMETRIC = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)  # fmt: skip
"""How a token may be signed. A secret that both sides share would let whoever can check a token make one."""


@dataclass(slots=True)
class WebhookSettings:
    """Where a tenant hears of new approvals. `secret` says where the signing key is: `${NAME}`,
    `${file:PATH}`, `${command:PROGRAM}` or `${keyring:SERVICE/USER}`.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    url: str
    secret: str

    def __post_init__(self) -> None:
        if not _is_safe_url(self.url):
            raise ValueError("`url` must be an https:// URL; http:// is for this machine alone")
        from ferrule.process.references import require_reference

        require_reference("secret", self.secret)


def _is_safe_url(url: str) -> bool:
    """Whether nobody on the way can read or change what goes there: TLS, or this machine."""
    from urllib.parse import urlsplit  # settings are read at every start

    from ferrule.core.http_fetch import is_local

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_local(host)))


@dataclass(slots=True)
class EntitySettings:
    """Something that intents read and change: a pydantic `model` as `package.module:Class`, whose rows the service
    keeps itself, or a `table` of the database at `url`, or at the URL in the variable `url_variable`.

    `tenant_column` holds whose row it is; without one, `tenants` names those who may have all of the table. `roles`
    are those it is for (empty: every role), and `hidden` are columns that nobody is shown.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    model: str = ""
    url: str = field(default="", repr=False)
    url_variable: str = ""
    table: str = ""
    key: str = "id"
    description: str = ""
    tenant_column: str = ""
    tenants: list[str] = field(default_factory=list[str])
    roles: list[str] = field(default_factory=list[str])
    hidden: list[str] = field(default_factory=list[str])
    writable: bool = False


@dataclass(slots=True)
class AnswerSettings:
    """Answers to requests in words. `model` is the one to ask, else the top-level one; `seconds` bounds a request.

    `cache_seconds` is how long an answer made of read-only calls may be used again (0: never). `similar` asks the model
    whether a similar question asks the same.
    """

    __pydantic_config__: ClassVar[Any] = _STRICT_KEYS

    model: str = ""
    seconds: float = 300.0
    cache_seconds: float = 300.0
    similar: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ValueError("`seconds` must be above 0")
        if not 0 <= self.cache_seconds < float("inf"):
            raise ValueError("`cache_seconds` must be 0 or above")


@dataclass(slots=True)
class ServiceSettings:
    """`ferrule serve`. `database` is a URL, of a SQLite file in the data folder where it is empty; every user of every
    tenant has a folder of their own under `workspace_root`. `public_url` is how clients reach the service.
    `share_accounts` lets all tenants use the databases, mail, calendars, credentials and APIs of these settings.
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
    audit_days: float = 0.0
    public_url: str = ""
    share_accounts: bool = False
    limits: ServiceLimitSettings = field(default_factory=ServiceLimitSettings)
    oidc: OidcSettings = field(default_factory=OidcSettings)
    webhooks: dict[str, WebhookSettings] = field(default_factory=dict[str, WebhookSettings])
    answers: AnswerSettings = field(default_factory=AnswerSettings)
    entities: dict[str, EntitySettings] = field(default_factory=dict[str, EntitySettings])

    def __post_init__(self) -> None:
        self.public_url = self.public_url.rstrip("/")
        if self.public_url and not self.public_url.startswith(("https://", "http://")):
            raise ValueError("`public_url` begins with https:// or http://")
        if not 0 <= self.port < 65_536:
            raise ValueError("`port` is a number from 0 to 65535")
        if not 0 <= self.wait <= 55:
            raise ValueError("`wait` is a number of seconds from 0 to 55")
        for name in ("body_bytes", "approval_hours", "lease_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"`{name}` is a number above 0")
        if self.audit_days and not 1 <= self.audit_days < float("inf"):
            raise ValueError("`audit_days` is 0 to keep all, or 1 or more")
        for name in ("drain_seconds", "keep_days"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"`{name}` is 0 or a number above it")
