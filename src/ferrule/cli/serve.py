"""`ferrule serve`: the tools over HTTP, for many tenants; and `ferrule serve migrate` for its database."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import localtime, strftime, time
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.options import PlainError, settings_for, warn
from ferrule.cli.output import write, write_past_buffers
from ferrule.cli.words import _, said_of
from ferrule.core.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Generator

    from ferrule.service.service import Service

_WRITE_SECONDS = 0.2
_CLOSE_SECONDS = 2.0
_MOST_TEXTS = 1_000
_NEEDED = (
    "sqlalchemy",
    "alembic",
    "starlette",
    "uvicorn",
    "httptools",
    "psycopg",
    "jwt",
    "jinja2",
    "typing_extensions",
)


def database_option(command: Any) -> Any:
    return click.option(
        "--database", metavar="URL", help=_("`sqlite:////path/to/file.db` or `postgresql://user@host/name`.")
    )(command)


@click.group(
    "serve",
    invoke_without_command=True,
    help=_("Serve the tools over HTTP, for many tenants, users and agents."),
    epilog=_("The first start prints an API key. SIGTERM lets running calls end before the service does."),
)
@click.option("--host", help=_("The address to listen on; this machine alone by default."))
@click.option("--port", type=click.IntRange(0, 65535), help=_("The port to listen on; 8760 by default."))
@database_option
@click.option(
    "--workspace-root",
    type=click.Path(file_okay=False, path_type=Path),
    help=_("Where each user of each tenant gets a folder."),
)
@click.pass_context
def serve_command(
    context: click.Context, host: str | None, port: int | None, database: str | None, workspace_root: Path | None
) -> None:
    given = {"host": host, "port": port, "database": database, "workspace_root": workspace_root}
    flags = {name: value for name, value in given.items() if value is not None}
    context.obj = flags
    if context.invoked_subcommand is not None:
        return
    loaded = settings_for(Path(), {"service": flags} if flags else {})
    try:
        from ferrule.panel.sign_in import panel_of
        from ferrule.service.database import DatabaseProblem
        from ferrule.service.service import Service
        from ferrule.service.serving import serve
        from ferrule.service.sessions import UnsafePlace
    except ModuleNotFoundError as error:
        raise missing_service(error) from None
    try:
        settings = loaded.settings.service
        service = Service(loaded.settings, Path().resolve())
        for note in service.notes:
            warn(note)
        with _lines_on_stderr():
            asyncio.run(
                serve(
                    service, settings.host, settings.port, pages=panel_of(settings),
                    ready=lambda bound: _greet(service, settings.host, bound),
                )
            )  # fmt: skip
    except (DatabaseProblem, UnsafePlace, ValueError) as error:
        raise PlainError(said_of(error)) from None


@serve_command.command("migrate", help=_("Bring the database's schema up to date; instances wait for it."))
@database_option
@click.pass_obj
def migrate(flags: dict[str, Any], database: str | None) -> None:
    if database is not None:
        flags = {**flags, "database": database}
    loaded = settings_for(Path(), {"service": flags} if flags else {})
    try:
        from ferrule.service.database import Database, DatabaseProblem
        from ferrule.service.service import database_url
    except ModuleNotFoundError as error:
        raise missing_service(error) from None
    try:
        store = Database(database_url(loaded.settings.service), owner=True)
        before, after = store.migrate()
        store.close()
    except DatabaseProblem as error:
        raise PlainError(said_of(error)) from None
    if before == after:
        write(_("The schema is current ({revision}).").format(revision=after))
    else:
        write(_("The schema is at {revision} now.").format(revision=after))


def _greet(service: Service, host: str, port: int) -> None:
    from ferrule.app.listening import url_of
    from ferrule.core.http_fetch import is_local

    url = url_of(host, port)
    write(_("Listening on {url} (Ctrl-C stops it)").format(url=url), err=True)
    if not is_local(host):
        warn(_("Other machines can reach this, and HTTP is not encrypted: put a proxy with TLS in front of it."))
    if service.first_key is None:
        return
    write(_("API key of the first administrator, shown this once: {key}").format(key=service.first_key), err=True)
    write(_("Try it:"), err=True)
    write(
        f"  curl -sS {url}/v1/calls -H 'Authorization: Bearer {service.first_key}' "
        "-H 'Content-Type: application/json' -d '{\"tool\": \"getCurrentDateTime\"}'",
        err=True,
    )
    write(_("Or open {url} in a browser, and sign in with the key.").format(url=url), err=True)


class LogWriter:
    """Standard error, written by a thread of its own: whoever stops reading it holds nobody up."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._lost = self._reported = 0  # each is only ever set by one side
        self._news = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._write_on, name="ferrule-log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        if len(self._texts) < _MOST_TEXTS:
            self._texts.append(text)
        else:
            self._lost += text.count("\n") + 1
        self._news.set()

    def close(self) -> bool:
        """Whether all is written, and nobody waits for a reader."""
        self._ended = True
        self._news.set()
        self._thread.join(_CLOSE_SECONDS)
        return not self._thread.is_alive()

    def _write_on(self) -> None:
        while not self._ended or self._texts:
            self._news.wait()
            self._news.clear()
            while self._texts:
                text = self._texts.popleft()
                if missing := self._lost - self._reported:
                    self._reported += missing
                    text += "\n" + _("{n} lines are missing here: nobody was reading.").format(n=f"{missing:,}")
                with suppress(OSError, ValueError):  # standard error is closed
                    write_past_buffers(text)


