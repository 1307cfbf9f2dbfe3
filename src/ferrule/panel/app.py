"""The panel as an ASGI application: who looks, whether a form is really theirs, and what a browser may run on a page.

Paths that are not the panel's go on to the API, which it stands in front of.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import cookie_parser
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import compile_path

from ferrule._version import __version__
from ferrule.panel.api import InProcessApi, PageProblem
from ferrule.panel.words import HERE, LANGUAGES, PROBLEMS, catalogue, language_of, templates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("ferrule.panel")

SESSION_SECONDS = 12 * 3600
_PREFERENCE_SECONDS = 365 * 86_400
_MOST_FORM = 4_000_000
_FORM_SECONDS = 30.0
_STATIC = HERE / "static"
_FILES = frozenset(one.name for one in _STATIC.iterdir())
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store", "Vary": "Cookie",
}  # fmt: skip

_WHOLE_PAGE = {"HX-Retarget": "#main", "HX-Reselect": "#main", "HX-Reswap": "outerHTML"}


@dataclass(slots=True, frozen=True)
class Forward:
    """An answer of the API that goes to the browser as it is: a stream, or a file."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class PanelRequest:
    """One request to a page, and what its handler needs to answer it."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.parts: Mapping[str, str] = {}
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self.query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        # Other programs on this host set cookies too, and not all of them are well-formed.
        self.cookies = cookie_parser(self.header(b"cookie"))
        self.language = language_of(self.cookies.get("ferrule_lang"), self.header(b"accept-language"))
        theme = self.cookies.get("ferrule_theme", "")
        self.theme = theme if theme in ("light", "dark") else ""
        self.fields: list[tuple[str, str]] = []
        self.credential = ""
        self.me: dict[str, Any] = {}
        self.api: InProcessApi
        self.secure = scope.get("scheme") == "https"
        self.pages: Iterable[PanelPage] = ()

    @property
    def place(self) -> str:
        """Its address, to come back to; the front page where that would send a form again."""
        if self.method != "GET":
            return "/"
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    def header(self, name: bytes) -> str:
        return self._headers.get(name, b"").decode("latin-1")

    def translated(self, message: str) -> str:
        return catalogue(self.language).gettext(message)

    def field(self, name: str, default: str = "") -> str:
        """The last value of a form's field, without blanks around it."""
        return next((value for key, value in reversed(self.fields) if key == name), default).strip()

    def many(self, name: str) -> list[str]:
        """Every value of a field of which there are several, or each line of one."""
        return [
            line.strip() for key, value in self.fields if key == name for line in value.splitlines() if line.strip()
        ]

    def may(self, scope: str, *areas: str) -> bool:
        """Whether the API would let the user in there, or into one of the areas; what it decides is what counts."""
        return scope in self.me.get("scopes", ()) and (not areas or not set(areas).isdisjoint(self.me.get("areas", ())))

    @property
    def form_token(self) -> str:
        """What every form holds: nobody without the credential can work it out, and no other site can read it."""
        return hmac.new(self.credential.encode(), b"a form of the panel", hashlib.sha256).hexdigest()

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        text = templates(self.language).get_template(template).render(
            page=self, me=self.me, language=self.language, theme=self.theme, version=__version__,
            token=self.form_token if self.credential else "", navigation=self._navigation(), **values,
        )  # fmt: skip
        return HTMLResponse(text.encode("utf-8", "replace"), status)  # half a character has no bytes of its own

    def _navigation(self) -> list[tuple[str, str, bool]]:
        """The parts of the panel that the user may see: where, its name, and whether this page is in it."""
        if not self.me:
            return []
        return [
            (one.path, self.translated(one.title), self._is_in(one.path))
            for one in self.pages
            if one.title and self.may(one.scope, *one.areas)
        ]

    def _is_in(self, path: str) -> bool:
        if path == "/":
            return self.path == "/" or self.path.startswith("/calls/")
        return self.path == path or self.path.startswith(f"{path}/")

    async def read_form(self) -> None:
        """The fields of a form, within bounds of size and time."""
        body = bytearray()
        try:
            async with asyncio.timeout(_FORM_SECONDS):
                more = True
                while more:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":  # half a form is not what somebody sent
                        raise PageProblem(400, "form")
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > _MOST_FORM:
                        raise PageProblem(413, "too_large")
        except TimeoutError:
            raise PageProblem(408, "form") from None
        self.fields = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)

    def check_origin(self) -> None:
        """Take a form from our own pages alone. Browsers say where it comes from; what says nothing is no browser."""
        site = self.header(b"sec-fetch-site")
        if site:
            is_own = site == "same-origin"
        else:
            origin = self.header(b"origin")
            is_own = bool(origin) and origin.partition("://")[2] == self.header(b"host")
        if not is_own:
            raise PageProblem(403, "form")

    def check_form(self) -> None:
        if not hmac.compare_digest(self.field("token").encode(), self.form_token.encode()):
            raise PageProblem(403, "form")


@dataclass(slots=True, frozen=True)
class PanelPage:
    """One method on one path. One with a title stands in the navigation, for whoever has the scope and an area."""

    method: str
    path: str
    handler: Callable[[PanelRequest], Awaitable[Response | Forward]]
    title: str = ""
    scope: str = ""
    areas: tuple[str, ...] = ()
    open: bool = False
    """Whether it is for those who have not signed in."""


class PanelSignIn(Protocol):
    """How somebody gets a credential, and gives it back."""

    pages: tuple[PanelPage, ...]
    cookie: str
    """The name of a session's cookie. Browsers send it to every port of a host, so each kind of panel has its own."""

    def credential(self, cookie: str) -> str:
        """What a session's cookie stands for; empty where nothing."""
        ...

    def is_secure(self, request: PanelRequest) -> bool:
        """Whether browsers reach the panel over TLS."""
        ...

    def refuses(self, request: PanelRequest) -> bool:
        """Whether a request is not for this panel at all, as one under another host's name."""
        ...


