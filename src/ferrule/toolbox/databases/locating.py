"""Where a database is: from its URL and the session to an order that a child carries out, and to what it may touch."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ferrule import ToolError, Touch
from ferrule.extension import Cancellation, Paths, advice, files_of, phrase
from ferrule.toolbox.accounts import Accounts, DatabaseAccount, Secrets, named
from ferrule.toolbox.child import ChildAnswer, ChildBounds, in_child
from ferrule.toolbox.failures import forbidden, invalid, not_found

if TYPE_CHECKING:
    from ferrule import Session

EngineName = Literal["sqlite", "duckdb", "postgresql", "mysql"]
FILES = "files"
"""The database that every workspace has where DuckDB is installed: its CSV and Parquet files."""
ENGINE_NAMES = {"sqlite": "SQLite", "duckdb": "DuckDB", "postgresql": "PostgreSQL", "mysql": "MySQL"}
PLACEHOLDERS = {"sqlite": "?", "duckdb": "?", "postgresql": "$1", "mysql": "%s"}
_SCHEMES: dict[str, EngineName] = {
    "sqlite": "sqlite", "duckdb": "duckdb", "postgresql": "postgresql", "postgres": "postgresql", "mysql": "mysql",
    "mariadb": "mysql",
}  # fmt: skip
_PORTS = {"postgresql": 5432, "mysql": 3306}
_OPTIONS = {
    "postgresql": frozenset({"host", "sslmode", "sslrootcert", "sslcert", "sslkey"}),
    "mysql": frozenset({"unix_socket", "ssl_ca", "ssl_cert", "ssl_key"}),
}
_NAMES_A_FILE = frozenset({"sslrootcert", "sslcert", "sslkey", "ssl_ca", "ssl_cert", "ssl_key"})
_TABULAR = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages"})
_MOST_FILES = 2000
_MAGIC: tuple[tuple[EngineName, int, bytes], ...] = (("sqlite", 0, b"SQLite format 3\0"), ("duckdb", 8, b"DUCK"))
"""Where a file says what it is."""
_BESIDE = {"sqlite": ("-wal", "-shm", "-journal"), "duckdb": (".wal",)}
_STOP_SECONDS = 6.0
_SECONDS_TO_START, _SECONDS_TO_CONNECT = 10.0, 20.0
"""What a child has beside the statement's own time."""


@dataclass(slots=True, frozen=True)
class Target:
    """One database as a session reaches it."""

    name: str
    engine: EngineName
    account: DatabaseAccount
    path: Path | None = None
    """Of one that is a file: where it really is."""

    @property
    def is_files(self) -> bool:
        return self.account.url == f"{FILES}:"

    def touches(self, session: Session, *, write: bool = False) -> tuple[Touch, ...]:
        own = Touch(f"database:{self.name}", write)
        if self.is_files:
            return (own, Touch(f"path:{files_of(session).paths.roots[0].path}"))
        return (own, Touch(f"path:{self.path}", write)) if self.path is not None else (own,)


def engine_of(account: DatabaseAccount) -> EngineName | None:
    """The engine that a URL names, if it names one."""
    return "duckdb" if account.url == f"{FILES}:" else _SCHEMES.get(account.url.partition(":")[0].partition("+")[0])


def find_database(accounts: Accounts, name: str, session: Session, *, write: bool = False) -> Target:
    """The database of this name, or the file at this path. A relative file must be in the workspace, and rules about it
    hold.
    """
    if name not in accounts.databases:
        return _at_path(accounts, name, session, write=write)
    account = accounts.databases[name]
    engine = engine_of(account)
    if engine is None:
        raise _wrong(name, phrase("it must begin with sqlite:///, duckdb:///, postgresql:// or mysql://"))
    target = Target(name, engine, account)
    if write and (account.read_only or target.is_files):
        raise forbidden(
            phrase("The database `{name}` is read-only here.", name=name),
            advice("Do not try to change it another way; ask the user.", "Your settings for this database say so."),
        )
    if target.is_files or engine not in _BESIDE:
        return target
    given = Secrets(account).fill("url").partition("://")[2]
    if not given.startswith("/") or len(given) < 2 or "?" in given:
        raise _wrong(name, phrase("write a file as {engine}:///folder/file.db", engine=engine))
    return Target(name, engine, account, _file_of(unquote(given[1:]), session, write=write))


def _at_path(accounts: Accounts, given: str, session: Session, *, write: bool) -> Target:
    """A file of the workspace that the settings do not name. What it holds says which engine reads it."""
    paths = files_of(session).paths
    place = paths.locate(given)
    if not paths.exists(place):
        more = phrase(
            "The path of a SQLite or DuckDB file in the workspace works too; other databases need `[databases.NAME]` "
            "with a `url` in the user's settings."
        )
        named(accounts.databases, given, "database", more)
    if write:
        raise forbidden(
            phrase("`{place}` is read-only here, because it is not in the settings.", place=place),
            advice(
                'Ask the user to add it: `[databases.NAME]` with `url = "sqlite:///{place}"`.',
                'Add it to your settings: `[databases.NAME]` with `url = "sqlite:///{place}"`.',
                place=place,
            ),
        )
    head = paths.read(place, 16)
    engine: EngineName | None = next((one for one, start, magic in _MAGIC if head.startswith(magic, start)), None)
    if engine is None:
        raise invalid(
            phrase("`{place}` is neither a SQLite nor a DuckDB file.", place=place),
            phrase("CSV and Parquet files are in the database `files`.") if FILES in accounts.databases else None,
        )
    return Target(place.name, engine, DatabaseAccount(f"{engine}:///{place.name}"), place.path)


