"""Bearer tokens of an OpenID Connect issuer: checked against its keys, and mapped to a tenant, a user and roles.

The issuer says who somebody is; the store says what they may do. A user is known by issuer and subject, whatever they
call themselves, and has the roles that their newest token names.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Literal, cast

from sqlalchemy import insert, select, update

from ferrule.service.directory import grant_roles, note_change, roles_of
from ferrule.service.messages import check_name
from ferrule.service.outgoing import FetchProblem, fetch_json
from ferrule.service.tables import roles, tenants, users
from ferrule.service.vocabulary import SCOPES, TOKEN_KEY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from sqlalchemy import Connection

    from ferrule.app.service_settings import OidcSettings
    from ferrule.service.database import Database
    from ferrule.service.directory import Directory, Principal
    from ferrule.service.writer import GroupWriter

logger = logging.getLogger("ferrule.service")

_DISCOVERY = "/.well-known/openid-configuration"
_MOST_TOKEN = 16_384
_MOST_KEYS = 100
_MOST_KNOWN = 20_000
_REFRESH_SECONDS = 600.0
"""After how long the keys are fetched anew, behind the back of whoever asks."""
_LOOK_AGAIN = 10.0
"""How long an unknown key id, or a failed attempt, keeps the issuer from being asked again."""
_STALE_SECONDS = 24 * 3600.0
"""How long keys are good while the issuer cannot be reached."""
_SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_FAMILIES = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}), "P-256": frozenset({"ES256"}),
    "P-384": frozenset({"ES384"}), "P-521": frozenset({"ES512"}), "Ed25519": frozenset({"EdDSA"}),
}  # fmt: skip


_REFUSED = {
    "ExpiredSignatureError": ("expired_token", "The token has expired. Get a new one."),
    "ImmatureSignatureError": ("bad_token", "The token is not valid yet."),
    "InvalidIssuedAtError": ("bad_token", "The token is not valid yet."),
    "InvalidIssuerError": ("bad_token", "The token is of another issuer."),
    "MissingRequiredClaimError": ("bad_token", "The token has no claim `{claim}`."),
}


class TokenRefused(Exception):  # noqa: N818 - reads as what it says
    """A token that opens nothing: 401 where it is no good, 403 where it is good and does not help, 503 for later."""

    def __init__(self, status: Literal[401, 403, 503], code: str, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.suggestion = suggestion


def looks_like_token(secret: str) -> bool:
    """Whether it has the form of a JSON Web Token; API keys never do."""
    return secret.startswith("ey") and _SHAPE.fullmatch(secret) is not None


@dataclass(slots=True, frozen=True)
class _SigningKey:
    key: Any
    algorithms: frozenset[str]


class KeySet:
    """The issuer's public keys, fetched when they are first needed and kept while the issuer cannot be reached."""

    def __init__(self, load: Callable[[], Awaitable[Any]], allowed: Iterable[str]) -> None:
        """`load` gives the key set as JSON data, or raises `FetchProblem`."""
        self._load = load
        self._allowed = frozenset(allowed)
        self._keys: dict[str, _SigningKey] = {}
        self._unnamed: list[_SigningKey] = []
        self._document: Any = None
        self._good_at = -float("inf")
        self._tried_at = -float("inf")
        self._loading: asyncio.Task[None] | None = None
        self.generation = 0
        """Grows with every change of the keys: what was checked with old ones is checked again."""

    async def find(self, key_id: str | None, algorithm: str) -> Any:
        """The key that a token's head names; raises `TokenRefused`."""
        now = monotonic()
        if now - self._good_at > _REFRESH_SECONDS:
            loading = self._refresh()
            if loading is not None and now - self._good_at > _STALE_SECONDS:
                await asyncio.shield(loading)
        found = self._named(key_id, algorithm)
        if found is None and (loading := self._refresh()) is not None:
            await asyncio.shield(loading)
            found = self._named(key_id, algorithm)
        if monotonic() - self._good_at > _STALE_SECONDS:
            raise TokenRefused(503, "issuer", "The issuer's keys cannot be fetched now. Try again.")
        if found is None:
            raise TokenRefused(401, "bad_token", "The token is not signed with a key of the issuer.")
        return found.key

    def _named(self, key_id: str | None, algorithm: str) -> _SigningKey | None:
        """The key of that id; a token that names none may have any that is the only one for its algorithm."""
        if key_id is not None:
            found = self._keys.get(key_id)
            return found if found is not None and algorithm in found.algorithms else None
        fitting = [one for one in (*self._keys.values(), *self._unnamed) if algorithm in one.algorithms]
        return fitting[0] if len(fitting) == 1 else None

    def _refresh(self) -> asyncio.Task[None] | None:
        """Fetch the keys, for all who want them at once, and not more often than every few seconds."""
        if self._loading is not None and not self._loading.done():
            return self._loading
        if monotonic() - self._tried_at < _LOOK_AGAIN:
            return None
        self._tried_at = monotonic()
        self._loading = asyncio.get_running_loop().create_task(self.load())
        return self._loading

    async def load(self) -> None:
        """Fetch the keys now; those from before stay where that fails."""
        try:
            document = await self._load()
            keys, unnamed = self._read(document)
        except FetchProblem as problem:
            logger.warning("The keys of the OpenID Connect issuer could not be fetched: %s", problem)
            return
        if document != self._document:
            self.generation += 1
        self._document, self._keys, self._unnamed, self._good_at = document, keys, unnamed, monotonic()

    def _read(self, document: Any) -> tuple[dict[str, _SigningKey], list[_SigningKey]]:
        """What may sign, of a key set; shared secrets, keys for encryption and unknown kinds are left out."""
        from jwt import PyJWK, PyJWTError

        listed: Any = cast("dict[str, Any]", document).get("keys") if isinstance(document, dict) else None
        if not isinstance(listed, list):
            raise FetchProblem("it is not a JSON Web Key Set")
        keys: dict[str, _SigningKey] = {}
        unnamed: list[_SigningKey] = []
        for one in cast("list[Any]", listed)[:_MOST_KEYS]:
            given: dict[str, Any] = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
            family = _FAMILIES.get(str(given.get("crv") if given.get("kty") != "RSA" else "RSA"), frozenset[str]())
            usable = family & self._allowed
            if (named := given.get("alg")) is not None:
                usable &= {str(named)}
            signs = given.get("use", "sig") == "sig" and "verify" in given.get("key_ops", ["verify"])
            if not usable or not signs or given.get("kty") not in ("RSA", "EC", "OKP"):
                continue
            try:
                made = _SigningKey(PyJWK(given, min(usable)).key, usable)
            except (PyJWTError, ValueError, TypeError):
                logger.warning("A key of the OpenID Connect issuer cannot be read and is left out")
                continue
            key_id = given.get("kid")
            if isinstance(key_id, str):
                keys[key_id] = made
            else:
                unnamed.append(made)
        return keys, unnamed


