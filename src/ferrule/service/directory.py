"""Who there is: tenants, their users, roles and API keys; and who a key speaks for.

The functions at the end work on a connection, for the service and for the command line alike. `Directory` keeps what
it has read until anything changes, on whichever instance: PostgreSQL notifies, and SQLite is asked for its count of
changes before every request.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isfinite, nan
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sqlalchemy import delete, insert, select, tuple_, update

from ferrule.pipeline.authorise import Verdict
from ferrule.policy import RuleError
from ferrule.policy.rules import parse_rules
from ferrule.service.documents import shown_time
from ferrule.service.messages import KeyRequest, RoleBody, TenantRequest, UserRequest, check_name
from ferrule.service.tables import api_keys, audit_heads, changes, grants, intents, key_hashes, roles, tenants, users
from ferrule.service.vocabulary import ADMIN, AREAS, SCOPES, TOKEN_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import BaseModel
    from sqlalchemy import Connection, Row, Select, Table

    from ferrule.service.database import Database
    from ferrule.service.messages import RotateRequest, TenantChange, UserChange

Document: TypeAlias = dict[str, Any]
"""As `messages` declares it for readers."""
SECRET_PREFIX = "fk_"  # noqa: S105 - how a secret begins
_SECRET_BYTES = 32
_HINT = 8
MOST_LISTED = 50
"""Tenants, users or keys of a page, unless another number is given."""
_MOST_CACHED = 50_000
_MARKS = secrets.token_bytes(32)
_LOOK_SECONDS = 0.02
"""How old what is known of a SQLite file may be; the command line takes longer than that to end after its change."""

CALLER_GONE = "The API key of this call is revoked or expired, or its user is gone or switched off."
ADMIN_ROLE = "admin"
MEMBER_ROLE = "member"
FIRST_TENANT = "default"
FIRST_USER = "admin"


class DirectoryProblem(Exception):  # noqa: N818 - reads as what it says
    """Something that is asked of the directory cannot be done."""

    def __init__(self, kind: Literal["not_found", "conflict", "invalid"], message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(slots=True, frozen=True)
class RoleRules:
    """A role's rules, as text."""

    name: str
    mode: str | None
    allow: tuple[str, ...]
    ask: tuple[str, ...]
    deny: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Principal:
    """Who makes a request, as the credential says; read anew whenever anything about them changes."""

    tenant: str
    user: str
    key: str
    scopes: frozenset[str]
    roles: tuple[RoleRules, ...]
    always: tuple[str, ...]
    """Rules that approvals with `always` added for this user."""
    operator: bool
    disabled_tools: frozenset[str]
    limits: tuple[tuple[str, Mapping[str, Any]], ...]
    """Limits by whose they are, the most specific first: `key`, `user`, `tenant`."""
    expires: float | None
    intents: tuple[Row[Any], ...] = ()
    """The current intents of the tenant that are switched on."""

    @property
    def role_names(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles)