def _file_of(given: str, session: Session, *, write: bool) -> Path:
    paths = files_of(session).paths
    if given.startswith(("/", "~/")):  # the user wrote it
        path = Path(os.path.realpath(Path(given).expanduser()))
        paths.kept.require_read(path, path.name)
        if write:
            paths.kept.require_write(path, path.name)
        if not path.is_file():
            raise not_found(phrase("There is no database file `{name}`.", name=path.name))
        return path
    place = paths.find(str(session.workspace / given))
    paths.kept.require_read(place.path, place.name)
    if write:
        paths.require_writable(place, place.name)
    found = paths.stat(place)
    if found is None or not stat.S_ISREG(found.st_mode):
        raise ToolError(phrase("`{place}` is not a database file.", place=place))
    return place.path


def _wrong(name: str, why: str) -> ToolError:
    return ToolError(
        phrase("The `url` of the database `{name}` cannot be used: {why}.", name=name, why=why),
        suggestion=advice("Ask the user to correct it in the settings.", "Correct it in the settings."),
    )


def run_in_child(
    target: Target,
    session: Session,
    action: str,
    cancellation: Cancellation | None = None,
    **more: Any,
) -> ChildAnswer:
    """Have one order carried out; errors hold no secret."""
    secrets = Secrets(target.account)
    seconds = float(target.account.timeout)
    order: dict[str, Any] = {"engine": target.engine, "action": action, "seconds": seconds, "files": [], **more}
    readable: list[str] = []
    writable: list[str] = []
    if target.is_files:
        paths = files_of(session).paths
        found = list(_tabular_files(paths))
        readable = [one[0] for one in found]
        order |= {"files": found, "listed": readable, "root": str(paths.roots[0].path)}
    elif target.path is not None:
        path = str(target.path)
        status = target.path.stat()
        order |= {"path": path, "files": [(path, status.st_dev, status.st_ino)]}
        readable = [path, *(path + end for end in _BESIDE[target.engine])]
        writable = [str(target.path.parent)] if action == "change" else []
    else:
        server = _server(target, secrets)
        order |= server
        readable = [value for name, value in server["options"].items() if name in _NAMES_A_FILE]
    on_network = target.path is None and not target.is_files
    bounds = ChildBounds(
        seconds=seconds + (_SECONDS_TO_CONNECT if on_network else _SECONDS_TO_START),
        network=on_network,
        folders=readable,
        writable=writable,
        stop_seconds=_STOP_SECONDS,
    )
    what = phrase("The database `{name}`", name=target.name)
    try:
        return in_child(
            "ferrule.toolbox.databases.statements:work", order, what=what, bounds=bounds, cancellation=cancellation
        )
    except ToolError as error:
        raise ToolError(
            secrets.masked(error.message),
            kind=error.kind,
            suggestion=secrets.masked(error.suggestion) if error.suggestion else None,
            details=error.details,
        ) from None


def _server(target: Target, secrets: Secrets) -> dict[str, Any]:
    """What a driver needs to connect. A password belongs into `password`, where nothing shows it."""
    name = target.name
    try:
        url = urlsplit(secrets.fill("url"))
        port = url.port or _PORTS[target.engine]
    except ValueError:
        raise _wrong(name, phrase("it is not a URL")) from None
    if url.password is not None:
        secrets.hide("url", url.password)
        raise _wrong(name, phrase("it holds a password; write that into `password`, best as a reference"))
    options = dict(parse_qsl(url.query))
    if unknown := [one for one in options if one not in _OPTIONS[target.engine]]:
        raise _wrong(name, phrase("it has no option `{option}`", option=unknown[0]))
    password = secrets.fill("password")
    if password:
        for form in {quote(password), quote(password, safe=""), repr(password)[1:-1]} - {password}:
            secrets.hide("password", form)
    host = options.pop("host", None) or unquote(url.hostname or "")
    return {
        "host": host,
        "port": port,
        "user": unquote(url.username or ""),
        "dbname": unquote(url.path.removeprefix("/")),
        "password": password,
        "options": {
            one: str(Path(value).expanduser()) if one in _NAMES_A_FILE else value for one, value in options.items()
        },
    }


def _tabular_files(paths: Paths) -> Iterator[tuple[str, int, int]]:
    """The CSV and Parquet files that the workspace's rules let a search read, each with what tells it from others."""
    count = 0
    root = paths.roots[0]
    for folder, below, names, opened in os.fwalk(".", dir_fd=root.descriptor, follow_symlinks=False):
        below[:] = sorted(one for one in below if not one.startswith(".") and one not in _PASSED_OVER)
        for name in sorted(one for one in names if one.lower().endswith(_TABULAR)):
            path = root.path / folder / name
            if paths.kept.hidden(path) or paths.kept.held_back(path, root.path):
                continue
            found = os.stat(name, dir_fd=opened, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                yield str(path), found.st_dev, found.st_ino
                count += 1
        if count > _MOST_FILES:
            return
