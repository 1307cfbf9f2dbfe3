"""Sending mail: a message that holds exactly what was approved, handed to the server once.

The message is built, parsed again and compared before it leaves. From the moment its text is on the way until the
server has answered, nobody can know whether it was sent, and that is what is said when the connection is lost then.
"""

from __future__ import annotations

import asyncio
import mimetypes
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.encoders import encode_base64
from email.generator import BytesGenerator
from email.header import Header as EncodedHeader
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import formatdate, make_msgid
from io import BytesIO
from typing import Any

from aiosmtplib import (
    SMTP,
    SMTPAuthenticationError,
    SMTPException,
    SMTPNotSupported,
    SMTPRecipientRefused,
    SMTPResponseException,
)

from ferrule import ToolError
from ferrule.extension import advice, controls_in, joined, phrase
from ferrule.toolbox.accounts import MailAccount, Secrets
from ferrule.toolbox.failures import invalid
from ferrule.toolbox.mail_message import plain_line, readable, require_plain
from ferrule.toolbox.mailbox import MailServer, explained, login_refused, server_at

MOST_TEXT = 16_000
"""Characters of a text that is sent: the user sees all of it before they approve."""
MOST_RECIPIENTS = 50
MOST_ATTACHED = 25_000_000
_LONGEST_SUBJECT = 400
_PLAIN_SUBJECT = 60
_LOCAL = r"[A-Za-z0-9#$&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9#$&'*+/=?^_`{|}~-]+)*"
_DOMAIN = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
_ADDRESS = re.compile(rf"(?:[^<>@,;:\"\\]*<)?(?P<local>{_LOCAL})@(?P<domain>{_DOMAIN})(?P<close>>?)")
_SECONDS_PER_MEGABYTE = 5.0
_DEADLINES = 4


@dataclass(slots=True, frozen=True)
class OutgoingMail:
    """A message to be sent, each part of it as the user sees it."""

    sender: str
    sender_name: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    subject: str
    text: str
    answers: str = ""
    """The Message-ID of the mail that it replies to."""
    thread: str = ""
    """The References of that mail."""
    attachments: tuple[tuple[str, bytes], ...] = ()

    @property
    def recipients(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.to, *self.cc, *self.bcc)))


def addresses(what: str, given: Iterable[str]) -> tuple[str, ...]:
    """Bare addresses, the domain in small letters. A name before one is left out; anything unusual is refused."""
    found: list[str] = []
    for one in given:
        text = require_plain(what, one).strip()
        match = _ADDRESS.fullmatch(text)
        if match is None or bool(match["close"]) != ("<" in text) or len(text) > 320:
            raise invalid(
                phrase("`{text}` in `{what}` is not an address that mail can be sent to.", text=text[:200], what=what),
                phrase(
                    "Write each address on its own and bare, like `ann@example.com`; a domain with other letters in "
                    "its ASCII form, `xn--…`."
                ),
            )
        found.append(f"{match['local']}@{match['domain'].lower()}")
    return tuple(dict.fromkeys(found))


def require_sendable(subject: str, text: str) -> tuple[str, str]:
    """Subject and text as they will arrive; refuses what could become a header or what a user cannot be shown."""
    subject = require_plain("subject", subject).strip()
    if "=?" in subject and readable(subject) != plain_line(subject):
        raise invalid(
            phrase("`subject` contains an encoded word (`=?…?=`), which would arrive as something else."),
            phrase("Write the subject as plain text; any letters are fine."),
        )
    if len(subject) > _LONGEST_SUBJECT:
        raise invalid(
            phrase("`subject` has {n} characters; at most {most} are sent.", n=len(subject), most=_LONGEST_SUBJECT),
            phrase("Shorten it."),
        )
    text = text.replace("\r\n", "\n")
    if found := controls_in(text):
        raise invalid(
            phrase("`text` contains the control character U+{code}.", code=f"{ord(found[0]):04X}"),
            phrase("Leave it out."),
        )
    if len(text) > MOST_TEXT:
        raise invalid(
            advice("`text` has {n} characters; at most {most} are sent, so that the user can read all of it first.",
                   "`text` has {n} characters; at most {most} are sent, so that you can read all of it first.",
                   n=f"{len(text):,}", most=f"{MOST_TEXT:,}"),
            phrase("Write the rest to a file and attach it."),
        )  # fmt: skip
    for what, value in (("subject", subject), ("text", text)):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid(phrase("`{what}` contains half a character.", what=what), phrase("Leave it out.")) from None
    return subject, text


