"""Signed requests: side by side while the token is good, and one after the other where somebody must sign in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from ferrule.mcp_client.http_transport import SignedRequests, TokenFile, oauth

URL = "https://example.org/mcp"


class Site:
    """A server that knows one token, and answers requests once as many are open as it waits for."""

    def __init__(self, token: str = "", together: int = 1) -> None:
        self.token = token
        self.together = asyncio.Barrier(together)
        self.seen: list[tuple[str, str]] = []

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        given = request.headers.get("authorization", "")
        self.seen.append((request.url.path, given))
        if request.url.path == "/token":
            return httpx2.Response(200, json={"access_token": "new", "token_type": "Bearer", "expires_in": 60})
        if request.url.path != "/mcp":
            return httpx2.Response(404)
        if self.token and given != f"Bearer {self.token}":
            return httpx2.Response(401)
        if "slow" in str(request.url):
            await self.together.wait()
        return httpx2.Response(200)

    def client(self, folder: Path) -> httpx2.AsyncClient:
        signed = SignedRequests(oauth("peer", URL, TokenFile(folder, URL), show=None))
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer), auth=signed)


async def keep(folder: Path, token: str, **more: Any) -> None:
    tokens = TokenFile(folder, URL)
    await tokens.set_tokens(OAuthToken(access_token=token, **more))
    await tokens.set_client_info(OAuthClientInformationFull(client_id="me", token_endpoint_auth_method="none"))


async def test_requests_do_not_wait_for_each_other(tmp_path: Path) -> None:
    await keep(tmp_path, "good", expires_in=3600)
    site = Site("good", together=3)
    async with site.client(tmp_path) as client:
        assert (await client.get(URL)).status_code == 200
        answers = await asyncio.gather(*(client.get(f"{URL}?slow") for _ in range(3)))
    assert [one.status_code for one in answers] == [200] * 3
    assert site.seen == [("/mcp", "Bearer good")] * 4


async def test_one_that_needs_no_token_is_sent_none(tmp_path: Path) -> None:
    site = Site(together=2)
    async with site.client(tmp_path) as client:
        await client.get(URL)
        await asyncio.gather(*(client.get(f"{URL}?slow") for _ in range(2)))
    assert site.seen == [("/mcp", "")] * 3


async def test_a_token_that_ended_is_renewed_once_for_all(tmp_path: Path) -> None:
    await keep(tmp_path, "old", expires_in=-5, refresh_token="more")
    site = Site("new", together=2)
    async with site.client(tmp_path) as client:
        answers = await asyncio.gather(client.get(URL), client.get(URL))
        await asyncio.gather(*(client.get(f"{URL}?slow") for _ in range(2)))
    assert [one.status_code for one in answers] == [200] * 2
    assert [path for path, _ in site.seen].count("/token") == 1


async def test_a_token_that_is_no_longer_taken_begins_to_sign_in(tmp_path: Path) -> None:
    await keep(tmp_path, "good", expires_in=3600)
    site = Site("good")
    async with site.client(tmp_path) as client:
        await client.get(URL)
        site.token = "another"
        before = len(site.seen)
        await asyncio.gather(client.get(URL), return_exceptions=True)
    assert any(path.startswith("/.well-known/") for path, _ in site.seen[before:])
