"""A mailbox on an IMAP server: opened for one call over TLS, searched, read and changed, whatever the server answers.

No text that came from a model reaches the server before `require_plain` has seen it: a line break in a search would be
a second command. All that the server sends is bounded, in bytes and in time.
"""

from __future__ import annotations

import contextlib
import imaplib
import os
import re
import socket
import ssl
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from imap_tools.errors import ImapToolsError
from imap_tools.mailbox import BaseMailBox
from imap_tools.utils import encode_folder

from ferrule import ErrorKind, ToolError
from ferrule.extension import advice, is_local, nearest, phrase
from ferrule.toolbox.accounts import MailAccount, Secrets
from ferrule.toolbox.failures import forbidden, invalid, not_found
from ferrule.toolbox.mail_message import MailHeader, plain_line, readable, require_plain

if TYPE_CHECKING:
    from ferrule.extension import Cancellation

MOST_OF_A_MESSAGE = 50_000_000
"""Bytes of a message that are fetched."""
_MOST_ANSWERED = 80_000_000
_MOST_OF_A_HEADER = 20_000
_FIELDS = "DATE FROM TO CC SUBJECT MESSAGE-ID"
_DEADLINES = 4
"""How many times its time limit a whole conversation with a server may take."""


# Servers: where they are, and how they are reached


