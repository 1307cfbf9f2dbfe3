"""A dovecot and an SMTP server of our own, each for the tests of one process."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.needs import needs

PASSWORD = "s3cret-pass-word"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for `localhost` that nobody has signed, and its key."""
    needs(shutil.which("openssl"), "openssl")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key),
         "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


@dataclass
class Dovecot:
    port: int
    tls_port: int
    folder: Path
    cert: Path

    def fill(self, user: str, mails: dict[str, list[bytes]]) -> None:
        """Put mails into folders of a user before anyone signs in."""
        for name, listed in mails.items():
            place = self.folder / "mail" / user / ("" if name == "INBOX" else f".{name}")
            for part in ("cur", "new", "tmp"):
                (place / part).mkdir(parents=True, exist_ok=True)
            for number, raw in enumerate(listed):
                (place / "cur" / f"{1_700_000_000 + number}.M{number}.host:2,").write_bytes(raw)
        _own(self.folder / "mail")

    def wipe(self, user: str) -> None:
        shutil.rmtree(self.folder / "mail" / user, ignore_errors=True)


def _own(folder: Path) -> None:
    if os.geteuid() == 0:
        who = pwd.getpwnam("nobody")
        for base, folders, files in os.walk(folder):
            for name in (".", *folders, *files):
                os.chown(Path(base) / name, who.pw_uid, who.pw_gid)


@contextlib.contextmanager
def dovecot(folder: Path) -> Generator[Dovecot]:
    """Any user may sign in with the password; each has a mailbox of their own."""
    program = shutil.which("dovecot") or shutil.which("dovecot", path="/usr/sbin:/usr/local/sbin")
    needs(program, "dovecot (apt-get install dovecot-imapd)")
    assert program is not None
    who = pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else "nobody"
    group = subprocess.run(["id", "-gn", who], capture_output=True, text=True, check=True).stdout.strip()
    internal = "dovecot" if not os.geteuid() else who
    login = "dovenull" if not os.geteuid() else who
    cert, key = certificate(folder)
    port, tls_port = free_port(), free_port()
    (folder / "mail").mkdir()
    folder.chmod(0o755)
    _own(folder / "mail")
    config = folder / "dovecot.conf"
    config.write_text(f"""\
protocols = imap
base_dir = {folder}/run
state_dir = {folder}/state
instance_name = {folder.name}
log_path = {folder}/dovecot.log
default_internal_user = {internal}
default_internal_group = {internal}
default_login_user = {login}
listen = 127.0.0.1
ssl = yes
ssl_cert = <{cert}
ssl_key = <{key}
disable_plaintext_auth = no
auth_mechanisms = plain login
mail_location = maildir:{folder}/mail/%u
mail_uid = {who}
mail_gid = {group}
first_valid_uid = 0
first_valid_gid = 0
passdb {{
  driver = static
  args = password={PASSWORD}
}}
userdb {{
  driver = static
  args = uid={who} gid={group} home={folder}/mail/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
}}
service anvil {{
  chroot =
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Drafts {{
    auto = create
    special_use = \\Drafts
  }}
  mailbox Sent {{
    auto = create
    special_use = \\Sent
  }}
  mailbox Trash {{
    auto = create
    special_use = \\Trash
  }}
  mailbox Archive {{
    auto = create
    special_use = \\Archive
  }}
}}
""")
    process = subprocess.Popen([program, "-F", "-c", str(config)], stdin=subprocess.DEVNULL)
    try:
        _wait_for(port, lambda: (folder / "dovecot.log").read_text() if (folder / "dovecot.log").exists() else "")
        yield Dovecot(port, tls_port, folder, cert)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(port: int, log: Any) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(f"no server came up: {log()}")


@dataclass
class Received:
    sender: str
    recipients: list[str]
    raw: bytes


@dataclass
class Smtp:
    port: int
    received: list[Received] = field(default_factory=list[Received])


@contextlib.contextmanager
def smtp_server(*, tls: tuple[Path, Path] | None = None, sign_in: bool = False) -> Generator[Smtp]:
    """Takes every mail, except for `refused@…`."""
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import AuthResult

    made = Smtp(0)

    class Handler:
        async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
            if address.startswith("refused@"):
                return "550 no such user"
            envelope.rcpt_tos.append(address)
            return "250 OK"

        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
            made.received.append(Received(envelope.mail_from, list(envelope.rcpt_tos), envelope.content))
            return "250 taken"

    def authenticated(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=data.password == PASSWORD.encode())

    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
    controller = Controller(
        Handler(), hostname="127.0.0.1", port=free_port(), tls_context=context, require_starttls=tls is not None,
        auth_required=sign_in, authenticator=authenticated if sign_in else None,
    )  # fmt: skip
    controller.start()
    made.port = controller.port
    try:
        yield made
    finally:
        controller.stop()


class BadServer:
    """Says line after line as it is told, and hangs up when nothing is left to say."""

    def __init__(self, *steps: tuple[bytes, bytes]) -> None:
        self.steps = steps
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> BadServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(5)
                for wanted, answer in self.steps:
                    while wanted not in self.heard:
                        piece = connection.recv(1 << 16)
                        if not piece:
                            return
                        self.heard += piece
                    self.heard = b"" if wanted else self.heard
                    connection.sendall(answer)
