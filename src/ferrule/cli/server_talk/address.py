"""An address that a server wants opened: shown whole, its host apart, and opened only when the person says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ferrule.cli.ask import AnswerLine
from ferrule.cli.server_talk import browser
from ferrule.cli.server_talk.questions import YES, one_row, ours, theirs, warning
from ferrule.cli.words import _
from ferrule.core.elicitation import Elicited
from ferrule.policy.shown_text import shown

if TYPE_CHECKING:
    from ferrule.cli.server_talk.questions import Talk

_LONGEST = 8_000
_HERE = ("localhost", "127.0.0.1", "::1")


class CannotOpen(Exception):  # noqa: N818 - reads as what it says
    """An address that is never opened; the words complete «it was declined: …»."""


@dataclass(slots=True, frozen=True)
class Address:
    """An address, its host, and what the person should know of it."""

    url: str
    host: str
    warnings: tuple[str, ...]


def read_address(url: str) -> Address:
    """An address that may be offered; raises `CannotOpen`. Only pages of the web: others may start a program."""
    if len(url) > _LONGEST:
        raise CannotOpen("its address is too long to be shown")
    if "\\" in url or not url.isprintable() or " " in url:
        raise CannotOpen("its address holds characters that an address does not have")
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        raise CannotOpen("its address cannot be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise CannotOpen("only addresses that begin with https:// or http:// are opened")
    warnings: list[str] = []
    if parts.scheme == "http" and host not in _HERE:
        warnings.append(_("the connection is not encrypted; others can read what you type there"))
    if not host.isascii() or any(part.startswith("xn--") for part in host.split(".")):
        warnings.append(_("the host is written with letters that may look like others"))
    if "@" in parts.netloc:
        warnings.append(_("what stands before the @ is not the host"))
    return Address(url, host, tuple(warnings))


async def visit(talk: Talk, server: str, message: str, url: str, *, sign_in: bool = False) -> Elicited:
    """Show an address and have it opened, if the person agrees; that is all that accepting means."""
    name = one_row(server, 60)
    head = (
        _("The MCP server {server} wants you to sign in. The address for that:")
        if sign_in
        else _("The MCP server {server} asks you to open an address:")
    )
    lines = [ours(head.format(server=name)), *theirs(message)]
    try:
        address = read_address(url)
    except CannotOpen as why:
        talk.tell([*lines, warning(_("It was declined: {why}").format(why=why))])
        return Elicited("decline", why=str(why))
    lines += [AnswerLine(shown(address.url), of_the_call=True)]  # without a bar: it may have to be copied
    lines += [ours(_("Its host is: {host}").format(host=shown(address.host)))]
    lines += [warning(words) for words in address.warnings]
    opens = browser.has_browser()
    question = (
        _("Open it in your browser? Only if you expected it. Yes (y) or no (n); {keys} cancels [y/N]")
        if opens
        else _("Will you open it in a browser? Only if you expected it. Yes (y) or no (n); {keys} cancels [y/N]")
    )
    talk.tell([*lines, ours(question.format(keys=talk.cancelled_by))])
    try:
        said = (await talk.answer()).strip().casefold()
    except (KeyboardInterrupt, EOFError):
        if not sign_in:
            talk.tell([ours(_("Cancelled; {server} is told so.").format(server=name))])
        return Elicited("cancel")
    if said not in YES:
        if not sign_in:
            talk.tell([ours(_("Declined; {server} is told so.").format(server=name))])
        return Elicited("decline")
    if opens and not await browser.open_address(address.url):
        talk.tell([ours(_("No browser could be opened. Open the address above yourself."))])
    elif opens:
        talk.tell([ours(_("It opens in your browser; if not, open the address above yourself."))])
    return Elicited("accept")