class MailServer(NamedTuple):
    """Where a server listens. Without `tls` from the start, STARTTLS is required unless it is on this machine."""

    host: str
    port: int
    tls: bool

    @property
    def local(self) -> bool:
        return is_local(self.host)

    @property
    def words(self) -> str:
        return f"{self.host}:{self.port}"

    def context(self, *, upgrade: bool = False) -> ssl.SSLContext:
        """What TLS is spoken with. The certificate of a server on this machine proves nothing after STARTTLS."""
        if not (upgrade and self.local):
            return _trusting(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        return made


@lru_cache(maxsize=4)
def _trusting(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    """All certificates that this machine trusts, read once for each place that they are in."""
    return ssl.create_default_context()


_PORTS = {"imap": 143, "imaps": 993, "smtp": 587, "smtps": 465}


def server_at(url: str, protocol: str) -> MailServer:
    """The server that a setting names: `imaps://imap.example.org`, `smtp://localhost:2525`."""
    try:
        parts = urlsplit(require_plain(protocol, url))
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in (protocol, f"{protocol}s") or not host or parts.username or parts.path not in ("", "/"):
        raise ToolError(
            phrase("`{protocol}` of this account must be `{protocol}s://host`, with `:port` where it is unusual.",
                   protocol=protocol),
            suggestion=advice("Ask the user to correct it in their settings, and to run `ferrule toolbox check`.",
                              "Correct it in your settings, and run `ferrule toolbox check`."),
        )  # fmt: skip
    return MailServer(host, port or _PORTS[parts.scheme], parts.scheme.endswith("s"))


def explained(error: BaseException, server: MailServer, secrets: Secrets, seconds: float) -> ToolError:
    """What went wrong on the way to a server, in words without a secret."""
    asking = advice(
        "Ask the user to look at the account's settings, and to run `ferrule toolbox check`.",
        "Look at the account's settings, and run `ferrule toolbox check`.",
    )
    later = advice("Try again later, or ask the user.", "Try again later.")
    at = server.words
    if isinstance(error, ToolError):
        return error
    if isinstance(error, socket.gaierror):
        return ToolError(phrase("There is no host `{host}`.", host=server.host), suggestion=asking)
    if isinstance(error, ConnectionRefusedError):
        return ToolError(phrase("No server listens at `{at}`.", at=at), suggestion=asking)
    if isinstance(error, ssl.SSLCertVerificationError):
        return ToolError(
            phrase("The certificate of `{at}` cannot be trusted: {why}.", at=at, why=error.verify_message),
            suggestion=asking,
        )
    if isinstance(error, ssl.SSLError):
        return ToolError(phrase("The server at `{at}` does not speak TLS as it should.", at=at), suggestion=asking)
    if isinstance(error, TimeoutError):
        return ToolError(
            phrase("The server at `{at}` did not answer within {seconds} s.", at=at, seconds=f"{seconds:g}"),
            kind=ErrorKind.TIMEOUT,
            suggestion=later,
        )
    if isinstance(error, imaplib.IMAP4.abort | ConnectionError | EOFError):
        return ToolError(phrase("The connection to `{at}` was lost.", at=at), suggestion=later)
    said = plain_line(secrets.masked(str(error)))[:300]
    return ToolError(phrase("The server at `{at}` refused the request", at=at).because(said), suggestion=later)


def login_refused(name: str) -> ToolError:
    return forbidden(
        phrase("The server refused the user or the password of the account `{name}`.", name=name),
        advice(
            "Ask the user to correct them, and to run `ferrule toolbox check`.",
            "Correct them, and run `ferrule toolbox check`.",
        ),
    )


# The connection


class _BoundedClient(imaplib.IMAP4):
    """Stops listening to a server that sends more than anyone asked for."""

    def __init__(self, server: MailServer, timeout: float, clients: list[_BoundedClient]) -> None:
        self._server = server
        self._left = _MOST_ANSWERED
        clients.append(self)
        super().__init__(server.host, server.port, timeout)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        made: socket.socket = cast("Any", super())._create_socket(timeout)  # noqa: SLF001 - its own
        return self._server.context().wrap_socket(made, server_hostname=self.host) if self._server.tls else made

    def read(self, size: int) -> bytes:
        self._spend(size)
        return super().read(size)

    def readline(self) -> bytes:
        line = super().readline()
        self._spend(len(line))
        return line

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self.error(f"it sent more than {_MOST_ANSWERED:,} bytes")


@dataclass(slots=True, frozen=True)
class MessageId:
    """One message for good: a folder that was created again has another `validity`, and its numbers other mails."""

    account: str
    folder: str
    validity: int
    uid: int

    def __str__(self) -> str:
        return f"{self.account}/{self.folder}/{self.validity}/{self.uid}"


def message_id(text: str, account: str) -> MessageId:
    """Read an id; a `ToolError` says what it should be."""
    found = re.fullmatch(r"(?P<folder>.+)/(?P<validity>[0-9]{1,10})/(?P<uid>[0-9]{1,10})",
                         require_plain("id", text).removeprefix(f"{account}/"))  # fmt: skip
    if found is None or not text.startswith(f"{account}/"):
        raise invalid(
            phrase("`{id}` is not the id of a message in `{account}`.", id=text[:200], account=account),
            phrase("Take the id from a result of SearchMail."),
        )
    return MessageId(account, found["folder"], int(found["validity"]), int(found["uid"]))


class Mailbox(BaseMailBox):
    """The account's mailbox, opened for one call."""

    def __init__(self, name: str, server: MailServer, timeout: float, clients: list[_BoundedClient]) -> None:
        self.name = name
        self._opening = server, timeout, clients
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        server, timeout, clients = self._opening
        client = _BoundedClient(server, timeout, clients)
        if not server.tls and ("STARTTLS" in client.capabilities or not server.local):
            if "STARTTLS" not in client.capabilities:
                client.shutdown()
                raise ToolError(
                    phrase("The server at `{at}` offers no TLS, so no password is sent to it.", at=server.words),
                    suggestion=advice('Ask the user to set `imap = "imaps://…"` for this account.',
                                      'Set `imap = "imaps://…"` for this account.'),
                )  # fmt: skip
            client.starttls(server.context(upgrade=True))
        return client

    def sign_in(self, user: str, password: str) -> None:
        try:
            if user.isascii() and password.isascii():
                self.login(require_plain("user", user), require_plain("password", password), initial_folder=None)
            else:
                self.login_utf8(user, password, initial_folder=None)
        except (ImapToolsError, imaplib.IMAP4.error) as error:
            if isinstance(error, imaplib.IMAP4.abort):
                raise
            raise login_refused(self.name) from None

    def enter(self, folder: str, *, write: bool = False, validity: int | None = None) -> int:
        """Work in a folder; gives its validity, and refuses where that is not the one that an id was made with."""
        try:
            cast("Any", self.folder).set(require_plain("folder", folder), readonly=not write)
        except ImapToolsError:
            names = [one.name for one in self.folder.list()][:500]
            if folder in names:
                raise
            close = nearest(folder, names, most=1)
            raise not_found(
                phrase("There is no folder `{folder}` in `{name}`.", folder=folder, name=self.name),
                phrase("Did you mean `{name}`?", name=close[0])
                if close
                else phrase("Known names: {names}.", names=", ".join(f"`{one}`" for one in names[:30])),
            ) from None
        said: Any = self.client.response("UIDVALIDITY")[1]
        now = int(said[-1]) if said and said[-1] else 0
        if validity is not None and now != validity:
            raise not_found(
                phrase(
                    "The folder `{folder}` was deleted and created again, so the id no longer means a message.",
                    folder=folder,
                ),
                phrase("Search again with SearchMail."),
            )
        return now

    def find(self, wanted: Sequence[tuple[str, str]]) -> list[int]:
        """The messages of the folder that fit, newest first: `[("FROM", "ann"), ("UNSEEN", "")]`."""
        keys = [f"{key} {_quoted(key, value)}" if value else key for key, value in wanted]
        criteria = " ".join(keys) or "ALL"
        charset = None if criteria.isascii() else "UTF-8"
        found = self.uids(criteria.encode(), charset)
        return sorted(map(int, filter(str.isdigit, found)), reverse=True)

    def headers(self, folder: str, validity: int, uids: Sequence[int]) -> list[MailHeader]:
        """Who wrote what and when: only headers are fetched, and only those."""
        if not uids:
            return []
        what = f"(UID FLAGS RFC822.SIZE INTERNALDATE BODY.PEEK[HEADER.FIELDS ({_FIELDS})]<0.{_MOST_OF_A_HEADER}>)"
        found = {uid: (about, raw) for uid, about, raw in self._fetched(uids, what)}
        listed: list[MailHeader] = []
        for uid in uids:
            if uid not in found:
                continue  # it was deleted meanwhile
            about, raw = found[uid]
            fields = BytesHeaderParser().parsebytes(raw)
            flags = _part(rb"FLAGS \(([^)]*)\)", about).split()
            listed.append(
                {
                    "id": str(MessageId(self.name, folder, validity, uid)),
                    "date": _date(str(fields.get("Date", "")), _part(rb'INTERNALDATE "([^"]*)"', about)),
                    "sender": readable(fields.get("From")),
                    "to": readable(fields.get("To")),
                    "subject": readable(fields.get("Subject")),
                    "unread": r"\Seen" not in flags,
                    "flagged": r"\Flagged" in flags,
                    "answered": r"\Answered" in flags,
                    "size": int(_part(rb"RFC822\.SIZE ([0-9]+)", about) or 0),
                }
            )
        return listed

    def raw(self, uid: int, what: str = "") -> bytes:
        """The bytes of a message in the folder, as far as they are fetched; reading does not mark it as read."""
        for found, _about, raw in self._fetched([uid], f"(UID BODY.PEEK[{what}]<0.{MOST_OF_A_MESSAGE}>)"):
            if found == uid:
                return raw
        raise not_found(phrase("The message is no longer in this folder."), phrase("Search again with SearchMail."))

    def _fetched(self, uids: Sequence[int], what: str) -> Iterator[tuple[int, bytes, bytes]]:
        """The number of each message, what is said about it, and its bytes."""
        answer: list[Any] = self._done("FETCH", self.client.uid("FETCH", _listed(uids), what))
        for piece, after in zip(answer, [*answer[1:], b""], strict=True):
            if piece is None or isinstance(piece, bytes):
                continue
            about = cast("bytes", piece[0]) + (after if isinstance(after, bytes) else b"")
            if number := _part(rb"UID ([0-9]+)", about):
                yield int(number), about, cast("bytes", piece[1])

    # Changes

    def mark(self, uids: Sequence[int], flag: str, *, on: bool) -> None:
        """Set or remove a flag; nothing is expunged, for others may have marked something to delete."""
        self._done("STORE", self.client.uid("STORE", _listed(uids), "+FLAGS" if on else "-FLAGS", f"({flag})"))

    def move_to(self, uids: Sequence[int], folder: str) -> list[MessageId]:
        """Move messages; gives their new ids where the server says them."""
        target: Any = encode_folder(require_plain("folder", folder))
        can: Any = self._done("CAPABILITY", self.client.capability())  # it can more once somebody has signed in
        able = set(can[-1].decode("ascii", "replace").upper().split())
        moves = "MOVE" in able
        if not moves and "UIDPLUS" not in able:
            raise ToolError(
                phrase("The server can neither move messages nor remove single ones, so nothing was moved."),
                suggestion=advice(
                    "Ask the user to move them in their mail program.", "Move them in your mail program."
                ),
            )
        self._done("MOVE", self.client.uid("MOVE" if moves else "COPY", _listed(uids), target))
        said: Any = self.client.response("COPYUID")[1]
        if not moves:
            self.mark(uids, r"\Deleted", on=True)
            self._done("EXPUNGE", self.client.uid("EXPUNGE", _listed(uids)))
        found = re.fullmatch(rb"([0-9]+) [0-9:,]+ ([0-9:,]+)", said[-1] or b"") if said else None
        if found is None:
            return []
        validity = int(found[1])
        return [MessageId(self.name, folder, validity, uid) for uid in _unrolled(found[2].decode(), len(uids))]

    def special(self, use: str, *usual: str) -> str | None:
        r"""The folder for a use (`\Sent`, `\Trash` …), by what the server says of it or by its usual name."""
        folders = self.folder.list()
        for one in folders:
            if use.lower() in (flag.lower() for flag in one.flags):
                return one.name
        by_name = {one.name.lower(): one.name for one in folders}
        return next((by_name[name.lower()] for name in usual if name.lower() in by_name), None)

    def _done(self, what: str, result: Any) -> Any:
        status, data = result
        if status != "OK":
            said = data[0].decode("utf-8", "replace") if data and isinstance(data[0], bytes) else ""
            raise imaplib.IMAP4.error(f"{what}: {said}")
        return data


@contextlib.contextmanager
def opened(name: str, account: MailAccount, cancellation: Cancellation | None = None) -> Generator[Mailbox]:
    """The mailbox of an account, signed in. Whatever goes wrong with it is a `ToolError` without a secret."""
    if not account.imap:
        raise ToolError(
            phrase("The account `{name}` has no `imap` server, so its mails cannot be read.", name=name),
            suggestion=advice("Ask the user to set it.", "Set it in your settings."),
        )
    secrets = Secrets(account)
    server = server_at(secrets.fill("imap"), "imap")
    user, password = secrets.fill("user") or secrets.fill("address"), secrets.fill("password")
    clients: list[_BoundedClient] = []
    late = threading.Event()

    def cut() -> None:
        for one in clients:  # from another thread
            with contextlib.suppress(OSError, AttributeError):
                socket.socket.shutdown(one.sock, socket.SHUT_RDWR)

    def give_up() -> None:
        late.set()
        cut()

    def leave(box: Mailbox) -> None:
        with contextlib.suppress(OSError, ImapToolsError, imaplib.IMAP4.error):
            cast("Any", box).logout()
        with contextlib.suppress(OSError):
            box.client.shutdown()

    timer = threading.Timer(account.timeout * _DEADLINES, give_up)
    timer.daemon = True
    with contextlib.ExitStack() as around:
        if cancellation is not None:
            around.enter_context(cancellation.telling(cut))
        around.callback(timer.cancel)
        timer.start()
        try:
            box = Mailbox(name, server, account.timeout, clients)
            around.callback(leave, box)
            box.sign_in(user, password)
            yield box
        except (OSError, ImapToolsError, imaplib.IMAP4.error, EOFError, ValueError, LookupError) as error:
            if cancellation is not None:
                cancellation.raise_if_requested()
            failed = TimeoutError() if late.is_set() else error
            raise explained(failed, server, secrets, account.timeout * (_DEADLINES if late.is_set() else 1)) from None


# What servers and headers say


def _date(header: str, received: str) -> str:
    """When it was written, or received where that makes no sense."""
    for text in (header[:100], received):
        with contextlib.suppress(ValueError, TypeError, OverflowError, IndexError):
            return parsedate_to_datetime(text).isoformat()
    return ""


def _quoted(key: str, value: str) -> str:
    if key in ("SINCE", "BEFORE", "UID"):
        return value
    escaped = require_plain(key.lower(), value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _part(pattern: bytes, text: bytes) -> str:
    found = re.search(pattern, text)
    return found[1].decode("ascii", "replace") if found else ""


def _listed(uids: Iterable[int]) -> str:
    return ",".join(str(uid) for uid in uids)


def _unrolled(text: str, most: int) -> list[int]:
    """`3,5:7` as numbers; a server that names more than were moved has not understood."""
    numbers: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.partition(":")
        if not first.isdigit() or not (last or first).isdigit() or int(last or first) - int(first) > most:
            return []
        numbers += range(int(first), int(last or first) + 1)
    return numbers if len(numbers) == most else []
