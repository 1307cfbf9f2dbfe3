"""The one way out of a sandbox that may reach some hosts: a local port inside, a proxy outside, a socket between."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.process.sandbox import forwarder
from ferrule.process.sandbox.hosts import BadHost
from ferrule.process.sandbox.proxy import Proxy
from ferrule.process.sandbox.sandbox import SandboxRefused

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

_PORT = 41280
_INSIDE = "/run/ferrule"
_SOCKET = "proxy"


@dataclass(slots=True, frozen=True)
class Way:
    """What a sandbox needs for it: a folder to show inside, variables, and the command that opens the port first."""

    folder: str
    inside: str
    environment: Mapping[str, str]
    command: tuple[str, ...]
    proxy: Proxy


@contextlib.contextmanager
def network(hosts: Sequence[str], command: Sequence[str]) -> Generator[Way]:
    """A way to these hosts, as long as the block lasts."""
    folder = tempfile.mkdtemp(prefix="ferrule-net-", dir=_short_folder())
    try:
        try:
            proxy = Proxy(str(Path(folder) / _SOCKET), hosts)
        except BadHost as error:
            raise SandboxRefused(
                phrase("The allowed hosts cannot be used: {error}.", error=error),
                phrase("Ask the person to mend them."),
            ) from None
        try:
            python = os.path.realpath(sys.executable)
            start = (python, "-I", "-S", "-c", _source(), str(_PORT), f"{_INSIDE}/{_SOCKET}")
            yield Way(folder, _INSIDE, _variables(), (*start, *command), proxy)
        finally:
            proxy.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _short_folder() -> str:
    """The path of a socket may have 107 characters, and some systems keep temporary files far down."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) < 70 else "/tmp"  # noqa: S108 - the folder made in it is private


def _variables() -> dict[str, str]:
    """HTTP for everything: programs that cannot speak SOCKS fail on its mere mention."""
    address = f"http://127.0.0.1:{_PORT}"
    here = "localhost,127.0.0.1,::1"
    variables = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), address) | {"no_proxy": here}
    return variables | {name.upper(): value for name, value in variables.items()}


@lru_cache(maxsize=1)
def _source() -> str:
    """The program's text: its file may lie where the sandbox shows nothing."""
    return Path(forwarder.__file__).read_text(encoding="utf-8")
