"""Tokens of an OpenID Connect issuer: only good ones open anything, and only what they are for."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from ferrule.app.service_settings import OidcSettings
from ferrule.client import ServiceError
from ferrule.service import oidc
from ferrule.service.messages import check_name
from ferrule.service.oidc import TokenRefused, _user_name, read_claims
from tests.service.issuer import AUDIENCE, Issuer, issuing, rsa_key
from tests.service.serving import Running, running


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as made:
        yield made


def trusting(issuer: Issuer, **settings: Any) -> OidcSettings:
    return OidcSettings(issuer=issuer.url, audience=AUDIENCE, **settings)


async def refused(service: Running, token: str) -> httpx2.Response:
    http = await service.http(token)
    return await http.get("/v1/me")


def encoded(part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


async def test_a_token_speaks_for_a_tenant_a_user_and_roles(store: str, tmp_path: Path, issuer: Issuer) -> None:
    async with running(store, tmp_path, oidc=trusting(issuer)) as service:
        await service.tenant("acme")
        for kid in ("rsa", "ec", "ed"):
            client = await service.client(issuer.token(kid, tenant="acme", sub="ann", roles=["admin", "nobody"]))
            me = await client.me()
            assert (me.tenant, me.user, me.roles, me.key) == ("acme", "ann", ["admin"], "oidc")
            assert (await client.call("who")).result.data["tenant"] == "acme"  # type: ignore[union-attr]
        assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]
        assert (await client.users())[0].name == "ann"
        assert {row["user"] for row in (await client.audit()).rows} == {"ann"}


async def test_every_bad_token_is_a_401_that_says_why(tmp_path: Path, issuer: Issuer) -> None:
    """`alg: none`, HS256 with the public key, expired, not yet valid, wrong issuer and audience, foreign keys."""
    now = int(time())
    public = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, claims, signature = issuer.token().split(".")
    secret_head = encoded({"alg": "HS256", "kid": "rsa", "typ": "JWT"})
    import hashlib
    import hmac

    signed = hmac.new(public, f"{secret_head}.{claims}".encode(), hashlib.sha256).digest()
    confused = f"{secret_head}.{claims}.{base64.urlsafe_b64encode(signed).rstrip(b'=').decode()}"
    forged = jwt.encode(issuer.claims(), rsa_key(1), "RS256", headers={"kid": "rsa"})
    bad = {
        "none": f"{encoded({'alg': 'none'})}.{claims}.",
        "None": f"{encoded({'alg': 'NoNe', 'kid': 'rsa'})}.{claims}.{signature}",
        "confused": confused,
        "forged": forged,
        "own key": jwt.encode(
            issuer.claims(), rsa_key(1), "RS256", headers={"kid": "x", "jwk": issuer.public("rsa"), "jku": issuer.url}
        ),
        "swapped": f"{head}.{encoded(issuer.claims(sub='root'))}.{signature}",
        "other algorithm": jwt.encode(issuer.claims(), rsa_key(), "RS512", headers={"kid": "rsa"}),
        "critical": issuer.token(header={"crit": ["exp"]}),
        "odd key id": issuer.token(header={}).replace(head, encoded({"alg": "RS256", "kid": ["rsa"]})),
        "expired": issuer.token(iat=now - 900, exp=now - 300),
        "early": issuer.token(nbf=now + 300),
        "from the future": issuer.token(iat=now + 300),
        "endless": issuer.token(exp=None),
        "no number": issuer.token(exp="soon"),
        "audience": issuer.token(aud="somebody-else"),
        "no audience": issuer.token(aud=None),
        "issuer": issuer.token(iss="https://elsewhere.example"),
        "nobody": issuer.token(sub=None),
        "half": head + "." + claims,
        "long": issuer.token(padding="x" * 20_000),
        "nonsense": "eyJ.eyJ.x",
    }
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, oidc=trusting(issuer)) as service:
        said: dict[str, str] = {}
        for name, token in bad.items():
            answer = await refused(service, token)
            assert answer.status_code == 401, (name, answer.text)
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
            assert answer.headers["content-type"] == "application/problem+json"
            said[name] = answer.json()["detail"]
        assert (await refused(service, issuer.token(aud=["other", AUDIENCE]))).status_code == 200
    assert said["none"] == "The token is signed with `none`; only RS256, PS256, ES256, ES384, EdDSA are taken."
    assert said["confused"].startswith("The token is signed with `HS256`")
    assert said["forged"] == said["swapped"] == "The token's signature or form is not valid."
    assert said["own key"] == "The token is not signed with a key of the issuer."
    assert said["expired"] == "The token has expired. Get a new one."
    assert said["early"] == said["from the future"] == "The token is not valid yet."
    assert said["audience"] == "The token is for another audience."
    assert said["issuer"] == "The token is of another issuer."
    assert said["nobody"] == "The token has no claim `sub`."


async def test_a_good_token_that_does_not_help_is_a_403(store: str, tmp_path: Path, issuer: Issuer) -> None:
    settings = trusting(issuer, default_roles=[], user_claim="profile.login")
    async with running(store, tmp_path, oidc=settings) as service:
        boss, _ = await service.tenant("acme")
        await (await service.client()).create_tenant("closed")
        await (await service.client()).change_tenant("closed", enabled=False)
        ann = {"sub": "a", "profile": {"login": "ann"}, "roles": ["member"]}
        assert (await refused(service, issuer.token(tenant="acme", **ann))).status_code == 200
        await boss.change_user("ann", enabled=False)
        found = [
            (await refused(service, issuer.token(**{**ann, **claims}))).json()
            for claims in (
                {"tenant": None}, {"tenant": "nowhere"}, {"tenant": "closed"}, {"tenant": "../acme"}, {"tenant": 7},
                {"profile": {}}, {"profile": "x"}, {"sub": "b", "roles": ["unknown"]}, {"tenant": "acme"},
            )
        ]  # fmt: skip
        assert [(one["status"], one["code"]) for one in found] == [
            (403, "missing_claim"), (403, "unknown_tenant"), (403, "unknown_tenant"), (403, "unknown_tenant"),
            (403, "missing_claim"), (403, "missing_claim"), (403, "missing_claim"), (403, "no_role"),
            (403, "disabled"),
        ]  # fmt: skip
        assert found[0]["detail"] == "The token does not say which tenant it is for: it has no claim `tenant`."


async def test_the_settings_translate_claims(tmp_path: Path, issuer: Issuer) -> None:
    settings = trusting(
        issuer, tenant_claim="https://example.org/org", tenants={"Acme Ltd": "acme"}, roles_claim="realm.groups",
        roles={"/ferrule-admins": "admin"}, user_claim="email", scope_claim="scope",
    )  # fmt: skip
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, oidc=settings) as service:
        await service.tenant("acme")
        claims: dict[str, Any] = {
            "https://example.org/org": "Acme Ltd",
            "email": "Ann.Lee@Example.org",
            "scope": "openid calls tools",
        }
        client = await service.client(issuer.token(**claims, realm={"groups": ["/ferrule-admins", "admin"]}))
        me = await client.me()
        assert me.user.startswith("ann-lee-example-org-")
        assert (me.tenant, me.roles, me.scopes) == ("acme", ["admin"], ["calls", "tools"])
        with pytest.raises(ServiceError) as scope:
            await client.users()
        assert (scope.value.status, scope.value.code) == (403, "scope")
        other: dict[str, Any] = {"sub": "u-2", **claims, "https://example.org/org": "default"}
        assert (await refused(service, issuer.token(**other))).json()["code"] == "unknown_tenant"
        plain = await service.client(issuer.token(**{**claims, "sub": "u-3"}, roles=["admin"]))
        assert (await plain.me()).roles == ["member"]


async def test_a_token_never_takes_over_a_user_that_somebody_else_made(
    store: str, tmp_path: Path, issuer: Issuer
) -> None:
    settings = trusting(issuer, user_claim="login")
    async with running(store, tmp_path, oidc=settings) as service:
        names = [
            (await (await service.client(issuer.token(sub=sub, login="admin"))).me()).user
            for sub in ("one", "two", "one")
        ]
        assert "admin" not in names
        assert names[0] == names[2] != names[1]
        assert (await (await service.client(issuer.token(sub="one", login="renamed"))).me()).user == names[0]


async def test_roles_are_those_of_the_newest_token(store: str, tmp_path: Path, issuer: Issuer) -> None:
    async with running(store, tmp_path, oidc=trusting(issuer)) as service:
        now = int(time())
        old = issuer.token(sub="ann", roles=["admin"], iat=now - 20)
        new = issuer.token(sub="ann", roles=["member"], iat=now - 10)
        assert (await (await service.client(old)).me()).roles == ["admin"]
        assert (await (await service.client(new)).me()).roles == ["member"]
        assert (await (await service.client(old)).me()).roles == ["member"]
        newest = issuer.token(sub="ann", roles=["admin", "member"], iat=now)
        assert (await (await service.client(newest)).me()).roles == ["admin", "member"]
        assert (await (await service.client(new)).me()).roles == ["admin", "member"]


async def test_a_token_that_was_good_ends_when_it_says_and_when_its_key_is_gone(
    tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_LOOK_AGAIN", 0.0)
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, oidc=trusting(issuer, leeway=0)) as service:
        assert (await refused(service, issuer.token())).status_code == 200
        short = issuer.token(exp=int(time()) + 2)
        while (await refused(service, short)).status_code == 200:
            await asyncio.sleep(0.1)
        assert (await refused(service, short)).json()["code"] == "expired_token"
        token = issuer.token("ec")
        assert (await refused(service, token)).status_code == 200
        issuer.published = ["rsa"]
        await refused(service, issuer.token("ed", header={"kid": "unheard of"}))  # the keys are fetched again
        assert (await refused(service, token)).status_code == 401


async def test_a_new_key_is_found_and_unknown_ones_do_not_flood_the_issuer(tmp_path: Path, issuer: Issuer) -> None:
    issuer.published = ["rsa"]
    async with running(
        f"sqlite:///{tmp_path / 'a.db'}", tmp_path, oidc=trusting(issuer, jwks=f"{issuer.url}/keys")
    ) as service:
        issuer.published = ["rsa", "ec"]
        assert (await refused(service, issuer.token("ec"))).status_code == 200
        tokens = [issuer.token("ed", header={"kid": f"unknown-{number}"}) for number in range(40)]
        answers = await asyncio.gather(*(refused(service, token) for token in tokens))
        assert {answer.status_code for answer in answers} == {401}
        assert len(issuer.asked) <= 2


async def test_keys_are_good_while_the_issuer_is_away(
    tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(oidc, "_LOOK_AGAIN", 0.0)
    issuer.failing = True
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, oidc=trusting(issuer)) as service:
        away = await refused(service, issuer.token())
        assert (away.status_code, away.json()["code"], away.headers["retry-after"]) == (503, "issuer", "5")
        issuer.failing = False
        assert (await refused(service, issuer.token())).status_code == 200
        issuer.failing = True
        asked = len(issuer.asked)
        for number in range(3):
            assert (await refused(service, issuer.token(jti=str(number)))).status_code == 200
        while len(issuer.asked) == asked:
            await asyncio.sleep(0.05)


async def test_keys_of_a_file_and_shared_secrets_in_it(tmp_path: Path, issuer: Issuer) -> None:
    file = tmp_path / "keys.json"
    secret = {"kty": "oct", "kid": "shared", "k": encoded("a secret that is long enough")}
    unreadable = {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"}
    wrapping = issuer.public("ec", use="enc")
    file.write_text(json.dumps({"keys": [secret, unreadable, wrapping, issuer.public("rsa", kid=None), 7]}))
    settings = OidcSettings(issuer="us", audience=AUDIENCE, jwks=str(file))
    issuer.url = "us"
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, oidc=settings) as service:
        without = jwt.encode(issuer.claims(), rsa_key(), "RS256")
        assert (await refused(service, without)).status_code == 200
        assert (await refused(service, issuer.token("ec"))).status_code == 401
    with pytest.raises(ValueError, match=r"`service.oidc.jwks`: .*missing.json cannot be read"):
        missing = OidcSettings(issuer="us", audience=AUDIENCE, jwks=str(tmp_path / "missing.json"))
        async with running(f"sqlite:///{tmp_path / 'b.db'}", tmp_path, oidc=missing):
            pass


def nobody(service: Running) -> httpx2.AsyncClient:
    """A client without a credential."""
    return httpx2.AsyncClient(base_url=service.url)


async def test_who_gives_out_tokens_is_written_where_clients_look(tmp_path: Path, issuer: Issuer) -> None:
    """RFC 9728, for MCP clients among others."""
    store, public = f"sqlite:///{tmp_path / 'a.db'}", "https://tools.example.org"
    async with running(store, tmp_path, oidc=trusting(issuer)) as service, nobody(service) as http:
        challenge = (await http.get("/v1/me")).headers["www-authenticate"]
        place = f"{service.url}/.well-known/oauth-protected-resource"
        assert challenge == f'Bearer resource_metadata="{place}"'
        document = (await http.get(place)).json()
        assert (document["resource"], document["authorization_servers"]) == (service.url, [issuer.url])
        odd = await http.get("/v1/me", headers={"Host": 'evil" onload="x'})
        assert "evil" not in odd.headers["www-authenticate"]
    settings: dict[str, Any] = {"oidc": trusting(issuer), "public_url": public + "/"}
    async with running(store, tmp_path, **settings) as service, nobody(service) as http:
        assert public in (await http.get("/v1/me")).headers["www-authenticate"]
        assert (await http.get("/.well-known/oauth-protected-resource")).json()["resource"] == public
    async with running(store, tmp_path) as service, nobody(service) as http:
        assert (await http.get("/v1/me")).headers["www-authenticate"] == "Bearer"
        assert (await http.get("/.well-known/oauth-protected-resource")).status_code == 404


async def test_a_call_of_a_token_goes_on_after_an_approval(store: str, tmp_path: Path, issuer: Issuer) -> None:
    async with running(store, tmp_path, oidc=trusting(issuer)) as service:
        client = await service.client(issuer.token(sub="ann", roles=["member"]))
        call = await client.call("note", {"text": "by token"}, wait=0)
        admin = await service.client()
        await admin.approve(await admin.approval(call.approval or ""))
        assert (await client.get_call(call.id, wait=30)).status == "succeeded"


@given(st.text(min_size=1), st.text(), st.text())
def test_every_user_gets_a_name_that_is_one(said: str, issuer: str, subject: str) -> None:
    name = _user_name(said, issuer, subject)
    assert check_name(name) == name
    assert name == said or name.rpartition("-")[2].isalnum()


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.fixed_dictionaries({"sub": JSON, "exp": st.floats(0, 1e12)}, optional={"tenant": JSON, "roles": JSON}))
def test_whatever_claims_say_they_are_taken_or_refused(claims: dict[str, Any]) -> None:
    try:
        found = read_claims(claims, OidcSettings(issuer="us", audience="a", jwks="x"))
    except TokenRefused:
        return
    assert check_name(found.tenant) == claims["tenant"]
    assert found.subject == claims["sub"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "https://x"},
        {"issuer": "http://x.example", "audience": "a"},
        {"issuer": "x", "audience": "a"},
        {"issuer": "https://x", "audience": "a", "algorithms": ["HS256"]},
        {"issuer": "https://x", "audience": "a", "algorithms": ["none"]},
        {"issuer": "https://x", "audience": "a", "jwks": "http://elsewhere.example/keys"},
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="`"):
        OidcSettings(**wrong)


async def test_a_newer_token_keeps_a_session_over_mcp(tmp_path: Path, issuer: Issuer) -> None:
    """Clients renew their tokens; what they had open goes on, and the old token opens nothing any more."""

    async def send(token: str, method: str, session: str = "", **params: Any) -> httpx2.Response:
        headers = {"Accept": "application/json, text/event-stream", **({"Mcp-Session-Id": session} if session else {})}
        http = await service.http(token)
        return await http.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=headers
        )

    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, oidc=trusting(issuer, leeway=0.0)) as service:
        await service.tenant("acme")
        whose: dict[str, Any] = {"tenant": "acme", "sub": "ann"}
        ends = int(time()) + 6
        first, second = issuer.token(**whose, exp=ends), issuer.token(**whose, exp=ends + 600)
        opened = await send(
            first, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x", "version": "1"}
        )
        session = opened.headers["mcp-session-id"]
        assert (await send(second, "tools/list", session)).status_code == 200
        await asyncio.sleep(max(0.0, ends - time()) + 1.5)  # and the servers of ended tokens have been looked for
        assert (await send(first, "tools/list", session)).status_code == 401
        assert "tools" in (await send(second, "tools/list", session)).text
