"""A URL has one meaning, and the public internet is what our own table says."""

from __future__ import annotations

import re
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.errors import ToolError
from ferrule.pipeline.stages import Verdict
from ferrule.policy.rules import RuleSet, parse_rule
from ferrule.toolbox.web_address import OpenedHosts, is_public, parse_address

NOT_PUBLIC = (
    "127.0.0.1", "127.255.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
    "100.127.255.255", "169.254.169.254", "192.0.0.8", "192.0.2.1", "198.51.100.7", "203.0.113.9", "198.18.0.1",
    "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::",
    "fec0::1", "fc00::1", "fd00:ec2::254", "fe80::1", "ff02::1", "ff0e::1", "2001:db8::1", "2001::1", "2001:2::1",
    "3fff::1", "100::1", "5f00::1", "4000::1",
)  # fmt: skip
PUBLIC = (
    "8.8.8.8", "1.1.1.1", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8",
    "64:ff9b::808:808",
)  # fmt: skip


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_of_the_public_internet_is_known(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_public_internet_is_known(address: str) -> None:
    assert is_public(ip_address(address))


@given(st.ip_addresses())
def test_what_counts_as_public_the_standard_library_never_calls_private(address: object) -> None:
    found = ip_address(str(address))
    assert not (is_public(found) and (found.is_loopback or found.is_link_local or found.is_multicast))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://2130706433/", "is not the name of a host"),
        ("http://0x7f.1/", "is not the name of a host"),
        ("http://0177.0.0.1/", "is not the name of a host"),
        ("http://127.1/", "is not the name of a host"),
        ("http://%31%32%37.0.0.1/", "is not the name of a host"),
        ("http://[::1%25eth0]/", "is not the name of a host"),
        ("http://a..b/", "is not the name of a host"),
        ("http://-a.b/", "is not the name of a host"),
        ("https://good.org@evil.org/", "user name or password"),
        ("https://good.org\\@evil.org/", "backslash"),
        ("https://evil.org\\.good.org/", "backslash"),
        ("https://good.org/\r\nHost: evil", "white space or control"),
        ("https://good.org\t/", "white space or control"),
        ("https://good.org/a\u2028b", "white space or control"),
        ("https://good.org/%0d%0aX: y".replace(" ", ""), "escaped control"),
        ("https://good.org/100%", "two hex digits"),
        ("https://good.org:99999/", "not a host with a port"),
        ("https://good.org:0/", "not a host with a port"),
        ("https://good.org:80:80/", "not a host with a port"),
        ("file:///etc/passwd", "not a web address"),
        ("gopher://good.org/", "not a web address"),
        ("//good.org/", "not a web address"),
        ("https:///path", "is not the name of a host"),
        ("https://good.org/" + "a" * 9000, "more than 8,000 characters"),
    ],
)  # fmt: skip
def test_what_two_programs_could_read_differently_is_refused(url: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        parse_address(url)


@pytest.mark.parametrize(
    ("url", "means"),
    [
        ("HTTPS://EXAMPLE.org:443/A?x=%7e#part", "https://example.org/A?x=~"),
        ("http://example.org.:80", "http://example.org/"),
        ("http://①②⑦.0.0.1/", "http://127.0.0.1/"),
        ("http://127。0。0。1/", "http://127.0.0.1/"),
        ("http://[::ffff:127.0.0.1]/", "http://127.0.0.1/"),
        ("http://[0:0:0:0:0:0:0:1]:8080/", "http://[::1]:8080/"),
        ("https://münchen.example/ä", "https://xn--mnchen-3ya.example/%C3%A4"),
        ("https://example.org/a/./b/../c", "https://example.org/a/c"),
        ("https://example.org/../../x", "https://example.org/x"),
        ("https://example.org/web/https://other.org/", "https://example.org/web/https://other.org/"),
        ('https://example.org/"<>`{}', "https://example.org/%22%3C%3E%60%7B%7D"),
    ],
)
def test_an_address_has_one_form(url: str, means: str) -> None:
    assert str(parse_address(url)) == means
    assert str(parse_address(means)) == means


ADMIN = ("//admin/x", "/./admin/x", "/a/../admin/x", "/%61dmin/x", "/%2561dmin/x", "/%2Fadmin/x", "/a/..%2Fadmin/x",
         "/a%2F..%2fadmin/x", "/admin//x", "/admin;v=1/x", "/admin%3Bv=1/x", "/admin%2Fx", "/%2e/admin/x")  # fmt: skip


@pytest.mark.parametrize("path", ADMIN)
def test_a_deny_rule_sees_its_path_however_it_is_written(path: str) -> None:
    rules = RuleSet.of([parse_rule("HttpRequest(GET https://example.org/admin/*)", Verdict.DENY)])
    assert rules.call("HttpRequest", f"GET {parse_address(f'https://Example.org:443{path}').signature}")


PIECES = st.lists(st.sampled_from([*"/.%;?a2fF5cAé~*", "..", "%2F", "%2e", "%25", "//", "admin"]), max_size=12).map(
    "".join
)


@given(PIECES)
def test_what_rules_see_has_no_other_form(path: str) -> None:
    try:
        address = parse_address(f"https://example.org/{path}")
    except ToolError:
        return
    assert str(parse_address(str(address))) == str(address)
    seen = address.signature.partition("?")[0]
    again = re.sub(r"%(?![0-9A-F]{2})", "%25", seen)
    if not re.search(r"%[01]|%7F", again):  # a control character, escaped twice
        assert parse_address(again).signature == seen
    assert not {".", ".."} & set(seen.split("/"))
    assert "//" not in seen.removeprefix("https://")


def test_a_host_that_the_user_opened_leads_to_their_own_networks_and_no_further() -> None:
    opened = OpenedHosts(["localhost", "build.example.org", "10.1.0.0/16", "[fd00::5]"])
    assert opened.allow("localhost", ip_address("127.0.0.1"))
    assert opened.allow("build.example.org", ip_address("192.168.7.7"))
    assert not opened.allow("build.example.org", ip_address("169.254.169.254"))
    assert opened.allow("other.example.org", ip_address("10.1.2.3"))
    assert not opened.allow("other.example.org", ip_address("10.2.2.3"))
    assert opened.allow("[fd00::5]", ip_address("fd00::5"))
    assert opened.allow("other.example.org", ip_address("::ffff:10.1.2.3"))
