"""Webhooks: each new approval is told to its tenant's receiver, signed, and without holding anything up."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from ferrule.app.service_settings import WebhookSettings
from ferrule.process.references import MissingValueError, read_reference
from ferrule.service import outgoing
from ferrule.service.outgoing import sign
from ferrule.service.tables import deliveries
from tests.service.serving import running


class Receiver:
    """Takes webhooks; `answers` are the next statuses, then 200 for good."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: list[int] = []
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.holding = threading.Event()
        self.holding.set()

    async def told(self, count: int) -> list[tuple[dict[str, str], bytes]]:
        while len(self.got) < count:
            await asyncio.sleep(0.05)
        return self.got


@contextmanager
def receiving() -> Generator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.holding.wait()
            status = receiver.answers.pop(0) if receiver.answers else 200
            receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook?token=private"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield receiver
    finally:
        receiver.holding.set()
        server.shutdown()
        server.server_close()


async def test_an_approval_is_told_signed_and_told_again_until_it_is_taken(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a secret")
    monkeypatch.setattr(outgoing, "_FIRST_PAUSE", 0.01)
    with receiving() as receiver:
        receiver.answers = [500, 302, 429]
        hooks = {"default": WebhookSettings(receiver.url, "${HOOK_SECRET}")}
        async with running(store, tmp_path, webhooks=hooks, public_url="https://tools.example.org") as service:
            client = await service.client()
            call = await client.call("note", {"text": "token=ghp_abcdefghijklmnopqrstuvwxyz0123456789"}, wait=0)
            got = await receiver.told(4)
            boss, _ = await service.tenant("quiet")
            await boss.call("note", {"text": "not told"}, wait=0)
    assert len({headers["webhook-id"] for headers, _ in got}) == 1
    headers, body = got[-1]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(b"a secret", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(time() - int(headers["webhook-timestamp"])) < 300
    message = json.loads(body)
    assert (message["type"], message["tenant"], message["data"]["call"]) == ("approval.created", "default", call.id)
    assert message["url"] == f"https://tools.example.org/v1/approvals/{call.approval}"
    assert "ghp_" not in body.decode()
    assert len(receiver.got) == 4


async def test_a_receiver_that_does_not_answer_holds_nothing_up(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither calls, nor the receiver of another tenant."""
    monkeypatch.setenv("HOOK_SECRET", "a secret")
    with receiving() as receiver, receiving() as other, caplog.at_level("WARNING", "ferrule.service"):
        receiver.holding.clear()
        hooks = {
            "*": WebhookSettings(receiver.url, "${HOOK_SECRET}"),
            "calm": WebhookSettings(other.url, "${HOOK_SECRET}"),
        }
        async with running(store, tmp_path, webhooks=hooks) as service:
            client = await service.client()
            calls = [await client.call("note", {"text": str(number)}, wait=0) for number in range(9)]
            await client.approve(await client.approval(calls[0].approval or ""))
            assert (await client.get_call(calls[0].id, wait=30)).status == "succeeded"
            boss, _ = await service.tenant("calm")
            await boss.call("note", {"text": "x"}, wait=0)
            await other.told(1)
    assert "private" not in caplog.text


async def test_what_was_not_told_is_told_after_a_restart_with_the_same_id(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R4: as long as the approval waits, and not once it is decided."""
    monkeypatch.setenv("HOOK_SECRET", "a secret")
    with receiving() as receiver:
        receiver.answers = [500, 500, 500]
        hooks = {"default": WebhookSettings(receiver.url, "${HOOK_SECRET}")}
        monkeypatch.setattr(outgoing, "_FIRST_PAUSE", 3.0)
        async with running(store, tmp_path, webhooks=hooks) as service:
            client, key = await service.client(), service.key
            waits = await client.call("note", {"text": "waits"}, wait=0)
            decided = await client.call("note", {"text": "decided"}, wait=0)
            await receiver.told(2)
            await client.deny(await client.approval(decided.approval or ""))
        first = {json.loads(body)["data"]["id"]: headers["webhook-id"] for headers, body in receiver.got}
        receiver.answers = []
        async with running(store, tmp_path, webhooks=hooks, key=key) as service:
            got = (await receiver.told(3))[2:]
            await asyncio.sleep(2)
            left = await service.service.database.read(
                None, lambda connection: connection.execute(select(deliveries)).all()
            )
    assert left == []
    assert [json.loads(body)["data"]["id"] for _, body in receiver.got[2:]] == [waits.approval]
    assert got[0][0]["webhook-id"] == first[waits.approval or ""]


async def test_another_instance_tells_what_one_began_to_tell_and_died(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a secret")
    monkeypatch.setattr(outgoing, "_CLAIM_SECONDS", 0.5)
    with receiving() as receiver:
        hooks = {"default": WebhookSettings(receiver.url, "${HOOK_SECRET}")}
        async with (
            running(postgres_url, tmp_path, webhooks=hooks) as one,
            running(postgres_url, tmp_path, key=one.key) as two,
        ):

            async def die(*_: object) -> None:
                await asyncio.sleep(3600)

            monkeypatch.setattr(one.service.webhooks, "_tell", die)
            call = await (await one.client()).call("note", {"text": "x"}, wait=0)
            two.service.webhooks.settings = hooks
            two.service.webhooks.start()
            ((_, body),) = await receiver.told(1)
    assert json.loads(body)["data"]["id"] == call.approval


async def test_a_webhook_without_its_secret_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outgoing, "_FIRST_PAUSE", 0.0)
    with receiving() as receiver, caplog.at_level("WARNING", "ferrule.service"):
        hooks = {"*": WebhookSettings(receiver.url, "${NO_SUCH_SECRET}")}
        async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path, webhooks=hooks) as service:
            await (await service.client()).call("note", {"text": "x"}, wait=0)
            while "was not told" not in caplog.text:
                await asyncio.sleep(0.05)
    assert receiver.got == []
    assert "the variable `NO_SUCH_SECRET` is not set" in caplog.text


async def test_a_secret_comes_from_the_environment_a_file_or_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "one")
    (tmp_path / "secret").write_text("two\n")
    assert await read_reference("${HOOK_SECRET}", os.environ, 20) == "one"
    assert await read_reference(f"${{file:{tmp_path / 'secret'}}}", os.environ, 20) == "two"
    assert await read_reference(f"${{command:{sys.executable} -c \"print('thr' + 'ee')\"}}", os.environ, 20) == "three"
    for wrong, said in (
        ("${NOWHERE}", "the variable `NOWHERE` is not set"),
        ("${file:/no/such/file}", "cannot be read"),
        ("${command:/no/such/program --token=x}", "`/no/such/program` could not be run"),
        (f"${{command:{sys.executable} -c 'raise SystemExit(3)'}}", "failed with exit code 3"),
        (f"${{command:{sys.executable} -c 'import time; time.sleep(20)'}}", "did not end within 0.5 s"),
    ):
        with pytest.raises(MissingValueError, match=said):
            await read_reference(wrong, os.environ, 0.5 if "sleep" in wrong else 20)


async def test_the_program_of_a_secret_ends_with_the_wait_for_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}.part\nmv {pid}.part {pid}\nexec sleep 1000\n")
    program.chmod(0o700)
    reading = asyncio.create_task(read_reference(f"${{command:{program}}}", os.environ, 500))
    while not pid.exists():
        await asyncio.sleep(0.02)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    while Path(f"/proc/{pid.read_text().strip()}").exists():
        await asyncio.sleep(0.02)


@given(st.binary(min_size=1), st.binary())
def test_a_signature_is_of_the_secret_the_moment_and_the_body(secret: bytes, body: bytes) -> None:
    encoded = b"whsec_" + base64.b64encode(secret)
    made = sign(encoded, "msg_1", 1, body)
    assert made == sign(encoded, "msg_1", 1, body)
    other = b"whsec_" + base64.b64encode(secret + b"!")
    assert made not in (sign(encoded, "msg_1", 2, body), sign(encoded, "msg_2", 1, body), sign(other, "msg_1", 1, body))


def test_the_signature_is_that_of_the_standard() -> None:
    """The example of the Standard Webhooks specification's own libraries."""
    secret = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    assert sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


@pytest.mark.parametrize(
    ("url", "secret"),
    [("http://hooks.example.org", "${X}"), ("https://hooks.example.org", "plain"), ("https://x", "${}"),
     ("https://x", "env:X"), ("https://x", "${X:-plain}"),
     ("file:///etc/passwd", "${X}"), ("https://", "${X}")],
)  # fmt: skip
def test_a_secret_in_the_settings_and_plain_http_are_refused(url: str, secret: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        WebhookSettings(url, secret)
