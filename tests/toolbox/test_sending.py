"""A message arrives as it was asked for, whatever is in it, and a call that is stopped meanwhile says the truth."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.errors import ToolError
from ferrule.toolbox.accounts import MailAccount
from ferrule.toolbox.sending import OutgoingMail, addresses, composed, deliver, require_sendable

LINE = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp")), max_size=200)
TEXT = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp"), whitelist_characters="\n\t"), max_size=2000)
NAME = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=40)


@given(LINE, TEXT, st.lists(st.tuples(NAME, st.binary(max_size=500)), max_size=2), LINE)
def test_every_honest_message_can_be_written_and_holds_nothing_else(
    subject: str, text: str, attachments: list[tuple[str, bytes]], name: str
) -> None:
    try:
        subject, text = require_sendable(subject, text)
    except ToolError as error:
        assert "encoded word" in error.message  # noqa: PT017 - all else must be sendable
        return
    message = OutgoingMail(
        "me@example.org", name, ("ann@example.com", "bob@else.org"), (), ("eve@example.net",), subject, text,
        attachments=tuple(attachments),
    )  # fmt: skip
    raw = composed(message)
    assert b"eve@example.net" not in raw.partition(b"\r\n\r\n")[0]


@given(st.text(max_size=60))
def test_an_address_is_plain_or_refused(text: str) -> None:
    try:
        (one,) = addresses("to", [text])
    except ToolError:
        return
    assert one.count("@") == 1
    assert one.isascii()
    assert not set(one) & set(' \r\n<>,;:"\\()[]%!')


@pytest.mark.parametrize("answer", [b"250 ok\r\n", b"554 no\r\n", b""])
async def test_a_call_that_is_stopped_while_the_server_thinks_waits_for_its_word(answer: bytes) -> None:
    handed_over, decided = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        while not (line := await reader.readline()).startswith(b"DATA"):
            writer.write(b"250 ok\r\n" if line else b"")
        writer.write(b"354 go\r\n")
        await reader.readuntil(b"\r\n.\r\n")
        handed_over.set()
        await decided.wait()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        account = MailAccount("me@example.org", smtp=f"smtp://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        raw = composed(OutgoingMail("me@example.org", "", ("ann@example.com",), (), (), "x", "y"))
        sending = asyncio.ensure_future(deliver("work", account, raw, "me@example.org", ("ann@example.com",)))
        await handed_over.wait()
        sending.cancel()
        await asyncio.sleep(0.01)
        assert not sending.done()
        decided.set()
        if answer.startswith(b"250"):
            await sending
            return
        with pytest.raises(ToolError, match="The message was not sent" if answer else "is unknown"):
            await sending
