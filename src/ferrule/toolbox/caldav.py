"""Calendars on a CalDAV server (RFC 4791): found, asked, and changed only where nobody else has (If-Match).

Credentials go to the one server that the settings name: a redirect or an address in an answer that leads to another is
refused. Answers are bounded, and so is the time of a whole call.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from ferrule import ErrorKind, ToolError
from ferrule.extension import FetchError, advice, fetch, is_local, nearest, phrase
from ferrule.toolbox.accounts import CalendarAccount, Secrets
from ferrule.toolbox.failures import forbidden, not_found

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    import httpx2


_MOST_LISTED = 2_000_000
MOST_EVENTS = 30_000_000
"""Bytes of an answer with events."""
_MOST_REDIRECTS = 5
_DEADLINES = 4
_DAV, _CAL = "{DAV:}", "{urn:ietf:params:xml:ns:caldav}"
_NAMES = 'xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"'
_ABOUT = (
    f'<?xml version="1.0"?><D:propfind {_NAMES}><D:prop><D:resourcetype/><D:displayname/>'
    "<D:current-user-principal/><C:calendar-home-set/><C:supported-calendar-component-set/></D:prop></D:propfind>"
)
_ASK_USER = advice(
    "Ask the user to look at the account's settings, and to run `ferrule toolbox check`.",
    "Look at the account's settings, and run `ferrule toolbox check`.",
)


class RemoteCalendar(NamedTuple):
    """One calendar of an account. `key` is what stands in ids: the last part of its address."""

    account: str
    key: str
    name: str
    url: str


@dataclass(slots=True, frozen=True)
class RemoteEvent:
    """What the server keeps under one address: an event with all its exceptions."""

    name: str
    etag: str
    data: str

    @property
    def version(self) -> str:
        return version_of(self.etag)


def version_of(etag: str) -> str:
    """A short form of an ETag, for ids."""
    return hashlib.sha256(etag.encode()).hexdigest()[:8]


class CalDav:
    """A conversation with the server of one account."""

    def __init__(self, name: str, account: CalendarAccount, client: httpx2.AsyncClient, secrets: Secrets) -> None:
        self.name = name
        self._account = account
        self._client = client
        self._secrets = secrets
        self._url = secrets.fill("url")
        user, password = secrets.fill("user"), secrets.fill("password")
        self._auth = (user, password) if user or password else None
        parts = urlsplit(self._url)
        if parts.scheme not in ("https", "http") or not parts.hostname or parts.username:
            raise ToolError(phrase("`url` of this account must be `https://…`."), suggestion=_ASK_USER)
        if parts.scheme == "http" and not is_local(parts.hostname):
            raise ToolError(
                phrase("`url` of this account is not `https://`, so no password is sent there."), suggestion=_ASK_USER
            )
        self._origin = _origin(self._url)

    # Finding calendars

    async def calendars(self) -> list[RemoteCalendar]:
        """The calendars of the account that hold events."""
        try:
            found = await self._about(self._url, 0)
        except ToolError as error:
            if urlsplit(self._url).path not in ("", "/") or error.kind is ErrorKind.PERMISSION:
                raise
            self._url = urljoin(self._url, "/.well-known/caldav")
            found = await self._about(self._url, 0)
        own = self._among(found)
        if own:
            return own
        homes = _hrefs(found, f"{_CAL}calendar-home-set")
        if not homes and (principals := _hrefs(found, f"{_DAV}current-user-principal")):
            homes = _hrefs(await self._about(self._same(principals[0]), 0), f"{_CAL}calendar-home-set")
        listed: list[RemoteCalendar] = []
        for home in homes[:10] or [self._url]:
            listed += self._among(await self._about(self._same(home), 1))
        if not listed:
            raise not_found(
                phrase("There is no calendar at the address of the account `{name}`.", name=self.name), _ASK_USER
            )
        return listed

    async def calendar(self, wanted: str) -> RemoteCalendar:
        """One calendar by its key or its name; the only one where none is named."""
        listed = await self.calendars()
        fitting = [one for one in listed if wanted == one.key] or [one for one in listed if wanted == one.name]
        if not wanted and len(listed) == 1:
            fitting = listed
        if len(fitting) == 1:
            return fitting[0]
        names = [f"{self.name}/{one.key}" for one in listed]
        close = nearest(f"{self.name}/{wanted}", names, most=1) if wanted else []
        message = (
            phrase("There is no calendar `{calendar}` in `{name}`.", calendar=wanted, name=self.name)
            if wanted
            else phrase("The account `{name}` has several calendars.", name=self.name)
        )
        raise not_found(
            message,
            phrase("Did you mean `{name}`?", name=close[0])
            if close
            else phrase("Known names: {names}.", names=", ".join(f"`{one}`" for one in names[:50])),
        )

    async def _about(self, url: str, depth: int) -> list[tuple[str, Element]]:
        status, _, body, at = await self._sent("PROPFIND", url, _ABOUT, {"Depth": str(depth)}, most=_MOST_LISTED)
        if status != 207:
            raise self._refused(status, url)
        return [(urljoin(at, href), props) for href, props in answers_in(body)]

    def _among(self, found: list[tuple[str, Element]]) -> list[RemoteCalendar]:
        listed: list[RemoteCalendar] = []
        for url, props in found:
            kinds = props.find(f"{_DAV}resourcetype")
            holds = props.find(f"{_CAL}supported-calendar-component-set")
            if kinds is None or kinds.find(f"{_CAL}calendar") is None:
                continue
            if holds is not None and len(holds) and all(one.get("name", "").upper() != "VEVENT" for one in holds):
                continue
            url = self._same(url)
            key = unquote(url.rstrip("/").rpartition("/")[2])
            title = " ".join((props.findtext(f"{_DAV}displayname") or key).split())[:200]
            listed.append(RemoteCalendar(self.name, key, title, url if url.endswith("/") else f"{url}/"))
        return listed

    # Events

    async def events(self, calendar: RemoteCalendar, start: str, end: str) -> bytes:
        """The server's answer with all that happens between two moments (`20260301T000000Z`), to be read in a child."""
        query = (
            f'<?xml version="1.0"?><C:calendar-query {_NAMES}><D:prop><D:getetag/><C:calendar-data/></D:prop><C:filter>'
            f'<C:comp-filter name="VCALENDAR"><C:comp-filter name="VEVENT"><C:time-range start="{start}" end="{end}"/>'
            "</C:comp-filter></C:comp-filter></C:filter></C:calendar-query>"
        )
        status, _, body, _ = await self._sent("REPORT", calendar.url, query, {"Depth": "1"}, most=MOST_EVENTS)
        if status != 207:
            raise self._refused(status, calendar.url)
        return body

    async def event(self, calendar: RemoteCalendar, name: str) -> RemoteEvent:
        """An event as it is now."""
        status, headers, body, _ = await self._sent("GET", self._address(calendar, name), most=_MOST_LISTED)
        if status == 404:
            raise not_found(phrase("The event is no longer in the calendar."), phrase("Search again with FindEvents."))
        if status != 200:
            raise self._refused(status, calendar.url)
        etag = headers.get("etag", "")
        if not etag or etag.startswith("W/"):
            raise ToolError(
                phrase("The server does not say which version of the event this is, so changing it is not safe."),
                suggestion=advice(
                    "Ask the user to change it in their calendar program.", "Change it in your calendar program."
                ),
            )
        return RemoteEvent(name, etag, body.decode("utf-8", "replace"))

    async def save(self, calendar: RemoteCalendar, name: str, data: bytes, etag: str | None) -> str:
        """Save an event over the version that has this ETag, or a new one; gives the new ETag where it is said."""
        guard = {"If-Match": etag} if etag else {"If-None-Match": "*"}
        kind = {"Content-Type": "text/calendar; charset=utf-8"}
        status, headers, _, _ = await self._sent("PUT", self._address(calendar, name), data, {**guard, **kind})
        if status not in (200, 201, 204):
            raise self._refused(status, calendar.url)
        return headers.get("etag", "")

    async def saved(self, calendar: RemoteCalendar, name: str, data: bytes, etag: str | None) -> str:
        """The same, where the new ETag is asked for if it is not said."""
        return await self.save(calendar, name, data, etag) or (await self.event(calendar, name)).etag

    async def remove(self, calendar: RemoteCalendar, name: str, etag: str) -> None:
        """Delete an event in the version that has this ETag."""
        status, _, _, _ = await self._sent("DELETE", self._address(calendar, name), headers={"If-Match": etag})
        if status not in (200, 204):
            raise self._refused(status, calendar.url)

    def _address(self, calendar: RemoteCalendar, name: str) -> str:
        return calendar.url + quote(name, safe="")

    # Requests

    async def _sent(
        self,
        method: str,
        url: str,
        body: str | bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        most: int = _MOST_LISTED,
    ) -> tuple[int, Mapping[str, str], bytes, str]:
        """Status, headers, body, and where they came from. Only questions follow redirects."""
        import httpx2

        content = body.encode() if isinstance(body, str) else body
        given = {"Content-Type": "application/xml; charset=utf-8", "Accept-Encoding": "identity", **(headers or {})}
        asks = method in ("PROPFIND", "REPORT", "GET")
        try:
            found = await fetch(
                self._client, method, self._same(url), most=most, redirects=_MOST_REDIRECTS if asks else 0,
                onward=lambda _from, to: self._same(to), headers=given, content=content, auth=self._auth,
            )  # fmt: skip
        except FetchError as error:
            if error.why == "redirects":
                why, suggestion = phrase("The server of `{name}` redirects in circles.", name=self.name), _ASK_USER
            elif error.why == "size":
                why = phrase("The server of `{name}` sent more than {n} bytes.", name=self.name, n=f"{most:,}")
                suggestion = phrase("Ask for a shorter time.")
            else:
                raise self._lost(error, method) from None
            raise ToolError(why, suggestion=suggestion) from None
        except (httpx2.HTTPError, OSError, ValueError) as error:
            raise self._lost(error, method) from None
        return found.status, found.headers, found.body, found.url

    def _same(self, url: str) -> str:
        """The address, if it is on the account's own server."""
        url = urljoin(self._url, url)
        if _origin(url) != self._origin:
            raise forbidden(
                phrase(
                    "The server of `{name}` leads to `{host}`, which is another server, so the password is not sent "
                    "there.",
                    name=self.name,
                    host=urlsplit(url).hostname or "",
                ),
                advice(
                    "If that is right, ask the user to set it as the `url` of the account.",
                    "If that is right, set it as the `url` of the account.",
                ),
            )
        return url

    def _lost(self, error: Exception, method: str) -> ToolError:
        import httpx2

        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLError):
            cause = cause.__cause__ or cause.__context__
        host = self._origin[1]
        if cause is not None:
            why = getattr(cause, "verify_message", "") or "TLS"
            return ToolError(
                phrase("The certificate of `{host}` cannot be trusted: {why}.", host=host, why=why),
                suggestion=_ASK_USER,
            )
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            return ToolError(
                phrase("No calendar server can be reached at `{host}`.", host=f"{host}:{self._origin[2]}"),
                suggestion=_ASK_USER,
            )
        if method in ("PUT", "DELETE"):
            return ToolError(
                phrase(
                    "Whether the calendar was changed is unknown: the connection was lost before the server said so."
                ),
                suggestion=phrase("Look with FindEvents before you try again."),
            )
        return ToolError(
            phrase("The connection to the calendar server `{host}` was lost.", host=host),
            suggestion=advice("Try again later, or ask the user.", "Try again later."),
        )

    def _refused(self, status: int, url: str) -> ToolError:
        if status in (401, 403):
            return forbidden(
                phrase("The server refused the user or the password of the account `{name}`.", name=self.name)
                if status == 401
                else phrase("The account `{name}` may not do that in this calendar.", name=self.name),
                _ASK_USER,
            )
        if status in (409, 412):
            return ToolError(
                phrase("Somebody else has changed the event meanwhile, so nothing was saved."),
                suggestion=phrase("Look at it again with FindEvents."),
            )
        path = self._secrets.masked(urlsplit(url).path)
        return ToolError(
            phrase("The calendar server answered `{path}` with HTTP {status}.", path=path, status=status),
            kind=ErrorKind.NOT_FOUND if status == 404 else ErrorKind.EXECUTION,
            suggestion=_ASK_USER,
        )