class ServiceLines(logging.Handler):
    """What the service logs, safe for a terminal: a line may quote whatever a client sent."""

    def __init__(self, lines: LogWriter) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.write(self.format(record))


_BY_THE_THOUSAND = ("ferrule.calls", "ferrule.access")


class AccessLines(logging.Handler):
    """Lines that come by the thousand: written together, a few times a second."""

    def __init__(self, lines: LogWriter) -> None:
        super().__init__()
        self._written = lines
        self._lines: deque[str] = deque()
        self._waiting = False
        self._second = (0, "")

    def handle(self, record: logging.LogRecord) -> bool:  # without a lock: what it does is one step
        if said := _is_for_operators(record):
            self.emit(record)
        return said

    def emit(self, record: logging.LogRecord) -> None:
        self._add(record.created, record.levelno, record.getMessage())

    def add_line(self, level: int, words: str, args: tuple[Any, ...]) -> None:
        """A line without a record of it; see `telemetry.add_line`."""
        self._add(time(), level, words % args)

    def _add(self, moment: float, level: int, said: str) -> None:
        """As the formatter of the other lines does, without putting the same second together each time."""
        second, text = self._second
        if (now := int(moment)) != second:
            text = strftime("%Y-%m-%d %H:%M:%S", localtime(now))
            self._second = now, text
        name = "INFO" if level == logging.INFO else logging.getLevelName(level)
        self._lines.append(f"{text},{int((moment - now) * 1000):03d} {name} {said}")
        if not self._waiting:
            try:
                asyncio.get_running_loop().call_later(_WRITE_SECONDS, self.flush)
                self._waiting = True
            except RuntimeError:  # from a thread without a loop
                self.flush()

    def flush(self) -> None:
        self._waiting = False
        if lines := [self._lines.popleft() for _ in range(len(self._lines))]:
            self._written.write("\n".join(lines))


@contextmanager
def _lines_on_stderr() -> Generator[None]:
    """Lines of the service and of each request, where nobody has set up logging. All are written by the end, if anyone
    reads them, and logging is as it was.
    """
    written = LogWriter()
    try:
        with ExitStack() as undoing:
            many = AccessLines(written)  # one for both, so that lines stay in order
            lines = {"ferrule.service": ServiceLines(written), **dict.fromkeys(_BY_THE_THOUSAND, many)}
            for name, handler in lines.items() if not logging.getLogger().handlers else ():
                handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
                handler.addFilter(_is_for_operators)
                logger = logging.getLogger(name)
                undoing.callback(setattr, logger, "propagate", logger.propagate)
                undoing.callback(logger.setLevel, logger.level)
                undoing.callback(logger.removeHandler, handler)
                logger.addHandler(handler)
                logger.setLevel(logging.INFO)
                logger.propagate = False
            undoing.callback(many.flush)  # what was asked last stands before the end
            yield
    finally:
        is_read = written.close()
    if is_read:
        write(_("Stopped."), err=True)


def _is_for_operators(record: logging.LogRecord) -> bool:
    """Not the traceback of a tool: it may hold anything that a tenant sent, and the call has its error."""
    return record.name != "ferrule.calls" or record.exc_info is None


def missing_service(error: ModuleNotFoundError) -> Exception:
    name = (error.name or "").partition(".")[0]
    return MissingExtraError(_("`ferrule serve`"), "service") if name in _NEEDED else error