class Directory:
    """Finds out who a secret belongs to, and remembers it until something changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[bytes, Principal | None] = {}
        self._by_user: dict[tuple[str, str, str, str | None], Principal | None] = {}
        self.generation = 0
        """Grows with every change that was heard of; what was derived from a principal is good until then."""
        self.on_change: Callable[[], None] = lambda: None
        """Hears of every change, on the event loop."""
        self._seen = -1
        self._look_at = 0.0
        self._counter: sqlite3.Connection | None = None
        if database.is_sqlite:
            self._counter = sqlite3.connect(
                f"file:{database.url.database}?mode=ro", uri=True, check_same_thread=False, isolation_level=None
            )

    def close(self) -> None:
        if self._counter is not None:
            self._counter.close()

    def forget(self) -> None:
        """Read everything anew: something changed."""
        self._known.clear()
        self._by_user.clear()
        self.generation += 1
        self.on_change()

    def look_for_changes(self) -> None:
        """Notice what the last transaction of this instance saw. On SQLite also look, every few milliseconds."""
        if self._counter is None:
            self.noticed(self._database.changes_seen[0])
        elif (now := monotonic()) >= self._look_at:
            count, at = self._database.changes_seen  # by whoever wrote last, as somebody does all the time under load
            if now - at >= _LOOK_SECONDS:
                count, at = self._counter.execute("SELECT count FROM changes").fetchone()[0], now
            self._look_at = at + _LOOK_SECONDS
            self.noticed(count)

    async def look_now(self) -> None:
        """Notice every change that was committed before this moment, whichever instance made it."""
        if self._counter is None:
            self.noticed(await self._database.read(None, read_changes))
        else:
            self.noticed(self._counter.execute("SELECT count FROM changes").fetchone()[0])

    def noticed(self, count: int) -> None:
        """What a look at the database found; heals a notification that was missed."""
        if count > self._seen:
            self._seen = count
            self.forget()

    def is_outdated(self, principal: Principal, generation: int) -> bool:
        """Whether what was known of somebody at that generation may not hold any more."""
        self.look_for_changes()
        return generation != self.generation or (principal.expires is not None and principal.expires <= time())

    def known(self, header: bytes | None) -> Principal | None:
        """Whom the secret in a header speaks for, where it was read already and nothing has changed since."""
        self.look_for_changes()
        if header is None or header[:7].lower() != b"bearer ":
            return None
        found = self._known.get(_mark_of(header[7:]))
        return found if found is not None and (found.expires is None or found.expires > time()) else None

    async def principal(self, secret: str) -> Principal | None:
        """Who this secret speaks for; None when nobody, or no longer."""
        self.look_for_changes()
        hashed, mark = hash_secret(secret), _mark_of(secret.encode())
        return await self._kept(self._known, mark, None, lambda connection: self._by_secret(connection, hashed))

    async def _kept(
        self, kept: dict[Any, Principal | None], mark: Any, tenant: str | None,
        read: Callable[[Connection], Principal | None],
    ) -> Principal | None:  # fmt: skip
        """Somebody as they were read before, or are now; None once their credential has expired."""
        found = kept.get(mark, _UNREAD)
        if found is _UNREAD:
            generation = self.generation
            found = await self._database.read(tenant, read)
            if generation == self.generation:
                if len(kept) >= _MOST_CACHED:  # keys that nobody has must not keep good ones out
                    kept.clear()
                found = kept.setdefault(mark, found)  # others may have read it meanwhile; one is everybody's
        return None if found is None or (found.expires is not None and found.expires <= time()) else found

    async def of_call(self, row: Mapping[str, Any]) -> Principal | None:
        """Who a call speaks for that goes on without its request: its user as they are now, with the scopes and limits
        of its key. None where the key is revoked or expired. A token may expire before its call begins.
        """
        return await self.user(row["tenant"], row["user"], row["key"], row["scopes"])

    async def user(self, tenant: str, user: str, key: str = "", scopes: str | None = None) -> Principal | None:
        self.look_for_changes()
        return await self._kept(
            self._by_user,
            (tenant, user, key, scopes),
            tenant,
            lambda connection: _read_with_key(connection, tenant, user, key, scopes),
        )

    async def renewed(self, principal: Principal) -> Principal | None:
        """Who a credential that was good speaks for now, for what outlives its request; None when nobody any more."""
        tenant = principal.tenant

        def read(connection: Connection) -> Principal | None:
            mine = (api_keys.c.tenant == tenant) & (api_keys.c.id == principal.key)
            key = connection.execute(select(api_keys).where(mine)).first()
            if key is not None and (key.revoked or (key.expires is not None and key.expires <= time())):
                return None
            found = read_principal(connection, tenant, principal.user, key, principal.expires)
            if found is None or key is not None:
                return found
            return replace(found, key=principal.key, scopes=principal.scopes)

        if principal.expires is not None and principal.expires <= time():
            return None
        return await self._database.read(tenant, read)

    def _by_secret(self, connection: Connection, hashed: str) -> Principal | None:
        found = connection.execute(select(key_hashes).where(key_hashes.c.hash == hashed)).first()
        if found is None or (found.expires is not None and found.expires <= time()):
            return None
        self._database.speak_for(connection, found.tenant)
        key = connection.execute(
            select(api_keys).where(api_keys.c.tenant == found.tenant, api_keys.c.id == found.key)
        ).first()
        if key is None or key.revoked:
            return None
        expires = [moment for moment in (found.expires, key.expires) if moment is not None]
        return read_principal(connection, found.tenant, key.user, key, min(expires, default=None))


_UNREAD: Any = object()
current_call: ContextVar[Mapping[str, Any]] = ContextVar("ferrule_call")
"""The stored call that a tool runs for; what it calls in turn has no row of its own."""


def _read_with_key(connection: Connection, tenant: str, user: str, key: str, scopes: str | None) -> Principal | None:
    if key in ("", TOKEN_KEY):
        found = read_principal(connection, tenant, user)
        if found is None or scopes is None:
            return found
        return replace(found, key=key, scopes=frozenset(scopes.split()))
    mine = (api_keys.c.tenant == tenant) & (api_keys.c.id == key)
    held = connection.execute(select(api_keys).where(mine)).first()
    if held is None or held.revoked:
        return None
    return read_principal(connection, tenant, user, held, held.expires)


def read_principal(
    connection: Connection, tenant: str, user: str, key: Row[Any] | None = None, expires: float | None = None
) -> Principal | None:
    """A user with all that holds for them; None where user or tenant are gone or switched off."""
    home = connection.execute(select(tenants).where(tenants.c.tenant == tenant)).first()
    person = connection.execute(select(users).where(users.c.tenant == tenant, users.c.name == user)).first()
    if home is None or person is None or not home.enabled or not person.enabled:
        return None
    given = connection.execute(
        select(roles)
        .join(grants, (grants.c.tenant == roles.c.tenant) & (grants.c.role == roles.c.name))
        .where(grants.c.tenant == tenant, grants.c.user == user)
        .order_by(grants.c.position)
    )
    layers = [("user", person.limits), ("tenant", home.limits)]
    if key is not None:
        layers.insert(0, ("key", key.limits))
    return Principal(
        tenant=tenant,
        user=user,
        key=key.id if key is not None else "",
        scopes=frozenset(json.loads(key.scopes) if key is not None else SCOPES),
        roles=tuple(role_rules(row) for row in given),
        always=tuple(json.loads(person.allow)),
        operator=home.operator,
        disabled_tools=frozenset(json.loads(home.disabled_tools)),
        limits=tuple((whose, json.loads(text)) for whose, text in layers),
        expires=expires,
        intents=tuple(
            connection.execute(select(intents).where(intents.c.tenant == tenant, intents.c.current, intents.c.enabled))
        ),
    )


def role_rules(row: Row[Any]) -> RoleRules:
    return RoleRules(
        row.name, row.mode, tuple(json.loads(row.allow)), tuple(json.loads(row.ask)), tuple(json.loads(row.deny))
    )


def _mark_of(secret: bytes) -> bytes:
    """What a secret is remembered by; quicker than what the database knows it by."""
    return hashlib.blake2s(secret, key=_MARKS).digest()


def hash_secret(secret: str) -> str:
    """A fast hash is right here: the secret is 256 random bits, which nobody guesses."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_secret() -> str:
    return SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


