"""What servers reach the person through: questions and signing in, one at a time, where somebody can answer."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.cli.ask import AnswerLine
from ferrule.cli.words import _
from ferrule.core.elicitation import Elicited
from ferrule.policy.shown_text import disguises, shown

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from ferrule.mcp_client.ports import Ports


# Where a server's question is put, and how it is told apart from ours: who asks, and their words behind a bar.


YES = ("y", "yes", "是")
NO = ("n", "no", "否")
BAR = "│ "
"""Stands before every line that the server wrote: none of them can pass for one of ours."""


class Talk(Protocol):
    """A person who is shown lines, and answers. Esc and Ctrl-C raise `KeyboardInterrupt`, Ctrl-D `EOFError`."""

    @property
    def cancelled_by(self) -> str:
        """The keys that cancel the question."""
        ...

    def tell(self, lines: Sequence[AnswerLine]) -> None: ...

    async def answer(self) -> str: ...


def ours(words: str) -> AnswerLine:
    return AnswerLine(words)


def warning(words: str) -> AnswerLine:
    return AnswerLine(words, warning=True)


def theirs(text: str) -> list[AnswerLine]:
    """What the server wrote, with everything in it made visible, and a warning where it is not what it looks like."""
    if not text.strip():
        return []
    lines = [AnswerLine(f"{BAR}{line}", of_the_call=True) for line in shown(text.strip().expandtabs(4)).split("\n")]
    if found := disguises(text.strip()):
        lines.append(warning(_("it holds {what}").format(what=_(", ").join(_(one) for one in found))))
    return lines


def one_row(text: str, most: int = 200) -> str:
    """A server's word in the middle of a row of ours."""
    row = shown(" ".join(text.split()))
    return row if len(row) <= most else f"{row[: most - 1]}…"


NO_TERMINAL = "there is no terminal to ask the person at"


class AskingPlace(Protocol):
    """Where the person can be asked, if they can."""

    @property
    def shut_because(self) -> str:
        """Why nobody can be asked, for the model; empty where somebody can."""
        ...

    def asking(self) -> AbstractAsyncContextManager[Talk]:
        """Have the person's ear, for one question."""
        ...

    def note(self, words: str) -> None:
        """Something that they should know."""
        ...


class ServerQuestions:
    """The ports of a program with a person, or without one; then what is asked is declined, and said."""

    def __init__(self, place: AskingPlace) -> None:
        self._place = place
        self.waiting_to_sign_in: dict[str, None] = {}
        """Servers that want the person to sign in and came at a time when nobody could be asked."""

    def ports(self, *, signs_in: bool) -> Ports:
        from ferrule.mcp_client.ports import Ports

        return Ports(elicitor=self, show_url=self.show_url if signs_in else None)

    async def elicit(self, message: str, schema: Mapping[str, Any], *, server: str = "", url: str = "") -> Elicited:
        if shut := self._place.shut_because:
            words = _("The MCP server {server} asked you something. It was declined, because nobody can be asked here.")
            self._place.note(words.format(server=one_row(server, 60)))
            return Elicited("decline", why=shut)
        async with self._place.asking() as talk:
            with _taken_away(talk):
                return await _put(talk, message, schema, server=server, url=url)

    async def show_url(self, server: str, url: str) -> None:
        """Show where to sign in; raises `NotSigningIn` where the person does not want to, or cannot be asked now."""
        from ferrule.cli.server_talk.address import visit
        from ferrule.mcp_client.ports import NotSigningIn
        from ferrule.policy.shown_text import shown_argument

        if self._place.shut_because:
            self.waiting_to_sign_in[server] = None
            raise NotSigningIn(f"it wants you to sign in; at a terminal: ferrule mcp test {shown_argument(server)}")
        async with self._place.asking() as talk:
            with _taken_away(talk):
                said = await visit(talk, server, "", url, sign_in=True)
            if said.action != "accept":
                raise NotSigningIn(said.why or f"you did not sign in; later: ferrule mcp test {shown_argument(server)}")
            talk.tell([ours(_("Waiting until you have signed in there; Ctrl-C stops it."))])


@contextmanager
def _taken_away(talk: Talk) -> Generator[None]:
    """Say so when a question goes before it is answered."""
    try:
        yield
    except asyncio.CancelledError:
        talk.tell([ours(_("The call has ended, and the question with it."))])
        raise


async def _put(talk: Talk, message: str, schema: Mapping[str, Any], *, server: str, url: str) -> Elicited:
    if url:
        from ferrule.cli.server_talk.address import visit

        return await visit(talk, server, message, url)
    from ferrule.cli.server_talk.form import fill

    return await fill(talk, server, message, schema)
