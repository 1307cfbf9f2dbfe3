"""`ferrule panel`: one person's own records and plugins in a browser, on this machine alone.

The pages are those of the service. In place of its API stands a small one over the local audit log, which answers in
the same form what can be answered from there: nothing can be approved or called, and nothing changed but plugins.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.responses import Response, StreamingResponse

from ferrule.app.listening import listen, serve_app, url_of
from ferrule.core.errors import MissingExtraError, ToolError
from ferrule.core.http_fetch import is_local
from ferrule.core.languages import catalogue
from ferrule.core.phrases import said_by, translated
from ferrule.panel import calls, plugins, records
from ferrule.panel.app import SESSION_SECONDS, Panel, PanelPage, back_to, keep
from ferrule.plugins import plugin_documents
from ferrule.plugins.plugin_documents import ActionProblem, perform, problem_in
from ferrule.records.database import AuditError
from ferrule.records.reader import AuditReader
from ferrule.records.row import OWN_KINDS
from ferrule.records.verification import verify
from ferrule.service.call_sums import PERIODS, CallFigures, add_duration, statistics_document, step_of
from ferrule.service.documents import shown_time
from ferrule.service.plugin_routes import PluginAgreement, PluginEnable, PluginInstall, language_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from pydantic import BaseModel
    from starlette.types import Receive, Scope, Send

    from ferrule.panel.app import PanelRequest
    from ferrule.records.row import AuditRow

_HOST = "127.0.0.1"
_BACKLOG = 100
_LOOK_SECONDS = 1.0
_REFUSED = "permission_error"
_RAN = ("execute", "format", "record")
_MOST_NESTED = 500
_MOST_DIGITS = 19
"""Of a number that SQLite can hold."""
_TIMES = ("time", "duration", "waited", "queued")
_LAST_SECOND = 253_402_300_800
"""Of the year 9999."""


class LocalRecords:
    """Answers as the service's API does, from the audit log at a path, to whoever has the secret."""

    def __init__(self, path: Path, secret: str, workspace: Path) -> None:
        self._path = path
        self._workspace = workspace
        self._credential = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._respond(scope, receive)
        except AuditError as error:  # the file was moved, or damaged, while it was looked at
            response = _problem(503, "store", translated(said_by(error), catalogue(_language(scope))))
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive) -> Response:
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        parts = scope["path"].strip("/").split("/")[1:]
        if not secrets.compare_digest(dict(scope["headers"]).get(b"authorization", b""), self._credential):
            return _problem(401, "no_key", "Open the address that `ferrule panel` printed.")
        if parts[:1] in (["plugins"], ["offers"]):
            return await self._of_plugins(scope, receive, parts, query)
        if scope["method"] != "GET":
            return _problem(405, "conflict", "These are records; nothing can be changed.")
        if parts == ["events"]:
            return StreamingResponse(self._news(), media_type="text/event-stream")
        if parts == ["audit", "export"]:
            return StreamingResponse(self._reader().export(), media_type="application/x-ndjson")
        return await asyncio.to_thread(self._answer, parts, query)

    def _answer(self, parts: list[str], query: Mapping[str, str]) -> Response:
        match parts:
            case ["me"]:
                document: Any = {
                    "tenant": "", "user": str(self._path), "roles": [], "scopes": ["calls", "admin"], "key": "local",
                    "operator": False, "areas": ["audit", "plugins"],
                }  # fmt: skip
            case ["calls"]:
                document = self._calls(query)
            case ["calls", number, "record"] if (seq := _number(number)) is not None:
                document = self._record(seq)
            case ["statistics"]:
                document = self._statistics(query)
            case ["audit"]:
                document = self._audit(query)
            case ["audit", "verify"]:
                found = verify(self._path)
                document = {
                    "ok": found.ok, "rows": found.rows, "first_bad_seq": found.first_bad_seq, "why": str(found.why),
                    "head": str(found.head) if found.head else "", "gaps": [gap._asdict() for gap in found.gaps],
                }  # fmt: skip
            case _:
                document = None
        if document is None:
            return _problem(404, "not_found", "There is no such record.")
        return Response(json.dumps(document), media_type="application/json")

    async def _of_plugins(self, scope: Scope, receive: Receive, parts: list[str], query: Mapping[str, str]) -> Response:
        """The service's endpoints for plugins, for the one who owns this machine's."""
        language = _language(scope)
        here = str(self._workspace)

        def body(form: type[BaseModel]) -> dict[str, Any]:
            return form.model_validate_json(sent).model_dump()

        sent = (await receive()).get("body", b"")
        try:
            match [scope["method"], *parts]:
                case ["GET", "plugins"]:
                    document: Any = await asyncio.to_thread(plugin_documents.list_plugins)
                case ["GET", "plugins", name]:
                    document = await asyncio.to_thread(plugin_documents.show_plugin, name)
                case ["GET", "offers"]:
                    document = await perform("search", language, words=query.get("q", ""))
                case ["POST", "plugins"]:
                    document = await perform("install", language, **body(PluginInstall), workspace=here)
                case ["POST", "plugins", name, ("enable" | "update") as action]:
                    form = PluginEnable if action == "enable" else PluginAgreement
                    document = await perform(action, language, name=name, **body(form), workspace=here)
                case ["POST", "plugins", name, "disable"]:
                    document = await asyncio.to_thread(plugin_documents.disable, name)
                case ["POST", "plugins", name, "verify"]:
                    document = await perform("verify", language, name=name)
                case ["DELETE", "plugins", name]:
                    document = await perform("remove", language, name=name)
                case _:
                    return _problem(404, "not_found", "There is no such page.")
        except ValidationError as error:
            return _problem(422, "invalid", error.errors()[0]["msg"])
        except (ToolError, MissingExtraError) as error:
            problem = problem_in(language, error)
            return _problem(422, "plugin", problem.message, problem.suggestion)
        except ActionProblem as problem:
            return _problem(422, "plugin", problem.message, problem.suggestion)
        return Response(json.dumps(document), media_type="application/json")

    def _reader(self) -> AuditReader:
        return AuditReader(self._path)

    def _calls(self, query: Mapping[str, str]) -> dict[str, Any]:
        most = min(int(query.get("limit", "50")), 200)
        outcome = {"succeeded": "success", "failed": "failure"}.get(query.get("status", ""))
        if query.get("status") and outcome is None:
            return {"calls": [], "next": None}
        cursor = query.get("cursor", "")
        rows = self._reader().list(
            limit=most + 1, tool=query.get("tool"), user=query.get("user"), session=query.get("session"),
            outcome=outcome, before=_number(cursor),
        )  # fmt: skip
        shown = [_call(row) for row in rows[:most] if row.kind not in OWN_KINDS]
        return {"calls": shown, "next": str(rows[most - 1].seq) if len(rows) > most else None}

    def _record(self, seq: int) -> dict[str, Any] | None:
        found = self._reader().show(seq)
        if found is None:
            return None
        row = _sound(found)
        made = [one for one in self._around(row) if one.session == row.session]
        known, rows = {row.call_id}, [row]
        for one in reversed(made):  # a call ends after those that it made
            if one.parent in known:
                known.add(one.call_id)
                rows.append(one)
        call = _call(row)
        # Ids of calls are used again in other sessions; here a call is known by its row.
        documents = [
            {**one.to_dict(), "parent": call["id"] if one.parent == row.call_id else one.parent} for one in rows
        ]
        documents[0]["call_id"] = call["id"]
        return {
            "call": call, "arguments": _arguments(row.arguments), "attempts": 1, "cost": 0, "cancelling": False,
            "events": _events(row), "rows": documents,
        }  # fmt: skip

    def _around(self, row: AuditRow) -> list[AuditRow]:
        """Rows of the same session that ended while the call ran, the oldest first."""
        return self._reader().list(
            limit=_MOST_NESTED, session=row.session, before=row.seq, since=row.time, until=row.time + row.duration + 1
        )[::-1]

    def _statistics(self, query: Mapping[str, str]) -> dict[str, Any] | None:
        period, by = query.get("period", "day"), query.get("by", "tool")
        if period not in PERIODS or by not in ("tool", "user"):
            return None
        now = time()
        by_step: dict[int, CallFigures] = {}
        by_name: dict[str, CallFigures] = {}
        for row in map(_sound, self._reader().rows(since=now - PERIODS[period][0])):
            at = step_of(row.time, period, now)
            if row.kind in OWN_KINDS or at is None:
                continue
            name = row.tool if by == "tool" else row.user or ""
            for figures in (by_step.setdefault(at, CallFigures()), by_name.setdefault(name, CallFigures())):
                _count(figures, row)
        return statistics_document(period, by, now, by_step, by_name)

    def _audit(self, query: Mapping[str, str]) -> dict[str, Any]:
        most = min(int(query.get("limit", "50")), 1000)
        reader = self._reader()
        if "after" in query:
            row = reader.show(int(query["after"]) + 1)
            return {"rows": [row.to_dict()] if row is not None else [], "next": None}
        start = _number(query.get("before", ""))
        words, last = query.get("q", "").lower(), None
        at_once = 2_000 if words else most
        found: list[AuditRow] = []
        for _ in range(20):  # some thousand rows at a time: whoever wants more goes on from there
            rows = reader.list(
                limit=at_once, tool=query.get("tool"), user=query.get("user"),
                outcome=query.get("outcome"), before=start,
            )  # fmt: skip
            found += [row for row in rows if not words or _has(row, words)]
            last = start = rows[-1].seq if len(rows) == at_once else None
            if len(found) >= most or last is None or not words:
                break
        shown = found[:most]
        following = shown[-1].seq if len(found) >= most else last
        return {"rows": [row.to_dict() for row in shown], "next": following if following and following > 1 else None}

    async def _news(self) -> AsyncIterator[str]:
        """Says `reset` whenever there are new rows: the page fetches its list again."""
        seen = await asyncio.to_thread(self._newest)
        yield ": ferrule\n\n"
        quiet = 0
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            newest = await asyncio.to_thread(self._newest)
            quiet = 0 if newest != seen else quiet + 1
            if newest != seen:
                seen = newest
                yield f"id: {newest}\nevent: reset\ndata: {{}}\n\n"
            elif quiet % 15 == 14:
                yield ": still here\n\n"

    def _newest(self) -> int:
        try:
            rows = self._reader().list(limit=1)
        except AuditError:
            return -1  # it may come back, which is news too
        return rows[0].seq if rows else 0