def keys_of(settings: OidcSettings) -> KeySet:
    """The keys that the settings name: of a file, of a URL, or wherever the issuer says that they are."""
    place = settings.jwks

    async def load() -> Any:
        if place and "://" not in place:
            return await asyncio.to_thread(read_key_file, place)
        if place:
            return await fetch_json(place)
        return await fetch_json((await discover(settings, "jwks_uri"))["jwks_uri"])

    return KeySet(load, settings.algorithms)


async def discover(settings: OidcSettings, *names: str) -> dict[str, str]:
    """Addresses that the issuer's configuration names; raises `FetchProblem`."""
    found = await fetch_json(settings.issuer.rstrip("/") + _DISCOVERY)
    said = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    for name in names:
        url = said.get(name)
        if not isinstance(url, str) or not url.startswith(("https://", settings.issuer.rstrip("/") + "/")):
            raise FetchProblem(f"the issuer's configuration names no `{name}` with https://")
    return {name: str(said[name]) for name in names}


def read_key_file(place: str) -> Any:
    """The key set in a file; raises `FetchProblem`."""
    try:
        return json.loads(Path(place).expanduser().read_bytes())
    except OSError as error:
        raise FetchProblem(f"{place} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise FetchProblem(f"{place} is not JSON") from None


@dataclass(slots=True, frozen=True)
class TokenClaims:
    """What a good token says, in this service's own terms."""

    issuer: str
    subject: str
    tenant: str
    name: str
    """What the user is to be called; a name that is taken gets a suffix."""
    roles: tuple[str, ...] | None
    """None where roles are given by administrators, not by tokens."""
    scopes: frozenset[str]
    issued: float
    expires: float


@dataclass(eq=False)
class OidcTokens:
    """Finds out who a token speaks for. What it has checked it remembers until the token or the keys are old."""

    settings: OidcSettings
    database: Database
    writer: GroupWriter
    directory: Directory

    def __post_init__(self) -> None:
        self._keys = keys_of(self.settings)
        self._known: dict[bytes, tuple[int, TokenClaims]] = {}
        self._people: dict[TokenClaims, Principal] = {}
        self._generation = -1

    async def principal(self, token: str) -> Principal:
        """Who the token speaks for; raises `TokenRefused`."""
        claims = await self._checked(token)
        self.directory.look_for_changes()
        if self._generation != self.directory.generation or len(self._people) >= _MOST_KNOWN:
            self._people.clear()
            self._generation = self.directory.generation
        found = self._people.get(claims)
        if found is None:
            generation = self.directory.generation
            found = await self._signed_in(claims)
            if generation == self.directory.generation:
                self._people[claims] = found
        return found

    async def _checked(self, token: str) -> TokenClaims:
        hashed = hashlib.sha256(token.encode()).digest()
        known = self._known.get(hashed)
        if known is not None and known[0] == self._keys.generation:
            if known[1].expires + self.settings.leeway > time():
                return known[1]
            del self._known[hashed]
        claims = read_claims(await self._verified(token), self.settings)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[hashed] = self._keys.generation, claims
        return claims

    async def _verified(self, token: str) -> dict[str, Any]:
        import jwt

        settings = self.settings
        if len(token) > _MOST_TOKEN:
            raise TokenRefused(401, "bad_token", f"The token has more than {_MOST_TOKEN:,} characters.")
        try:
            head = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise TokenRefused(401, "bad_token", "The token cannot be read.") from None
        algorithm, key_id = head.get("alg"), head.get("kid")
        if algorithm not in settings.algorithms:
            said = f"The token is signed with `{str(algorithm)[:20]}`; only {', '.join(settings.algorithms)} are taken."
            raise TokenRefused(401, "bad_token", said)
        if head.get("crit") or not (key_id is None or isinstance(key_id, str)):
            raise TokenRefused(401, "bad_token", "The token's head asks for something that is not supported.")
        key = await self._keys.find(key_id, algorithm)
        try:
            return jwt.decode(
                token, key, algorithms=[algorithm], audience=settings.audience, issuer=settings.issuer,
                leeway=settings.leeway, options={"require": ["exp", "iss", "aud", "sub"]},
            )  # fmt: skip
        except jwt.InvalidAudienceError:
            suggestion = f"Ask the issuer for `{settings.audience}`."
            raise TokenRefused(401, "bad_token", "The token is for another audience.", suggestion) from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            claim = getattr(error, "claim", "")
            code, said = _REFUSED.get(
                type(error).__name__, ("bad_token", "The token's signature or form is not valid.")
            )
            raise TokenRefused(401, code, said.format(claim=claim)) from None

    async def _signed_in(self, claims: TokenClaims) -> Principal:
        """The user of a token, made or brought up to date where the token says something new."""
        name, current = await self.database.read(claims.tenant, lambda connection: _member(connection, claims))
        if name is None or not current:

            def change(connection: Connection) -> str:
                made, altered = put_member(connection, claims, self.settings.default_roles)
                if altered:
                    note_change(connection, self.database)
                return made

            name = await self.writer.change(claims.tenant, change)
            self.directory.forget()
        found = await self.directory.user(claims.tenant, name)
        if found is None:
            raise TokenRefused(403, "disabled", f"The user `{name}` is switched off.")
        if not found.roles:
            raise TokenRefused(403, "no_role", "The token names no role that its tenant has.")
        return replace(found, key=TOKEN_KEY, scopes=claims.scopes, expires=claims.expires + self.settings.leeway)


def read_claims(given: Mapping[str, Any], settings: OidcSettings) -> TokenClaims:
    """Tenant, user, roles and scopes of a token that was checked; raises `TokenRefused`."""
    subject = given["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
        raise TokenRefused(401, "bad_token", "The token's claim `sub` is not a name.")
    named = _claim(given, settings.user_claim)
    if not isinstance(named, str) or not named:
        raise _lacking(settings.user_claim, "who the user is")
    moments = [given[name] for name in ("iat", "nbf") if isinstance(given.get(name), (int, float))]
    return TokenClaims(
        issuer=settings.issuer,
        subject=subject,
        tenant=_tenant_of(given, settings),
        name=_user_name(named, settings.issuer, subject),
        roles=_roles_of(given, settings),
        scopes=frozenset(SCOPES).intersection(
            map(str, _listed(given, settings.scope_claim) if settings.scope_claim else SCOPES)
        ),
        issued=float(moments[0] if moments else given["exp"]),
        expires=float(given["exp"]),
    )


def _claim(given: Mapping[str, Any], name: str) -> Any:
    """A claim by its whole name, which may hold dots, or else by the path that they part."""
    if name in given:
        return given[name]
    here: Any = given
    for part in name.split("."):
        here = cast("dict[str, Any]", here).get(part) if isinstance(here, dict) else None
    return here


def _lacking(claim: str, what: str) -> TokenRefused:
    return TokenRefused(
        403, "missing_claim", f"The token does not say {what}: it has no claim `{claim}`.",
        "The issuer must add the claim, or the service's settings must name another.",
    )  # fmt: skip


def _tenant_of(given: Mapping[str, Any], settings: OidcSettings) -> str:
    if settings.tenant:
        return settings.tenant
    said = _claim(given, settings.tenant_claim)
    if not isinstance(said, str) or not said:
        raise _lacking(settings.tenant_claim, "which tenant it is for")
    tenant = settings.tenants.get(said) if settings.tenants else said
    try:
        return check_name(tenant or "")
    except ValueError:
        raise _no_tenant() from None


def _no_tenant() -> TokenRefused:
    return TokenRefused(403, "unknown_tenant", "The token is for a tenant that this service does not have.")


def _roles_of(given: Mapping[str, Any], settings: OidcSettings) -> tuple[str, ...] | None:
    if not settings.roles_claim:
        return None
    named = [one for one in _listed(given, settings.roles_claim) if isinstance(one, str)]
    if settings.roles:
        named = [settings.roles[one] for one in named if one in settings.roles]
    return tuple(dict.fromkeys(named))


def _listed(given: Mapping[str, Any], claim: str) -> list[Any]:
    """What a claim lists: an array, or words."""
    said = _claim(given, claim)
    return said.split() if isinstance(said, str) else cast("list[Any]", said) if isinstance(said, list) else []


def _user_name(said: str, issuer: str, subject: str) -> str:
    """What a user is called here: as the token says where that is a name, else one made from it."""
    try:
        return check_name(said)
    except ValueError:
        return suffixed(said, issuer, subject)


def suffixed(said: str, issuer: str, subject: str) -> str:
    """A name that no other identity gets."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", said.lower()).strip("-_")[:50] or "user"
    identity = hashlib.sha256(json.dumps([issuer, subject]).encode()).hexdigest()
    return f"{plain}-{identity[:12]}"


def _member(connection: Connection, claims: TokenClaims) -> tuple[str | None, bool]:
    """The name of a token's user, and whether what is stored is as new as the token."""
    if connection.execute(select(tenants.c.enabled).where(tenants.c.tenant == claims.tenant)).scalar() is not True:
        raise _no_tenant()
    found = connection.execute(_of_identity(claims)).first()
    return (found.name, found.signed_in >= claims.issued) if found is not None else (None, False)


def _of_identity(claims: TokenClaims) -> Any:
    return select(users).where(
        users.c.tenant == claims.tenant, users.c.issuer == claims.issuer, users.c.subject == claims.subject
    )


def put_member(connection: Connection, claims: TokenClaims, default_roles: Iterable[str]) -> tuple[str, bool]:
    """Make the user of a token, or give them the roles of a newer one; the name, and whether anything changed.

    A user that somebody else made, or that belongs to another identity, is never taken over: the name gets a suffix.
    """
    tenant = claims.tenant
    found = connection.execute(_of_identity(claims)).first()
    there = set(connection.execute(select(roles.c.name).where(roles.c.tenant == tenant)).scalars())
    wanted = [role for role in claims.roles or () if role in there]
    if found is None:
        name = claims.name
        if _is_taken(connection, tenant, name):
            name = suffixed(name, claims.issuer, claims.subject)
        if _is_taken(connection, tenant, name):
            raise TokenRefused(403, "name_taken", f"There is another user `{name}`.")
        connection.execute(
            insert(users).values(
                tenant=tenant, name=name, enabled=True, limits="{}", allow="[]", created=time(),
                issuer=claims.issuer, subject=claims.subject, signed_in=claims.issued,
            )
        )  # fmt: skip
        grant_roles(connection, tenant, name, wanted or [role for role in default_roles if role in there])
        return name, True
    if found.signed_in >= claims.issued:  # an older token does not bring back what a newer one no longer has
        return found.name, False
    mine = (users.c.tenant == tenant) & (users.c.name == found.name)
    connection.execute(update(users).where(mine).values(signed_in=claims.issued))
    if claims.roles is None:
        return found.name, False
    wanted = wanted or [role for role in default_roles if role in there]
    if roles_of(connection, tenant, found.name) == wanted:
        return found.name, False
    grant_roles(connection, tenant, found.name, wanted)
    return found.name, True


def _is_taken(connection: Connection, tenant: str, name: str) -> bool:
    return (
        connection.execute(select(users.c.name).where(users.c.tenant == tenant, users.c.name == name)).first()
        is not None
    )