def composed(message: OutgoingMail, *, draft: bool = False) -> bytes:
    """The bytes of a message, which were parsed again and hold what was asked for and nothing else."""
    body = MIMEText(message.text, "plain", "utf-8")
    top: Any = body
    if message.attachments:
        top = MIMEMultipart()
        top.attach(body)
        for name, data in message.attachments:
            top.attach(_attached(require_plain("attachment", name), data))
    name = EncodedHeader(require_plain("name", message.sender_name), "utf-8").encode() if message.sender_name else ""
    top["From"] = f"{name} <{message.sender}>" if name else message.sender
    for field, listed in (("To", message.to), ("Cc", message.cc), ("Bcc", message.bcc if draft else ())):
        if listed:
            top[field] = ",\n ".join(listed)
    plain = message.subject.isascii() and len(message.subject) <= _PLAIN_SUBJECT
    top["Subject"] = message.subject if plain else EncodedHeader(message.subject, "utf-8", header_name="Subject")
    top["Date"] = formatdate(localtime=True)
    top["Message-ID"] = make_msgid(domain=message.sender.rpartition("@")[2])
    if message.answers:
        top["In-Reply-To"] = message.answers
        top["References"] = "\n ".join([*message.thread.split()[-20:], message.answers])
    out = BytesIO()
    as_it_is = policy.compat32.clone(linesep="\r\n", max_line_length=None)
    BytesGenerator(out, mangle_from_=False, policy=as_it_is).flatten(top)
    made = out.getvalue()
    _require_same(message, made, draft=draft)
    return made


def _attached(name: str, data: bytes) -> MIMEBase:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if kind.startswith(("text/", "message/", "multipart/")):  # those would be read on the way, and perhaps changed
        kind = "application/octet-stream"
    part = MIMEBase(*kind.split("/", 1))
    part.set_payload(data)
    encode_base64(part)
    part.add_header("Content-Disposition", "attachment", filename=name if name.isascii() else ("utf-8", "", name))
    return part


def _require_same(message: OutgoingMail, made: bytes, *, draft: bool) -> None:
    """Parse what was built as a receiver would, and compare."""
    parsed = message_from_bytes(made, policy=policy.default)
    wanted: dict[str, Any] = {
        "from": (message.sender,), "to": message.to, "cc": message.cc, "bcc": message.bcc if draft else (),
    }  # fmt: skip
    expected = {"from", "subject", "date", "message-id", "mime-version", "content-type", "content-transfer-encoding"}
    expected |= {name for name, listed in wanted.items() if listed}
    expected |= {"in-reply-to", "references"} if message.answers else set()
    names = [name.lower() for name in parsed.keys()]  # noqa: SIM118 - a header may stand twice
    found = {name: tuple(one.addr_spec for one in parsed[name].addresses) if name in names else () for name in wanted}
    content = parsed.get_body(("plain",))
    same = (
        len(names) == len(set(names))
        and set(names) <= expected
        and found == wanted
        and str(parsed["subject"]) == message.subject
        and content is not None
        and content.get_content().rstrip("\n") == message.text.rstrip("\n")
        and tuple((one.get_filename(), one.get_content()) for one in parsed.iter_attachments()) == message.attachments
        and not any(len(line) > 998 for line in made.split(b"\r\n"))
    )
    if not same:
        raise ToolError(
            phrase("The message could not be written so that it arrives as it is. Nothing was sent."),
            suggestion=phrase("Simplify the subject, the text or the names of the attachments."),
        )


# Handing it to the server