def _problem(status: int, code: str, detail: str, suggestion: str = "") -> Response:
    document = {"code": code, "detail": detail, "suggestion": suggestion}
    return Response(json.dumps(document), status, media_type="application/problem+json")


def _language(scope: Scope) -> str:
    return language_in(dict(scope["headers"]).get(b"accept-language", b"").decode("latin-1"))


def _number(text: str) -> int | None:
    """A row's number as an address has it; None where that is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS else None


def _has(row: AuditRow, words: str) -> bool:
    """Whether a row has some words, as they are or as the JSON of its arguments writes them."""
    text = "\n".join(map(str, row)).lower()
    return words in text or any(json.dumps(words, ensure_ascii=one)[1:-1] in text for one in (True, False))


def _sound(row: AuditRow) -> AuditRow:
    """A row to reckon with. Where somebody put something else in place of a time, the pages of the log show that."""
    odd = {name: 0.0 for name in _TIMES if not _is_time(getattr(row, name))}
    return row._replace(**odd) if odd else row


def _is_time(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value < _LAST_SECOND)


def _call(given: AuditRow) -> dict[str, Any]:
    """A row of the log in the form of a stored call; what the call gave is not in the log."""
    row = _sound(given)
    took = row.duration + (row.waited or 0.0) + (row.queued or 0.0)
    result = None
    if row.error is not None:
        shown = dict.fromkeys(("llm_content", "display_content"), row.error)
        result = {**shown, "data": None, "metadata": {"type": row.outcome}}
    return {
        "id": str(row.seq), "tool": row.tool, "version": row.version, "user": row.user or "", "session": row.session,
        "status": "succeeded" if row.outcome == "success" else "failed", "batch": None, "approval": None,
        "created_at": shown_time(row.time), "started_at": shown_time(row.time),
        "finished_at": shown_time(row.time + took), "metadata": {}, "result": result,
    }  # fmt: skip


def _events(row: AuditRow) -> list[dict[str, Any]]:
    end = "call.succeeded" if row.outcome == "success" else "call.failed"
    took = row.duration + (row.waited or 0.0) + (row.queued or 0.0)
    moments = [("call.created", row.time), (end, row.time + took)]
    if row.waited:
        moments.insert(1, ("approval.decided", row.time + row.waited))
    return [{"id": at, "type": kind, "at": shown_time(when), "data": {}} for at, (kind, when) in enumerate(moments, 1)]


def _arguments(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return text


def _count(figures: CallFigures, row: AuditRow) -> None:
    figures.calls += 1
    figures.failed += row.outcome != "success"
    figures.denied += row.outcome == _REFUSED and row.stage not in _RAN
    if row.stage in _RAN:
        figures.waited += (row.waited or 0.0) + (row.queued or 0.0)
        add_duration(figures.durations, row.duration)


class LocalSignIn:
    """The address that is printed holds a token that opens the panel once; the browser keeps another in a cookie."""

    def __init__(self) -> None:
        self.cookie = f"ferrule_panel_{secrets.token_hex(4)}"
        self.token = secrets.token_urlsafe(32)
        self.session = secrets.token_urlsafe(32)
        self.pages = (
            PanelPage("GET", "/open/{token}", self.enter, open=True),
            PanelPage("GET", "/sign-in", self.explain, open=True),
        )

    async def enter(self, request: PanelRequest) -> Response:
        if not self.token or not secrets.compare_digest(request.parts["token"].encode(), self.token.encode()):
            return await self.explain(request)
        self.token = ""
        response = back_to("/")
        keep(response, self.cookie, self.session, seconds=SESSION_SECONDS, secure=False)
        return response

    async def explain(self, request: PanelRequest) -> Response:
        return request.render("locked.html", 403)

    def credential(self, cookie: str) -> str:
        return self.session if secrets.compare_digest(cookie.encode(), self.session.encode()) else ""

    def is_secure(self, request: PanelRequest) -> bool:
        return False

    def refuses(self, request: PanelRequest) -> bool:
        """Whether it came under a name that is not this machine's: a page elsewhere may have that point here."""
        host = request.header(b"host").rpartition(":")[0] or request.header(b"host")
        return not is_local(host.strip("[]"))


def local_panel(path: Path, workspace: Path) -> tuple[Panel, LocalSignIn]:
    """The panel over the audit log at a path, and what opens it."""
    kept = ("/", "/events", "/calls/{id}")
    pages = (*(one for one in calls.PAGES if one.path in kept), *records.PAGES, *plugins.PAGES)
    sign_in = LocalSignIn()
    return Panel(LocalRecords(path, sign_in.session, workspace), sign_in, pages), sign_in


async def serve_local(
    panel: Panel, port: int, ready: Callable[[str], None], until: asyncio.Event | None = None
) -> None:
    """Serve on this machine alone until Ctrl-C or SIGTERM, or until the event is set; `ready` hears the address."""
    with listen(_HOST, port, _BACKLOG) as listening:
        ready(url_of(_HOST, listening.getsockname()[1]))
        await serve_app(panel, listening, until=until, http="httptools", timeout_graceful_shutdown=1)
