"""Signing in to the panel of a service: with an API key, or with the OpenID Connect issuer of the settings.

The session is a cookie that holds the credential itself, so that any instance can serve any request, and a key that is
revoked ends the session at once. No script can read it, and no other site has it sent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from starlette.responses import RedirectResponse

from ferrule.panel import administration, calls, plugins, records, tools
from ferrule.panel.api import InProcessApi, PageProblem
from ferrule.panel.app import SESSION_SECONDS, Panel, PanelPage, back_to, forget, keep
from ferrule.panel.words import PROBLEMS, _
from ferrule.process.references import MissingValueError, read_reference
from ferrule.service.oidc import discover, looks_like_token
from ferrule.service.outgoing import SECRET_SECONDS, FetchProblem, fetch_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp

    from ferrule.app.service_settings import ServiceSettings
    from ferrule.panel.app import PanelRequest

_MOST_COOKIE = 3_800
"""Browsers drop a cookie that is larger, without a word."""
_UNDER_WAY = "ferrule_sign_in"
_UNDER_WAY_SECONDS = 600
_DONE = "/sign-in/oidc/done"
_NO_KEY = _("Enter an API key.")
_TOO_LARGE = _("The issuer's token is too large for a cookie. Use an API key, or have the issuer leave claims out.")
_NOT_BEGUN = _("This sign-in was not begun in this browser, or took too long. Try again.")
_NO_TOKEN = _("The issuer gave no token that this service takes.")


class ServiceSignIn:
    """Sign-in with the credentials that the API takes."""

    cookie = "ferrule_session"

    def __init__(self, api: ASGIApp, settings: ServiceSettings) -> None:
        self._api = api
        self._settings = settings
        self.pages = (
            PanelPage("GET", "/sign-in", self.show, open=True),
            PanelPage("POST", "/sign-in", self.enter, open=True),
            PanelPage("POST", "/sign-out", self.leave, open=True),
            PanelPage("GET", "/sign-in/oidc", self.begin, open=True),
            PanelPage("GET", _DONE, self.finish, open=True),
        )

    def credential(self, cookie: str) -> str:
        return cookie if cookie.isascii() and cookie.isprintable() else ""

    def is_secure(self, request: PanelRequest) -> bool:
        return request.scope.get("scheme") == "https" or self._settings.public_url.startswith("https://")

    def refuses(self, request: PanelRequest) -> bool:
        return False

    @property
    def _has_issuer(self) -> bool:
        return bool(self._settings.oidc.issuer and self._settings.oidc.client_id)

    async def show(self, request: PanelRequest) -> Response:
        return self._form(request, 200, "")

    def _form(self, request: PanelRequest, status: int, problem: str) -> Response:
        request.credential = ""
        place = request.field("next") or request.query.get("next", "/")
        return request.render(
            "sign_in.html", status, problem=request.translated(problem) if problem else "", next=place,
            issuer=self._has_issuer,
        )  # fmt: skip

    async def enter(self, request: PanelRequest) -> Response:
        key = request.field("key")
        if not key or not key.isascii() or not key.isprintable():
            return self._form(request, 400, _NO_KEY)
        if problem := await self._problem_with(request, key):
            return self._form(request, 401, problem)
        return self._entered(request, key, back_to(request.field("next")))

    async def _problem_with(self, request: PanelRequest, credential: str) -> str:
        try:
            await InProcessApi(self._api, credential, request.scope).ask("GET", "/v1/me")
        except PageProblem as problem:
            return PROBLEMS.get(problem.code, problem.detail)
        return ""

    def _entered(self, request: PanelRequest, credential: str, response: Response) -> Response:
        keep(response, self.cookie, credential, seconds=SESSION_SECONDS, secure=request.secure)
        return response

    async def leave(self, request: PanelRequest) -> Response:
        response = back_to("/sign-in")
        forget(response, self.cookie, secure=request.secure)
        return response

    # OpenID Connect: the authorisation code flow with PKCE

    async def begin(self, request: PanelRequest) -> Response:
        """Send the browser to the issuer. What must match when it comes back waits in a cookie of its own."""
        if not self._has_issuer:
            raise PageProblem(404, "not_found")
        issuer = await self._issuer()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _part in range(3))
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code", "client_id": self._settings.oidc.client_id, "scope": "openid profile",
            "redirect_uri": self._own_url(request) + _DONE, "state": state, "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="), "code_challenge_method": "S256",
        }  # fmt: skip
        separator = "&" if "?" in issuer["authorization_endpoint"] else "?"
        response = RedirectResponse(f"{issuer['authorization_endpoint']}{separator}{urlencode(query)}", 303)
        # The issuer's redirect is another site's: a strict cookie would not come along.
        response.set_cookie(
            _UNDER_WAY, f"{state}.{nonce}.{verifier}", max_age=_UNDER_WAY_SECONDS, path="/sign-in",
            secure=request.secure, httponly=True, samesite="lax",
        )  # fmt: skip
        return response

    async def finish(self, request: PanelRequest) -> Response:
        """Trade the issuer's code for a token, and enter with that."""
        if not self._has_issuer:
            raise PageProblem(404, "not_found")
        state, _dot, rest = request.cookies.get(_UNDER_WAY, "").partition(".")
        nonce, _dot, verifier = rest.partition(".")
        given = request.query.get("state", "")
        if not verifier or not secrets.compare_digest(state.encode(), given.encode()) or "code" not in request.query:
            return self._form(request, 400, _NOT_BEGUN)
        oidc = self._settings.oidc
        form = {
            "grant_type": "authorization_code", "code": request.query["code"], "client_id": oidc.client_id,
            "redirect_uri": self._own_url(request) + _DONE, "code_verifier": verifier,
        }  # fmt: skip
        try:
            if oidc.client_secret:
                form["client_secret"] = await read_reference(oidc.client_secret, os.environ, SECRET_SECONDS)
            tokens = await fetch_json((await self._issuer())["token_endpoint"], form=form)
        except (FetchProblem, MissingValueError) as problem:
            raise PageProblem(503, "not_ready", f"{problem}.") from None
        token, problem = await self._usable(request, tokens, nonce)
        if not token:
            return self._form(request, 401, problem)
        # A redirect would count as the issuer's, and the strict cookie would stay behind: the page goes on itself.
        response = self._entered(request, token, request.render("entered.html"))
        response.delete_cookie(_UNDER_WAY, path="/sign-in")
        return response

    async def _usable(self, request: PanelRequest, tokens: Any, nonce: str) -> tuple[str, str]:
        """The access token where the API takes it, else the one that says who signed in; or what is wrong."""
        given = cast("dict[str, Any]", tokens) if isinstance(tokens, dict) else {}
        identity, problem = given.get("id_token"), _NO_TOKEN
        if not isinstance(identity, str) or _claims(identity).get("nonce") != nonce:
            return "", _NOT_BEGUN
        for token in (given.get("access_token"), identity):
            if not isinstance(token, str) or not looks_like_token(token):
                continue
            if len(token) > _MOST_COOKIE:
                problem = _TOO_LARGE
            elif not (problem := await self._problem_with(request, token)):
                return token, ""
        return "", problem

    async def _issuer(self) -> dict[str, str]:
        try:
            return await discover(self._settings.oidc, "authorization_endpoint", "token_endpoint")
        except FetchProblem as problem:
            raise PageProblem(503, "not_ready", f"{problem}.") from None

    def _own_url(self, request: PanelRequest) -> str:
        scheme = "https" if request.secure else "http"
        return self._settings.public_url or f"{scheme}://{request.header(b'host')}"


def _claims(token: str) -> dict[str, Any]:
    """What a token says, unchecked: the issuer gave it to us itself, and the API checks what it is used for."""
    try:
        part = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def panel_of(settings: ServiceSettings) -> Callable[[ASGIApp], ASGIApp]:
    """Puts the panel in front of a service's API."""
    pages = (*calls.PAGES, *tools.PAGES, *records.PAGES, *plugins.PAGES, *administration.PAGES)
    return lambda api: Panel(api, ServiceSignIn(api, settings), pages)
