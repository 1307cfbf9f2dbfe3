"""An address is shown whole with its host, warned of where it deceives, and opened only after a yes."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from tests.cli.server_talk.person import Person

from ferrule.cli.server_talk import questions as browser
from ferrule.cli.server_talk.questions import CannotOpen, read_address, visit
from ferrule.core.elicitation import Elicited

URL = "https://pay.example/checkout?x=1"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser was given, in place of one."""
    found: list[str] = []

    async def take(url: str) -> bool:
        found.append(url)
        return True

    monkeypatch.setattr(browser, "has_browser", lambda: True)
    monkeypatch.setattr(browser, "open_address", take)
    return found


async def test_it_is_shown_and_opened_after_a_yes(opened: list[str]) -> None:
    person = Person("y")
    assert await visit(person, "peer", "Please pay.", URL) == Elicited("accept")
    assert opened == [URL]
    assert person.shown == snapshot("""\
The MCP server peer asks you to open an address:
│ Please pay.
https://pay.example/checkout?x=1
Its host is: pay.example
Open it in your browser? Only if you expected it. Yes (y) or no (n); Esc or Ctrl-C cancels [y/N]
? y
It opens in your browser; if not, open the address above yourself.\
""")


@pytest.mark.parametrize(
    ("said", "action"),
    [("n", "decline"), ("", "decline"), ("what?", "decline"), (KeyboardInterrupt(), "cancel"), (EOFError(), "cancel")],
)
async def test_nothing_is_opened_without_a_yes(opened: list[str], said: str | BaseException, action: str) -> None:
    assert (await visit(Person(said), "peer", "", URL)).action == action
    assert opened == []


async def test_where_no_browser_can_appear_it_is_only_shown(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "has_browser", lambda: False)
    person = Person("y")
    assert (await visit(person, "peer", "", URL)).action == "accept"
    assert opened == []
    assert "Will you open it in a browser?" in person.shown


async def test_a_browser_that_cannot_be_opened_is_said(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(url: str) -> bool:
        return False

    monkeypatch.setattr(browser, "open_address", fail)
    person = Person("y")
    await visit(person, "peer", "", URL)
    assert person.lines[-1].words == "No browser could be opened. Open the address above yourself."


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "javascript:alert(1)", "ssh://host/", "https://", "", "https://a b.example/",
     "https://good.example\\@bad.example/", "https://a.example/\x1b[2J", "https://a.example/\u202e", "https://[::1",
     "https://a.example:port/", "https://a.example/" + "x" * 9_000],
)  # fmt: skip
async def test_what_is_no_page_of_the_web_is_declined(opened: list[str], url: str) -> None:
    with pytest.raises(CannotOpen):
        read_address(url)
    said = await visit(Person("y"), "peer", "", url)
    assert said.action == "decline"
    assert said.why
    assert opened == []


@pytest.mark.parametrize(
    ("url", "host", "warned"),
    [
        (URL, "pay.example", 0),
        ("HTTPS://Pay.Example:8443/", "pay.example", 0),
        ("http://127.0.0.1:9/x", "127.0.0.1", 0),
        ("http://pay.example/", "pay.example", 1),
        ("https://pаypal.example/", "pаypal.example", 1),
        ("https://xn--pypal-4ve.example/", "xn--pypal-4ve.example", 1),
        ("https://paypal.com@bad.example/", "bad.example", 1),
    ],
)
def test_the_host_is_the_one_that_is_gone_to(url: str, host: str, warned: int) -> None:
    address = read_address(url)
    assert (address.host, len(address.warnings)) == (host, warned)
