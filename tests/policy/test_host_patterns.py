"""Hosts in rules."""

from __future__ import annotations

import pytest

from ferrule.policy.patterns import HostPattern, RuleError


@pytest.mark.parametrize(
    ("pattern", "host", "covers", "concerns"),
    [
        ("domain:example.org", "example.org", True, True),
        ("domain:example.org", "Example.ORG.", True, True),
        ("domain:example.org", "example.org:8080", True, True),
        ("domain:example.org", "api.example.org", False, True),
        ("domain:*.example.org", "api.example.org", True, True),
        ("domain:*.example.org", "example.org", False, True),
        ("domain:example.org", "badexample.org", False, False),
        ("domain:example.org", "example.org.evil.com", False, False),
        ("domain:*", "anything.at.all", True, True),
    ],
)
def test_allow_takes_the_very_host_and_deny_all_below_it(pattern: str, host: str, covers: bool, concerns: bool):
    assert (HostPattern(pattern).covers(host), HostPattern(pattern).concerns(host)) == (covers, concerns)


@pytest.mark.parametrize("text", ["example.org", "domain:", "domain:https://example.org", "domain:a/b", "domain:a b"])
def test_what_is_no_host_can_never_match(text: str):
    with pytest.raises(RuleError, match=r"domain:example\.org"):
        HostPattern(text)