async def deliver(name: str, account: MailAccount, message: bytes, sender: str, recipients: tuple[str, ...]) -> None:
    """Send it once. A `ToolError` says that it was not sent, or that nobody knows."""
    server, secrets = _server_of(name, account)
    extra = len(message) / 1e6 * _SECONDS_PER_MEGABYTE
    on_its_way = False

    def watch(protocol: Any) -> None:
        write = protocol.write

        def noting(data: bytes) -> None:
            nonlocal on_its_way
            on_its_way = on_its_way or data != b"DATA\r\n"
            write(data)

        protocol.write = noting

    try:
        async with (
            asyncio.timeout(account.timeout * _DEADLINES + extra),
            _signed_in(name, account, server, secrets) as client,
        ):
            await client.mail(sender)
            if refused := await _refused(client, recipients):
                raise ToolError(
                    phrase("Nothing was sent to anyone: the server refused {refused}.", refused=", ".join(refused)),
                    suggestion=phrase("Correct the address, or leave it out."),
                )
            watch(client.protocol)
            # Wait for the server's answer even if the call is cancelled meanwhile: then it is known what happened.
            task = asyncio.ensure_future(client.data(message, timeout=account.timeout + extra))
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                await asyncio.wait([task])
                task.result()
    except (SMTPException, OSError) as error:
        if on_its_way and not isinstance(error, SMTPResponseException):
            raise ToolError(
                phrase(
                    "Whether the message was sent is unknown: the connection to `{at}` was lost after it was handed "
                    "over and before the server confirmed it.",
                    at=server.words,
                ),
                suggestion=advice(
                    "Do not send it again. Ask the user whether it arrived.",
                    "Find out whether it arrived before you send it again.",
                ),
                details={"sent": "unknown"},
            ) from None
        why = _explained(error, server, secrets, account)
        raise ToolError(
            joined(" ", [phrase("The message was not sent."), why.message]), kind=why.kind, suggestion=why.suggestion
        ) from None


async def try_sending(name: str, account: MailAccount) -> None:
    """Sign in and send nothing; a `ToolError` says what is wrong."""
    server, secrets = _server_of(name, account)
    try:
        async with asyncio.timeout(account.timeout * _DEADLINES), _signed_in(name, account, server, secrets):
            return
    except (SMTPException, OSError) as error:
        raise _explained(error, server, secrets, account) from None


def _explained(error: Exception, server: MailServer, secrets: Secrets, account: MailAccount) -> ToolError:
    if isinstance(error, SMTPResponseException):
        error = ValueError(f"{error.code} {error.message}")
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return explained(cause, server, secrets, account.timeout)


def _server_of(name: str, account: MailAccount) -> tuple[MailServer, Secrets]:
    if not account.smtp:
        raise ToolError(
            phrase("The account `{name}` has no `smtp` server, so it cannot send.", name=name),
            suggestion=advice("Ask the user to set it, or save a draft.", "Set it in your settings, or save a draft."),
        )
    secrets = Secrets(account)
    return server_at(secrets.fill("smtp"), "smtp"), secrets


@asynccontextmanager
async def _signed_in(name: str, account: MailAccount, server: MailServer, secrets: Secrets) -> AsyncGenerator[SMTP]:
    """Connected over TLS, and known to the server where there is a password."""
    user, password = secrets.fill("user") or secrets.fill("address"), secrets.fill("password")
    client = SMTP(
        hostname=server.host, port=server.port, use_tls=server.tls, start_tls=False, timeout=account.timeout,
        tls_context=server.context(upgrade=not server.tls), local_hostname="[127.0.0.1]",
    )  # fmt: skip
    try:
        await client.connect()
        await client.ehlo()
        if not server.tls and client.supports_extension("starttls"):
            await client.starttls()
            await client.ehlo()
        elif not server.tls and not server.local:
            raise ToolError(
                phrase("The server at `{at}` offers no TLS, so neither password nor mail is sent to it.",
                       at=server.words),
                suggestion=advice('Ask the user to set `smtp = "smtps://…"` for this account.',
                                  'Set `smtp = "smtps://…"` for this account.'),
            )  # fmt: skip
        if password and client.supports_extension("auth"):  # one that knows no passwords takes mail by other rules
            try:
                await client.login(user, password)
            except (SMTPAuthenticationError, SMTPNotSupported):
                raise login_refused(name) from None
        yield client
    finally:
        client.close()


async def _refused(client: SMTP, recipients: tuple[str, ...]) -> list[str]:
    refused: list[str] = []
    for one in recipients:
        try:
            await client.rcpt(one)
        except SMTPRecipientRefused as error:
            refused.append(f"`{one}` ({error.code} {plain_line(error.message)[:100]})")
    return refused