@asynccontextmanager
async def connected(name: str, account: CalendarAccount) -> AsyncGenerator[CalDav]:
    """A conversation with the account's server, with a limit for all of it."""
    httpx2 = await asyncio.to_thread(import_module, "httpx2")  # it takes a while the first time
    secrets = Secrets(account)
    host = urlsplit(secrets.fill("url")).hostname or ""
    async with httpx2.AsyncClient(timeout=account.timeout, trust_env=not is_local(host)) as client:
        try:
            async with asyncio.timeout(account.timeout * _DEADLINES):
                yield CalDav(name, account, client, secrets)
        except TimeoutError:
            raise ToolError(
                phrase("The calendar server of `{name}` did not answer in time.", name=name),
                kind=ErrorKind.TIMEOUT,
                suggestion=advice("Try again later, or ask the user.", "Try again later."),
            ) from None


def answers_in(body: bytes) -> list[tuple[str, Element]]:
    """Addresses and what is said of them in a multi-status answer; a `ToolError` where it is none."""
    from xml.etree.ElementTree import Element, ParseError

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root: Any = fromstring(body, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, RecursionError):
        raise ToolError(
            phrase("The calendar server gave an answer that cannot be read."), suggestion=_ASK_USER
        ) from None
    found: list[tuple[str, Element]] = []
    for answer in root.iter(f"{_DAV}response"):
        props = Element("props")
        for state in answer.iter(f"{_DAV}propstat"):
            if " 200 " in f"{state.findtext(f'{_DAV}status') or ''} ":
                props.extend(list(state.find(f"{_DAV}prop") or ()))
        found.append(((answer.findtext(f"{_DAV}href") or "").strip(), props))
    return found


def events_in(body: bytes) -> list[RemoteEvent]:
    """The events in an answer. Runs in a child."""
    found: list[RemoteEvent] = []
    for href, props in answers_in(body):
        data = props.findtext(f"{_CAL}calendar-data")
        if data:
            name = unquote(urlsplit(href).path.rstrip("/").rpartition("/")[2])
            found.append(RemoteEvent(name, props.findtext(f"{_DAV}getetag") or "", data))
    return found


def _hrefs(found: list[tuple[str, Element]], prop: str) -> list[str]:
    return [href.text.strip() for _, props in found for href in props.iterfind(f"{prop}/{_DAV}href") if href.text]


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    return parts.scheme, (parts.hostname or "").lower(), port or (443 if parts.scheme == "https" else 80)
