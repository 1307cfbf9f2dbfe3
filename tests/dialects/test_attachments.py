"""Attachments as text on the wire, and back (T9, T10)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.result import Attachment
from ferrule.dialects import DialectError, dialect
from ferrule.dialects.payload import data_url, from_base64, from_data_url, is_web, to_base64

MEDIA_TYPES = st.from_regex(r"\A[a-z]{1,8}/[a-z.+-]{1,12}(;charset=utf-8)?\Z")


@given(st.binary(max_size=100), MEDIA_TYPES)
def test_bytes_come_back_as_they_were(data: bytes, media_type: str) -> None:
    assert from_base64(to_base64(data), "here") == data
    assert from_data_url(data_url(media_type, data), "here") == (media_type, data)


@given(st.binary(max_size=100))
def test_the_text_is_the_base64_that_others_write(data: bytes) -> None:
    assert to_base64(data) == base64.b64encode(data).decode()


def test_bytes_that_an_sdk_decoded_already_stay_as_they_are() -> None:
    assert from_base64(b"\xff\x00", "here") == b"\xff\x00"


@pytest.mark.parametrize("text", ["%%%", "YQ", "YQ==\n", "Y Q==", "é", "YQ=", None, 5, [], {}])
def test_what_is_no_base64_is_refused_with_its_place(text: Any) -> None:
    """Lenient decoding would drop characters and hand over an image that is none."""
    with pytest.raises(DialectError) as caught:
        from_base64(text, "content[0].data")
    assert str(caught.value) == "content[0].data: expected base64 text."


@pytest.mark.parametrize(
    ("url", "media_type", "data"),
    [
        ("data:image/png;base64,", "image/png", b""),
        ("data:text/plain;charset=utf-8;base64,YQ==", "text/plain;charset=utf-8", b"a"),
        ("data:text/plain,abcd", "text/plain", b"abcd"),
        ("data:text/csv,a%2Cb%0A%FF", "text/csv", b"a,b\n\xff"),
        ("data:,hi", "text/plain", b"hi"),
    ],
)
def test_a_data_url_says_how_it_is_written(url: str, media_type: str, data: bytes) -> None:
    """Text that only looks like base64 must not be decoded as such."""
    assert from_data_url(url, "here") == (media_type, data)


@pytest.mark.parametrize("url", ["JVBERg==", "", "data:", "data:application/pdf;base64", "https://example.org/a,b"])
def test_what_is_no_data_url_is_refused(url: str) -> None:
    with pytest.raises(DialectError) as caught:
        from_data_url(url, "output[0].file_data")
    assert str(caught.value) == "output[0].file_data: expected a data URL, such as data:image/png;base64,…."


@pytest.mark.parametrize(
    ("uri", "web"),
    [
        ("https://example.org/x.png", True),
        ("http://localhost/x", True),
        ("file:///etc/passwd", False),
        ("gs://bucket/x", False),
        ("//example.org/x", False),
        ("httpsx://example.org", False),
        ("", False),
        (None, False),
    ],
)
def test_only_a_web_address_could_be_fetched_by_a_provider(uri: str | None, web: bool) -> None:
    assert is_web(uri) is web


PNG = Attachment("image/png", b"PNG", name="a.png")
LINK = Attachment("image/png", uri="https://a.example/a.png")


@pytest.mark.parametrize(
    ("name", "bytes_", "link"),
    [
        (
            "openai",
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}},
            {"type": "image_url", "image_url": {"url": "https://a.example/a.png"}},
        ),
        (
            "openai-responses",
            {"type": "input_image", "image_url": "data:image/png;base64,UE5H"},
            {"type": "input_image", "image_url": "https://a.example/a.png"},
        ),
        (
            "anthropic",
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "UE5H"}},
            {"type": "image", "source": {"type": "url", "url": "https://a.example/a.png"}},
        ),
        (
            "gemini",
            {"inlineData": {"mimeType": "image/png", "data": "UE5H", "displayName": "a.png"}},
            {"fileData": {"mimeType": "image/png", "fileUri": "https://a.example/a.png"}},
        ),
        ("mcp", None, None),
    ],
)
def test_what_a_person_attaches_in_each_form(name: str, bytes_: Any, link: Any) -> None:
    assert dialect(name).write_attachment(PNG) == bytes_
    assert dialect(name).write_attachment(LINK) == link


@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic"])
def test_what_a_form_has_no_place_for_is_none(name: str) -> None:
    assert dialect(name).write_attachment(Attachment("application/zip", b"PK")) is None
    assert dialect(name).write_attachment(Attachment("image/png", uri="file:///etc/passwd")) is None


def test_a_document_goes_along_in_chat_as_bytes() -> None:
    part = dialect("openai").write_attachment(Attachment("application/pdf", b"PDF"))
    assert part == {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,UERG"}}
