"""Signing in: tokens that only the person can read, and a way back that is open for one answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from ferrule.mcp_client.http_transport import SignIn, TokenFile, oauth
from ferrule.mcp_client.server_config import NotSigningIn
from ferrule.workspace.data_folder import read_json

URL = "https://example.org/mcp"


async def test_tokens_are_kept_for_the_person_alone(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens", URL)
    assert await tokens.get_tokens() is None
    await tokens.set_tokens(OAuthToken(access_token="secret", expires_in=60, refresh_token="more"))
    await tokens.set_client_info(OAuthClientInformationFull(client_id="me"))
    again = TokenFile(tmp_path / "tokens", URL)
    found, client = await again.get_tokens(), await again.get_client_info()
    assert found is not None
    assert client is not None
    assert (found.access_token, client.client_id) == ("secret", "me")
    assert again.expires_at is not None
    assert again.path.stat().st_mode & 0o777 == 0o600
    assert await TokenFile(tmp_path / "tokens", URL + "2").get_tokens() is None


async def test_a_token_that_ended_is_known_to_have_ended_in_the_next_process(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path, URL)
    await tokens.set_tokens(OAuthToken(access_token="secret", expires_in=-5, refresh_token="more"))
    provider = oauth("peer", URL, tokens, show=None)
    provider.context.current_tokens = await tokens.get_tokens()
    assert not provider.context.is_token_valid()


async def test_a_client_of_the_persons_own_comes_first(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path, URL)
    await tokens.set_client_info(OAuthClientInformationFull(client_id="registered"))
    provider = oauth("peer", URL, tokens, show=None, client_id="mine", client_secret="hush")
    client = await tokens.get_client_info()
    assert client is not None
    assert (client.client_id, client.client_secret, client.token_endpoint_auth_method) == (
        "mine", "hush", "client_secret_basic"
    )  # fmt: skip
    assert "hush" not in str(read_json(tokens.path))
    assert provider.context.client_metadata_url is None
    document = oauth("peer", URL, TokenFile(tmp_path / "x", URL), show=None, client_id="https://me.example/client.json")
    assert document.context.client_metadata_url == "https://me.example/client.json"


async def test_the_browser_comes_back_with_a_code(tmp_path: Path) -> None:
    shown: list[str] = []

    async def show(url: str) -> None:
        shown.append(url)

    way = SignIn("peer", show, _free_port())
    await way.begin("https://sign.in/")
    async with httpx2.AsyncClient() as browser:
        assert (await browser.get(way.address.replace("/callback", "/favicon.ico"))).status_code == 404
        page = await browser.get(way.address + "?code=abc&state=s&iss=https%3A%2F%2Fsign.in")
    found = await way.finish()
    assert (shown, found.code, found.state, found.iss) == (["https://sign.in/"], "abc", "s", "https://sign.in")
    assert "You are signed in" in page.text
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", way.port)


async def test_a_refusal_is_said_on_the_page_and_to_the_caller() -> None:
    async def show(url: str) -> None:
        pass

    way = SignIn("peer", show, _free_port())
    await way.begin("https://sign.in/")
    async with httpx2.AsyncClient() as browser:
        page = await browser.get(way.address + "?error=access_denied&error_description=%3Cb%3Eno")
    assert "&lt;b&gt;no" in page.text
    with pytest.raises(OAuthFlowError, match="signing in was refused: <b>no"):
        await way.finish()


async def test_where_nobody_can_sign_in_the_command_is_named() -> None:
    with pytest.raises(OAuthFlowError, match="it wants you to sign in: ferrule mcp test peer"):
        await SignIn("peer", None, 1).begin("https://sign.in/")


async def test_the_port_of_a_registered_client_stays(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path, URL)
    uris = {"client_id": "x", "redirect_uris": ["http://127.0.0.1:45678/callback"]}
    await tokens.set_client_info(OAuthClientInformationFull.model_validate(uris))
    assert [str(uri) for uri in oauth("peer", URL, tokens, show=None).context.client_metadata.redirect_uris or []] == [
        "http://127.0.0.1:45678/callback"
    ]


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


async def test_who_does_not_want_to_sign_in_closes_the_way_back() -> None:
    async def show(url: str) -> None:
        raise NotSigningIn("you did not sign in")

    way = SignIn("peer", show, _free_port())
    with pytest.raises(OAuthFlowError, match="you did not sign in"):
        await way.begin("https://sign.in/")
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", way.port)
