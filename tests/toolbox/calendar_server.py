"""A Radicale of our own, with one user and their calendars."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from tests.toolbox.mail_servers import free_port

USER, PASSWORD = "ada@example.org", "s3cret-cal-pass"


@dataclass
class Radicale:
    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def request(self, method: str, path: str, data: str | None = None, **headers: str) -> tuple[int, str]:
        """As another program of the user's would."""
        request = urllib.request.Request(self.url + path, data.encode() if data else None, method=method)
        signed = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        for name, value in {"Authorization": f"Basic {signed}", **headers}.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def make(self, calendar: str) -> None:
        body = (
            '<C:mkcalendar xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><D:set><D:prop>'
            f"<D:displayname>{calendar.title()}</D:displayname></D:prop></D:set></C:mkcalendar>"
        )
        status, said = self.request("MKCALENDAR", f"{USER}/{calendar}/", body, Content_Type="application/xml")
        assert status == 201, said

    def put(self, calendar: str, name: str, lines: str) -> None:
        text = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Other//EN\n{lines.strip()}\nEND:VCALENDAR\n"
        status, said = self.request(
            "PUT", f"{USER}/{calendar}/{name}", text.replace("\n", "\r\n"), Content_Type="text/calendar"
        )
        assert status in (201, 204), (status, said)

    def get(self, calendar: str, name: str) -> str:
        return self.request("GET", f"{USER}/{calendar}/{name}")[1]


@contextlib.contextmanager
def radicale(folder: Path) -> Generator[Radicale]:
    (folder / "users").write_text(f"{USER}:{PASSWORD}\n")
    port = free_port()
    (folder / "config").write_text(
        f"[server]\nhosts = 127.0.0.1:{port}\n[auth]\ntype = htpasswd\nhtpasswd_filename = {folder}/users\n"
        f"htpasswd_encryption = plain\ndelay = 0\n[storage]\nfilesystem_folder = {folder}/data\n"
        "[logging]\nlevel = warning\n"
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "radicale", "--config", str(folder / "config")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        server = Radicale(port, folder)
        try:
            for _ in range(300):
                with contextlib.suppress(OSError):
                    server.request("GET", ".web")
                    break
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.05)
            yield server
        finally:
            process.kill()  # it waits for open connections otherwise
            process.wait(20)
