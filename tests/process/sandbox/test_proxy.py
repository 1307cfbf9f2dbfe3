"""The proxy: HTTP, CONNECT, SOCKS 5, and what it refuses."""

# ruff: noqa: E501 - a text that is pinned stands on one line
from __future__ import annotations

import gc
import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.process.sandbox.proxy import Proxy


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = f"{self.path} {self.headers['Host']} {self.headers['Proxy-Authorization']} {self.headers['Connection']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[int]:
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.server_port
    made.shutdown()
    made.server_close()
    thread.join()


class Asking:
    def __init__(self, path: str, *hosts: str) -> None:
        self.path = path
        self.proxy = Proxy(path, hosts)

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *error: object) -> None:
        self.proxy.close()

    def send(self, data: bytes, *more: bytes) -> bytes:
        """Everything that comes back."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(self.path)
            client.sendall(data)
            answer = b""
            for piece in more:
                answer += client.recv(1 << 16)
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(1 << 16):
                answer += piece
            return answer


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "proxy")


def test_a_plain_request_is_passed_on_as_the_server_expects_it(path: str, server: int) -> None:
    with Asking(path, "127.0.0.1") as asking:
        head = (
            f"GET http://127.0.0.1:{server}/a?b HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: secret\r\n\r\n"
        )
        answer = asking.send(head.encode())
    assert answer.endswith(f"/a?b 127.0.0.1:{server} None close".encode())


def test_a_tunnel(path: str, server: int) -> None:
    with Asking(path, "127.0.0.1") as asking:
        answer = asking.send(
            f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\n\r\n".encode(), b"GET /x HTTP/1.0\r\nHost: h\r\n\r\n"
        )
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"/x h" in answer


@pytest.mark.parametrize("kind", ["address", "name"])
def test_socks(path: str, server: int, kind: str) -> None:
    port = server.to_bytes(2, "big")
    where = b"\x01\x7f\0\0\x01" if kind == "address" else b"\x03\x09127.0.0.1"
    with Asking(path, "127.0.0.1") as asking:
        answer = asking.send(b"\x05\x01\0", b"\x05\x01\0" + where + port, b"GET /x HTTP/1.0\r\nHost: h\r\n\r\n")
    assert answer[:4] == b"\x05\0\x05\0"
    assert b"/x h" in answer


def test_a_refused_host_is_told_in_words(path: str, server: int) -> None:
    with Asking(path, "example.org") as asking:
        answer = asking.send(f"GET http://LOCALHOST.:{server}/ HTTP/1.1\r\n\r\n".encode())
        assert asking.proxy.take_denied() == ["localhost"]
        assert asking.proxy.take_denied() == []
    assert answer.decode().split("\r\n\r\n") == snapshot(
        [
            """\
HTTP/1.1 403 Forbidden by Ferrule\r
Content-Type: text/plain; charset=utf-8\r
Content-Length: 98\r
Connection: close\
""",
            "Ferrule does not let this command reach `localhost`: it is not among the hosts that were allowed.\n",
        ]
    )


@pytest.mark.parametrize(
    "target",
    ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f.1", "0", "017700000001"],
)
def test_a_star_does_not_mean_this_machine(path: str, server: int, target: str) -> None:
    with Asking(path, "*") as asking:
        answer = asking.send(f"CONNECT {target}:{server} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 502 "))


def test_a_name_that_leads_to_this_machine_is_refused(path: str, server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: the name is allowed, its address is not; and it is asked for once alone."""
    asked: list[object] = []

    def rebound(host: object, port: object, *rest: object, **options: object) -> list[object]:
        asked.append(host)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254" if len(asked) % 2 else "127.0.0.1", port))
        ]

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    with Asking(path, "example.org") as asking:
        for count in (1, 2):
            answer = asking.send(f"CONNECT example.org:{server} HTTP/1.1\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert asked == ["example.org"] * count


def test_the_address_that_was_judged_is_the_one_that_is_used(
    path: str, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo
    asked: list[object] = []

    def once(host: object, port: int, *rest: int, **options: int) -> object:
        asked.append(host)
        return real("127.0.0.1", port, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", once)
    with Asking(path, "example.org", "127.0.0.1") as asking:
        answer = asking.send(f"GET http://example.org:{server}/ HTTP/1.1\r\n\r\n".encode())
    assert answer.endswith(f"/ example.org:{server} None close".encode())
    assert asked[0] == "example.org"
    assert "example.org" not in asked[1:]


@pytest.mark.parametrize(
    "request_text",
    [
        "nonsense\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET ftp://example.org/ HTTP/1.1\r\n\r\n",
        "GET http://user@example.org/ HTTP/1.1\r\n\r\n", "CONNECT example.org HTTP/1.1\r\n\r\n",
        "CONNECT example.org:99999 HTTP/1.1\r\n\r\n", "CONNECT evil@example.org:443 HTTP/1.1\r\n\r\n",
        "CONNECT example.org:443:80 HTTP/1.1\r\n\r\n", "GET http://example.org\\@evil/ HTTP/1.1\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_not_a_clear_request_is_refused(path: str, request_text: str) -> None:
    with Asking(path, "example.org") as asking:
        assert asking.send(request_text.encode()).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))


def test_a_head_without_end_is_not_read_for_ever(path: str) -> None:
    with Asking(path, "*") as asking:
        try:
            assert asking.send(b"GET " + b"x" * (1 << 20)) == b""
        except (BrokenPipeError, ConnectionResetError):
            return


def test_closing_ends_connections_and_the_thread(path: str, server: int) -> None:
    asking = Asking(path, "127.0.0.1")
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.sendall(f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\n\r\n".encode())
    client.settimeout(20)
    assert client.recv(100)
    asking.proxy.close()
    assert client.recv(100) == b""
    client.close()
    assert not asking.proxy._thread.is_alive()


def test_an_answer_comes_although_garbage_is_collected_before_it(path: str) -> None:
    """A client that has sent all it has says so, and waits: nothing but the answer is left of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as slow, Asking(path, "127.0.0.1"):
        slow.settimeout(20)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(path)
            client.sendall(f"GET http://127.0.0.1:{slow.getsockname()[1]}/ HTTP/1.1\r\n\r\n".encode())
            client.shutdown(socket.SHUT_WR)
            there, _ = slow.accept()
            with there, there.makefile("rb") as asked:
                there.settimeout(20)
                assert asked.read().startswith(b"GET / HTTP/1.1\r\n")
                gc.collect()
                there.sendall(b"at last")
            assert client.recv(100) == b"at last"
