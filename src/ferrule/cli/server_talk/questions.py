"""What servers reach the user through: questions, addresses and signing in, one at a time, where they can answer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import click

from ferrule.cli.ask import AnswerLine
from ferrule.cli.options import warn
from ferrule.cli.output import at_a_terminal, log_lines_held
from ferrule.cli.server_talk.form import BAR, YES, Talk, fill, one_row, ours, theirs, warning
from ferrule.cli.status_line import StatusLine
from ferrule.cli.words import _, as_warning, persons_language
from ferrule.core.elicitation import Elicited
from ferrule.core.shown_text import shown, shown_argument

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from ferrule.core.events import Question
    from ferrule.mcp_client.server_config import Ports
    from ferrule.pipeline.confirm import Answer, Asker


# An address that a server wants opened: shown whole, its host apart, and opened only when the user says so.


_LONGEST = 8_000
_HERE = ("localhost", "127.0.0.1", "::1")


class CannotOpen(Exception):  # noqa: N818 - reads as what it says
    """An address that is never opened; the words complete "it was declined: …"."""


@dataclass(slots=True, frozen=True)
class Address:
    """An address, its host, and what the user should know of it."""

    url: str
    host: str
    warnings: tuple[str, ...]


def read_address(url: str) -> Address:
    """An address that may be offered; raises `CannotOpen`. Only pages of the web: others may start a program."""
    if len(url) > _LONGEST:
        raise CannotOpen("its address is too long to be shown")
    if "\\" in url or not url.isprintable() or " " in url:
        raise CannotOpen("its address contains characters that no address has")
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
        warnings.append(_("the part before the @ is not the host"))
    return Address(url, host, tuple(warnings))


async def visit(talk: Talk, server: str, message: str, url: str, *, sign_in: bool = False) -> Elicited:
    """Show an address and have it opened, if the user agrees; that is all that accepting means."""
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
    opens = has_browser()
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
            talk.tell([ours(_("Cancelled, and {server} was told.").format(server=name))])
        return Elicited("cancel")
    if said not in YES:
        if not sign_in:
            talk.tell([ours(_("Declined, and {server} was told.").format(server=name))])
        return Elicited("decline")
    if opens and not await open_address(address.url):
        talk.tell([ours(_("No browser could be opened. Open the address above yourself."))])
    elif opens:
        talk.tell([ours(_("It opens in your browser; if not, open the address above yourself."))])
    return Elicited("accept")


_SECONDS_TO_FAIL = 3.0


def has_browser(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether a browser has somewhere to appear. One that would take over the terminal is not meant."""
    if platform in ("darwin", "win32"):
        return True
    return any(environment.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


async def open_address(url: str) -> bool:
    """Hand it to the browser; False where that visibly failed. In a process of its own, which reads and writes nothing
    here and sees no module of the folder that we work in.
    """
    process = subprocess.Popen(  # noqa: ASYNC220, S603 - quickly started, waited for beside the loop; the address was checked
        [sys.executable, "-I", "-m", "webbrowser", url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=os.path.sep,
        start_new_session=True,
    )
    try:
        return await asyncio.to_thread(process.wait, _SECONDS_TO_FAIL) == 0
    except subprocess.TimeoutExpired:
        return True  # a browser that stays in the foreground


NO_TERMINAL = "there is no terminal to ask the user at"


class AskingPlace(Protocol):
    """Where the user can be asked, if they can."""

    @property
    def shut_because(self) -> str:
        """Why nobody can be asked, for the model; empty where somebody can."""
        ...

    def asking(self) -> AbstractAsyncContextManager[Talk]:
        """Have the user's ear, for one question."""
        ...

    def note(self, words: str) -> None:
        """Something that they should know."""
        ...


class ServerQuestions:
    """The ports of a program with a user, or without one; then what is asked is declined, and said."""

    def __init__(self, place: AskingPlace) -> None:
        self._place = place
        self.waiting_to_sign_in: dict[str, None] = {}
        """Servers that want the user to sign in and came at a time when nobody could be asked."""

    def ports(self, *, signs_in: bool) -> Ports:
        from ferrule.mcp_client.server_config import Ports

        return Ports(elicitor=self, show_url=self.show_url if signs_in else None)

    async def elicit(self, message: str, schema: Mapping[str, Any], *, server: str = "", url: str = "") -> Elicited:
        if shut := self._place.shut_because:
            words = _(
                "The MCP server {server} asked you something. It was declined: there is no terminal to answer at."
            )
            self._place.note(words.format(server=one_row(server, 60)))
            return Elicited("decline", why=shut)
        async with self._place.asking() as talk:
            with _taken_away(talk):
                return await (visit(talk, server, message, url) if url else fill(talk, server, message, schema))

    async def show_url(self, server: str, url: str) -> None:
        """Show where to sign in; raises `NotSigningIn` where the user does not want to, or cannot be asked now."""
        from ferrule.mcp_client.server_config import NotSigningIn

        if self._place.shut_because:
            self.waiting_to_sign_in[server] = None
            raise NotSigningIn(f"it wants you to sign in; at a terminal: ferrule mcp test {shown_argument(server)}")
        async with self._place.asking() as talk:
            with _taken_away(talk):
                said = await visit(talk, server, "", url, sign_in=True)
            if said.action != "accept":
                raise NotSigningIn(said.why or f"you did not sign in; later: ferrule mcp test {shown_argument(server)}")
            talk.tell([ours(_("Waiting for you to sign in there; Ctrl-C stops it."))])


@contextmanager
def _taken_away(talk: Talk) -> Generator[None]:
    """Say so when a question goes before it is answered."""
    try:
        yield
    except asyncio.CancelledError:
        talk.tell([ours(_("The call has ended, and the question with it."))])
        raise


class TerminalPlace:
    """One question at a time: our own confirmations and what servers ask take turns, and the status line gives way."""

    def __init__(self, line: StatusLine | None = None) -> None:
        self._turn = asyncio.Lock()
        self._line = line or StatusLine()

    @property
    def shut_because(self) -> str:
        return "" if at_a_terminal() else NO_TERMINAL

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[TerminalTalk]:
        async with self._turn:
            with self._line.away(), persons_language(), log_lines_held():
                yield TerminalTalk()

    def note(self, words: str) -> None:
        warn(words)

    def sharing(self, asker: Asker) -> Asker:
        """An asker that waits until no server's question is open."""

        async def ask(question: Question) -> Answer | str:
            async with self._turn:
                with self._line.away(), persons_language():
                    said = asker(question)
                    return await said if isinstance(said, Awaitable) else said

        return ask


class TerminalTalk:
    """Whole lines; a server's are indented as well, so that none can pass for ours. Ctrl-C ends the command."""

    @property
    def cancelled_by(self) -> str:
        return "Ctrl-D"

    def tell(self, lines: Sequence[AnswerLine]) -> None:
        for line in lines:
            if line.warning:
                click.echo(click.style(f"  {as_warning(line.words)}", bold=True), err=True)
            else:
                click.echo(f"  {line.words}" if line.words.startswith(BAR) else line.words, err=True)

    async def answer(self) -> str:
        from ferrule.cli.chatting.input import PlainInput

        person = PlainInput(sys.stdin, lambda words: click.echo(words, nl=False, err=True))
        while "\x1b" in (said := await person.answer()):  # an arrow or Esc, which a plain line takes for letters
            click.echo(_("Keys such as Esc and the arrows do not work here. Type it again."), err=True)
        return said


def terminal_ports(place: TerminalPlace) -> Ports:
    """For a command: what servers ask is asked at its terminal; where there is none it is declined, and said."""
    return ServerQuestions(place).ports(signs_in=not place.shut_because)