# Changes. Each is one transaction for the tenant that it is about.


def note_change(connection: Connection, database: Database) -> None:
    """Have every instance read anew; the last step of each change."""
    connection.execute(update(changes).values(count=changes.c.count + 1))
    database.notify(connection, "changed")


def read_changes(connection: Connection) -> int:
    return connection.execute(select(changes.c.count)).scalar_one()


def prepare_first_start(connection: Connection, database: Database) -> str | None:
    """On an empty database make the first tenant, its administrator and a key; gives the secret, which is not kept."""
    if connection.execute(select(tenants.c.tenant).limit(1)).first() is not None:
        return None
    create_tenant(connection, TenantRequest(name=FIRST_TENANT), operator=True)
    create_user(connection, FIRST_TENANT, UserRequest(name=FIRST_USER, roles=[ADMIN_ROLE]))
    secret = create_key(connection, FIRST_TENANT, KeyRequest(user=FIRST_USER, name="first start"))["secret"]
    note_change(connection, database)
    return secret


# What the endpoints and the commands do. Each takes the request's message and gives what the answer holds.


def create_tenant(connection: Connection, said: TenantRequest, *, operator: bool = False) -> Document:
    """A tenant with two roles to begin with: `admin` and `member`."""
    tenant = said.name
    if connection.execute(select(tenants.c.tenant).where(tenants.c.tenant == tenant)).first() is not None:
        raise DirectoryProblem("conflict", f"There is a tenant `{tenant}` already.")
    values = _columns(said, "name")
    connection.execute(
        insert(tenants).values(
            tenant=tenant, operator=operator, enabled=True, disabled_tools="[]", created=time(), **values
        )
    )
    connection.execute(insert(audit_heads).values(tenant=tenant, seq=0, hash=""))
    put_role(connection, tenant, ADMIN_ROLE, RoleBody(allow=[ADMIN]))
    put_role(connection, tenant, MEMBER_ROLE, RoleBody())
    return show_tenant(connection, tenant)


