"""Which hosts may be reached."""

# ruff: noqa: E501 - a text that is pinned stands on one line
from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.process.sandbox.proxy import AllowedHosts, BadHost, is_public, normal_host


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Example.ORG", "example.org"), ("example.org.", "example.org"), ("BÜCHER.example", "xn--bcher-kva.example"),
        ("[::1]", "::1"), ("::FFFF:1.2.3.4", "::ffff:102:304"), ("0:0::1", "::1"), ("ｅxample.org", "example.org"),
        ("example。org", "example.org"),
    ],
)  # fmt: skip
def test_one_spelling_for_each(text: str, normal: str) -> None:
    assert normal_host(text) in (normal, "::ffff:1.2.3.4" if "FFFF" in text else normal)


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "a b", "user@host", "host/path", "host:80", "a..b", "host\n", "host\0x", "*", "http://x", "a%2eb", "[::1",
        "x" * 300, "evil.org#.example.org", "example.org\\@evil", "example.org／evil", "evil.org＠example.org",
    ],
)  # fmt: skip
def test_what_hides_its_host_is_none(text: str) -> None:
    with pytest.raises(BadHost):
        normal_host(text)


@pytest.mark.parametrize(
    ("pattern", "host", "allowed"),
    [
        ("example.org", "example.org", True), ("example.org", "www.example.org", False),
        ("example.org", "example.org.evil.com", False), ("example.org", "notexample.org", False),
        ("*.example.org", "www.example.org", True), ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "example.org", False), ("*.example.org", "badexample.org", False), ("*", "anything.net", True),
        ("EXAMPLE.org.", "example.org", True), ("10.0.0.1", "10.0.0.1", True), ("*.0.0.1", "10.0.0.1", False),
        ("example.org:443", "example.org", True), ("example.org:22", "example.org", False), ("*:443", "x.net", True),
    ],
)  # fmt: skip
def test_patterns(pattern: str, host: str, allowed: bool) -> None:
    assert AllowedHosts([pattern]).allows(host, 443) is allowed


def test_no_pattern_allows_nothing() -> None:
    assert not AllowedHosts([]).allows("example.org", 443)


@pytest.mark.parametrize("pattern", ["exa mple", "http://example.org", "*.*", "a/b", ""])
def test_a_pattern_that_can_mean_nothing_is_an_error(pattern: str) -> None:
    with pytest.raises(BadHost):
        AllowedHosts([pattern])


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
        "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:0:0:0:0:80ff:fffe", "ff02::1", "192.0.2.1", "198.18.0.1", "240.0.0.1",
    ],
)  # fmt: skip
def test_addresses_of_this_machine_and_of_private_networks_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    assert not AllowedHosts(["*"]).allows_address("rebound.example", address)
    assert AllowedHosts(["*", address]).allows_address("rebound.example", address)


def test_public_addresses_are() -> None:
    for address in ("1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1"):
        assert AllowedHosts(["*"]).allows_address("x.example", address)


def test_localhost_must_be_listed_by_name() -> None:
    assert AllowedHosts(["localhost"]).allows_address("localhost", "127.0.0.1")
    assert not AllowedHosts(["localhost"]).allows_address("localhost", "10.0.0.1")
    assert not AllowedHosts(["*"]).allows_address("localhost", "127.0.0.1")


@given(st.text(max_size=40))
def test_the_normal_form_is_its_own(text: str) -> None:
    try:
        normal = normal_host(text)
    except BadHost:
        return
    assert normal_host(normal) == normal
    assert normal.isascii()
