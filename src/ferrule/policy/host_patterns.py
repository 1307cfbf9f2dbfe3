"""Hosts in a rule: `domain:example.org`, or `domain:*.example.org` for those below it."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase
from ferrule.policy.rule_errors import RuleError

_PREFIX = "domain:"
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\*|\[[0-9a-f:.]+\]")


class HostPattern:
    """One host, or all below one."""

    __slots__ = ("_below", "_name", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        if not text.startswith(_PREFIX):
            raise RuleError(phrase("hosts are written `domain:example.org`, not `{text}`", text=text))
        name = text.removeprefix(_PREFIX).strip().lower().rstrip(".")
        if not _HOST.fullmatch(name):
            raise RuleError(
                phrase(
                    "`{name}` is not the name of a host; leave out `https://`, the port and the path: "
                    "`domain:example.org`",
                    name=name,
                )
            )
        self._below = name.startswith("*")
        self._name = name.removeprefix("*").removeprefix(".")

    def covers(self, host: str) -> bool:
        """Whether an allow rule reaches this host: the very name, or with `*.` those below it."""
        host = plain_host(host)
        return host.endswith(f".{self._name}" if self._name else "") if self._below else host == self._name

    def concerns(self, host: str) -> bool:
        """Whether a deny or ask rule does: a host and all below it, since whoever owns the one owns the others."""
        host = plain_host(host)
        return not self._name or host == self._name or host.endswith(f".{self._name}")


def plain_host(host: str) -> str:
    """The bare name: no port, no dot at the end, small letters."""
    host = host.lower()
    if not host.startswith("["):
        host = host.partition(":")[0]
    return host.rstrip(".")