def _find(table: Table, column: str, what: str, connection: Connection, tenant: str, name: str) -> Row[Any]:
    mine = (table.c.tenant == tenant) & (table.c[column] == name)
    found = connection.execute(select(table).where(mine)).first()
    if found is None:
        raise DirectoryProblem("not_found", f"There is no {what} `{name}`.")
    return found


find_user = partial(_find, users, "name", "user")
find_role = partial(_find, roles, "name", "role")
find_key = partial(_find, api_keys, "id", "key")


def find_tenant(connection: Connection, tenant: str) -> Row[Any]:
    return _find(tenants, "tenant", "tenant", connection, tenant, tenant)


def show_tenant(connection: Connection, tenant: str) -> Document:
    return _tenant_document(find_tenant(connection, tenant))


def list_tenants(connection: Connection, cursor: str = "", most: int = MOST_LISTED) -> Document:
    found = select(tenants).where(tenants.c.tenant > cursor).order_by(tenants.c.tenant)
    rows, following = _page(connection, found, most)
    return {"tenants": [_tenant_document(row) for row in rows], "next": following and following.tenant}


def _page(connection: Connection, query: Select[Any], most: int) -> tuple[Sequence[Row[Any]], Row[Any] | None]:
    """The first rows, and the last of them where there are more: the next page begins after it."""
    found = connection.execute(query.limit(most + 1)).all()
    return found[:most], found[most - 1] if len(found) > most else None


def _tenant_document(row: Row[Any]) -> Document:
    return {
        "name": row.tenant, "display_name": row.display_name, "operator": row.operator, "enabled": row.enabled,
        "limits": json.loads(row.limits), "disabled_tools": json.loads(row.disabled_tools),
        "audit_days": row.audit_days, "created_at": shown_time(row.created),
    }  # fmt: skip


def change_tenant(connection: Connection, tenant: str, said: TenantChange) -> Document:
    if find_tenant(connection, tenant).operator and said.enabled is False:
        raise DirectoryProblem("conflict", f"`{tenant}` manages the other tenants and cannot be switched off.")
    _update(connection, tenants, tenants.c.tenant == tenant, _columns(said))
    return show_tenant(connection, tenant)


def switch_tool(connection: Connection, tenant: str, tool: str, *, enabled: bool) -> None:
    """Hide a tool from one tenant, or show it again."""
    disabled = set(json.loads(find_tenant(connection, tenant).disabled_tools))
    disabled = disabled - {tool} if enabled else disabled | {tool}
    _update(connection, tenants, tenants.c.tenant == tenant, {"disabled_tools": json.dumps(sorted(disabled))})


def create_user(connection: Connection, tenant: str, said: UserRequest) -> Document:
    find_tenant(connection, tenant)
    mine = (users.c.tenant == tenant) & (users.c.name == said.name)
    if connection.execute(select(users.c.name).where(mine)).first():
        raise DirectoryProblem("conflict", f"There is a user `{said.name}` already.")
    values = _columns(said, "roles")
    connection.execute(insert(users).values(tenant=tenant, enabled=True, allow="[]", created=time(), **values))
    grant_roles(connection, tenant, said.name, said.roles)
    return show_user(connection, tenant, said.name)


def show_user(connection: Connection, tenant: str, user: str) -> Document:
    return _user_document(find_user(connection, tenant, user), roles_of(connection, tenant, user))


def list_users(connection: Connection, tenant: str, cursor: str = "", most: int = MOST_LISTED) -> Document:
    """Users with their roles, by name."""
    found = select(users).where(users.c.tenant == tenant, users.c.name > cursor).order_by(users.c.name)
    rows, following = _page(connection, found, most)
    granted: dict[str, list[str]] = {}
    theirs = (grants.c.tenant == tenant) & grants.c.user.in_([row.name for row in rows])
    for row in connection.execute(select(grants).where(theirs).order_by(grants.c.position)):
        granted.setdefault(row.user, []).append(row.role)
    listed = [_user_document(row, granted.get(row.name, [])) for row in rows]
    return {"users": listed, "next": following and following.name}


def _user_document(row: Row[Any], given: list[str]) -> Document:
    return {
        "name": row.name, "roles": given, "enabled": row.enabled, "limits": json.loads(row.limits),
        "allow": json.loads(row.allow), "created_at": shown_time(row.created),
    }  # fmt: skip