class Panel:
    """The pages, in front of the API whose other paths it leaves alone."""

    def __init__(self, api: ASGIApp, sign_in: PanelSignIn, pages: tuple[PanelPage, ...]) -> None:
        self._api = api
        self._sign_in = sign_in
        self._pages = (*pages, *sign_in.pages, PanelPage("POST", "/preferences", set_preferences, open=True))
        self._patterns = [(compile_path(one.path)[0], one) for one in self._pages]
        self._tops = {one.path.split("/")[1] for one in self._pages} | {"static"}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """A page, or what the API answers, which is not made to wait for another step."""
        if scope["type"] != "http" or (path := scope["path"]).startswith("/v1/"):
            return self._api(scope, receive, send)
        if path[1:].partition("/")[0] not in self._tops:
            return self._api(scope, receive, send)
        return self._show(scope, receive, send)

    async def _show(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        except OSError:
            return  # whoever asked has gone

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = PanelRequest(scope, receive)
        request.pages = self._pages
        request.secure = self._sign_in.is_secure(request)
        try:
            if self._sign_in.refuses(request):
                raise PageProblem(421, "not_found")
            response = await self._respond(request)
        except PageProblem as problem:
            response = self._refused(request, problem.status, problem.code, problem.detail, problem.suggestion)
        except Exception:
            logger.exception("A page of the panel failed: %s", request.path[:200])
            response = self._refused(request, 500, "internal", "")
        if isinstance(response, Forward):
            await self._forward(request, response, receive, send)
            return
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _respond(self, request: PanelRequest) -> Response | Forward:
        if request.path.startswith("/static/"):
            return static_file(request.path.removeprefix("/static/"))
        page = self._find(request)
        request.credential = self._sign_in.credential(request.cookies.get(self._sign_in.cookie, ""))
        if request.method == "POST":
            request.check_origin()
            await request.read_form()
        if page.open:
            return await page.handler(request)
        if not request.credential:
            return to_sign_in(request)
        request.api = InProcessApi(self._api, request.credential, request.scope, request.language)
        if request.method == "POST":
            request.check_form()
        request.me = await request.api.ask("GET", "/v1/me")
        return await page.handler(request)

    def _find(self, request: PanelRequest) -> PanelPage:
        method = "GET" if request.method == "HEAD" else request.method
        known = False
        for pattern, page in self._patterns:
            if match := pattern.match(request.path):
                known = True
                if page.method == method:
                    request.parts = match.groupdict()
                    return page
        raise PageProblem(405 if known else 404, "not_found")

    def _refused(self, request: PanelRequest, status: int, code: str, detail: str, suggestion: str = "") -> Response:
        if status == 401:
            response = to_sign_in(request)
            forget(response, self._sign_in.cookie, secure=request.secure)
            return response
        words = request.translated(PROBLEMS.get(code, PROBLEMS["internal"] if status >= 500 else PROBLEMS["conflict"]))
        response = request.render(
            "problem.html", status, problem=words, detail=detail, suggestion=suggestion, status_code=status
        )
        if request.method == "POST":  # a form that asked for a part of a page alone gets all of this one
            response.headers.update(_WHOLE_PAGE)
        return response

    async def _forward(self, request: PanelRequest, forward: Forward, receive: Receive, send: Send) -> None:
        added = [(name.lower().encode(), value.encode()) for name, value in {**HEADERS, **forward.headers}.items()]
        names = {name for name, _ in added}

        async def passed(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [one for one in message.get("headers", ()) if one[0] not in names]
                message = {**message, "headers": [*kept, *added]}
            await send(message)

        headers = {"accept": request.header(b"accept")}
        if last := request.header(b"last-event-id"):
            headers["last-event-id"] = last
        await request.api.forward(forward.path, forward.query, receive, passed, headers)


async def set_preferences(request: PanelRequest) -> Response:
    """Language and theme, which a cookie keeps."""
    response = back_to(request.field("next"))
    for name, allowed in (("lang", LANGUAGES), ("theme", ("light", "dark", "system"))):
        if (value := request.field(name)) in allowed:
            keep(response, f"ferrule_{name}", value, seconds=_PREFERENCE_SECONDS, secure=request.secure)
    return response


def static_file(name: str) -> Response:
    """A file of the wheel, by its plain name."""
    if name not in _FILES:
        raise PageProblem(404, "not_found")
    return FileResponse(_STATIC / name, headers={"Cache-Control": "public, max-age=3600"})


def to_sign_in(request: PanelRequest) -> Response:
    place = request.place
    url = "/sign-in" if place == "/" else f"/sign-in?next={quote(place)}"
    if request.header(b"hx-request"):
        return Response(status_code=200, headers={"HX-Redirect": url})
    return RedirectResponse(url, 303)


def back_to(place: str) -> Response:
    """To a page of our own, whatever a form asks for."""
    is_own = place.startswith("/") and not place.startswith(("//", "/\\")) and place.isprintable()
    return RedirectResponse(quote(place, safe="/?=&%-_.~:+,") if is_own else "/", 303)


def keep(response: Response, name: str, value: str, *, seconds: int, secure: bool, path: str = "/") -> None:
    """A cookie that no script reads and no other site sends."""
    response.set_cookie(name, value, max_age=seconds, path=path, secure=secure, httponly=True, samesite="strict")


def forget(response: Response, name: str, *, secure: bool, path: str = "/") -> None:
    response.delete_cookie(name, path=path, secure=secure, httponly=True, samesite="strict")