def roles_of(connection: Connection, tenant: str, user: str) -> list[str]:
    found = select(grants.c.role).where(grants.c.tenant == tenant, grants.c.user == user)
    return list(connection.execute(found.order_by(grants.c.position)).scalars())


def change_user(connection: Connection, tenant: str, user: str, said: UserChange) -> Document:
    find_user(connection, tenant, user)
    _check_rules(said.allow or (), Verdict.ALLOW)
    _update(connection, users, (users.c.tenant == tenant) & (users.c.name == user), _columns(said, "roles"))
    if said.roles is not None:
        grant_roles(connection, tenant, user, said.roles)
    return show_user(connection, tenant, user)


def delete_user(connection: Connection, tenant: str, user: str) -> None:
    """Remove a user and their keys. Their calls and audit rows stay."""
    find_user(connection, tenant, user)
    held = select(api_keys.c.id).where(api_keys.c.tenant == tenant, api_keys.c.user == user)
    connection.execute(delete(key_hashes).where(key_hashes.c.tenant == tenant, key_hashes.c.key.in_(held)))
    for table, column in ((api_keys, api_keys.c.user), (grants, grants.c.user), (users, users.c.name)):
        connection.execute(delete(table).where(table.c.tenant == tenant, column == user))


def put_role(connection: Connection, tenant: str, role: str, said: RoleBody) -> Document:
    """Make a role, or replace its rules; a rule that could never match is refused."""
    try:
        check_name(role)
    except ValueError as error:
        raise DirectoryProblem("invalid", f"`{role}` cannot name a role: it {error}.") from None
    check_role_rules(said.allow, said.ask, said.deny)
    mine = (roles.c.tenant == tenant) & (roles.c.name == role)
    values = {"mode": None, **_columns(said)}
    if not connection.execute(update(roles).where(mine).values(**values)).rowcount:
        connection.execute(insert(roles).values(tenant=tenant, name=role, **values))
    return show_role(connection, tenant, role)


def check_role_rules(allow: Sequence[str], ask: Sequence[str], deny: Sequence[str]) -> None:
    """Refuse rules that could never match; raises `DirectoryProblem`."""
    for verdict, texts in ((Verdict.ALLOW, allow), (Verdict.ASK, ask), (Verdict.DENY, deny)):
        _check_rules(texts, verdict)


def show_role(connection: Connection, tenant: str, role: str) -> Document:
    return asdict(role_rules(find_role(connection, tenant, role)))


def list_roles(connection: Connection, tenant: str) -> Document:
    found = connection.execute(select(roles).where(roles.c.tenant == tenant).order_by(roles.c.name))
    return {"roles": [asdict(role_rules(row)) for row in found]}


def delete_role(connection: Connection, tenant: str, role: str) -> None:
    find_role(connection, tenant, role)
    held = select(grants.c.user).where(grants.c.tenant == tenant, grants.c.role == role).order_by(grants.c.user)
    if holders := list(connection.execute(held).scalars()):
        listed = ", ".join(f"`{name}`" for name in holders[:5])
        raise DirectoryProblem("conflict", f"The role `{role}` is held by {listed}. Give them another role first.")
    connection.execute(delete(roles).where(roles.c.tenant == tenant, roles.c.name == role))


def create_key(connection: Connection, tenant: str, said: KeyRequest) -> Document:
    """A key of a user, with its secret, which is kept nowhere."""
    find_user(connection, tenant, said.user)
    secret, key_id, now = new_secret(), secrets.token_hex(8), time()
    scopes = json.dumps([scope for scope in SCOPES if scope in said.scopes])
    values = _columns(said, "scopes", "expires_in", "tenant")
    connection.execute(
        insert(api_keys).values(
            tenant=tenant, id=key_id, scopes=scopes, revoked=False, hint=secret[:_HINT], created=now,
            expires=None if said.expires_in is None else now + said.expires_in, **values,
        )
    )  # fmt: skip
    connection.execute(insert(key_hashes).values(hash=hash_secret(secret), tenant=tenant, key=key_id, expires=None))
    return {**show_key(connection, tenant, key_id), "secret": secret}


def show_key(connection: Connection, tenant: str, key: str) -> Document:
    return _key_document(find_key(connection, tenant, key))


def list_keys(connection: Connection, tenant: str, cursor: str = "", most: int = MOST_LISTED) -> Document:
    """Keys, the oldest first."""
    found = select(api_keys).where(api_keys.c.tenant == tenant).order_by(api_keys.c.created, api_keys.c.id)
    if cursor:
        created, _, key = cursor.partition("_")
        try:
            moment = float(created)
        except ValueError:
            moment = nan
        if not key or not isfinite(moment):
            raise DirectoryProblem("invalid", f"`{cursor}` is not a cursor of the list of keys.")
        found = found.where(tuple_(api_keys.c.created, api_keys.c.id) > tuple_(moment, key))
    rows, following = _page(connection, found, most)
    listed = [_key_document(row) for row in rows]
    return {"keys": listed, "next": following and f"{following.created!r}_{following.id}"}


def _key_document(row: Row[Any]) -> Document:
    return {
        "id": row.id, "user": row.user, "name": row.name, "scopes": json.loads(row.scopes), "hint": row.hint,
        "limits": json.loads(row.limits), "created_at": shown_time(row.created),
        "expires_at": shown_time(row.expires), "revoked": row.revoked,
    }  # fmt: skip


def rotate_key(connection: Connection, tenant: str, key: str, said: RotateRequest) -> Document:
    """A new secret for a key. The old one works for `overlap` seconds more, so that nobody is cut off."""
    if find_key(connection, tenant, key).revoked:
        raise DirectoryProblem("conflict", f"The key `{key}` is revoked. Create another one.")
    mine = (key_hashes.c.tenant == tenant) & (key_hashes.c.key == key)
    until = time() + said.overlap
    if said.overlap > 0:
        still_good = key_hashes.c.expires.is_(None) | (key_hashes.c.expires > until)
        connection.execute(update(key_hashes).where(mine & still_good).values(expires=until))
    else:
        connection.execute(delete(key_hashes).where(mine))
    secret = new_secret()
    connection.execute(insert(key_hashes).values(hash=hash_secret(secret), tenant=tenant, key=key, expires=None))
    whose = (api_keys.c.tenant == tenant) & (api_keys.c.id == key)
    connection.execute(update(api_keys).where(whose).values(hint=secret[:_HINT]))
    return {**show_key(connection, tenant, key), "secret": secret}


def revoke_key(connection: Connection, tenant: str, key: str) -> Document:
    """End a key at once. It stays listed, so that its audit rows can be understood."""
    find_key(connection, tenant, key)
    connection.execute(delete(key_hashes).where(key_hashes.c.tenant == tenant, key_hashes.c.key == key))
    whose = (api_keys.c.tenant == tenant) & (api_keys.c.id == key)
    connection.execute(update(api_keys).where(whose).values(revoked=True))
    return show_key(connection, tenant, key)


def grant_roles(connection: Connection, tenant: str, user: str, given: Sequence[str]) -> None:
    """Give a user these roles, in place of those from before."""
    connection.execute(delete(grants).where(grants.c.tenant == tenant, grants.c.user == user))
    for position, role in enumerate(dict.fromkeys(given)):
        find_role(connection, tenant, role)
        connection.execute(insert(grants).values(tenant=tenant, user=user, role=role, position=position))


def _update(connection: Connection, table: Any, which: Any, values: Mapping[str, Any]) -> None:
    if values:
        connection.execute(update(table).where(which).values(**values))


def _columns(said: BaseModel, *others: str) -> dict[str, Any]:
    """What a message says, as the columns of the same names hold it; `others` are no columns."""
    given = said.model_dump(mode="json", exclude_none=True, exclude={*others})
    return {name: json.dumps(value) if isinstance(value, (list, dict)) else value for name, value in given.items()}


def _check_rules(texts: Sequence[str], verdict: Verdict) -> None:
    """Refuse a rule that could never match, about administration too."""
    try:
        rules = parse_rules(texts, verdict)
    except RuleError as error:
        raise DirectoryProblem("invalid", str(error)) from None
    for rule in rules:
        if rule.tool != ADMIN:
            continue
        if verdict is Verdict.ASK:
            raise DirectoryProblem("invalid", f"The rule `{rule.text}` cannot work: administration never asks.")
        if rule.command is not None and not any(rule.command.matches_text(area) for area in AREAS):
            said = f"The rule `{rule.text}` cannot work: there is {', '.join(f'`{area}`' for area in AREAS)}."
            raise DirectoryProblem("invalid", said)
