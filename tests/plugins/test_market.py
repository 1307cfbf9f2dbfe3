"""R7: markets are signed, pinned, never rolled back, usable offline, and no server can hang or flood their reader."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ferrule.plugins import market as market_module
from ferrule.plugins.market import (
    Market,
    add_market,
    checked_address,
    fetch,
    find_market,
    markets,
    refresh_market,
    remove_market,
)
from ferrule.plugins.offers import find_offer, find_offers, near_names
from ferrule.plugins.plugin_files import withdrawn_names
from ferrule.plugins.signed_index import INDEX_FILE, MarketError, check, public_key, sign
from tests.plugins.market_site import KEY, OTHER_KEY, PINNED, Site, entry, index, raw, running, serving


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving(tmp_path / "site") as site:
        site.offer()
        yield site


@pytest.fixture
def acme(site: Site) -> Market:
    return add_market("acme", site.url, PINNED)


def refused(do: Callable[[], object]) -> str:
    with pytest.raises(MarketError) as refusal:
        do()
    assert refusal.value.message
    return f"{refusal.value.message} {refusal.value.suggestion or ''}".strip()


# The good path


def test_a_market_is_added_searched_and_removed(site: Site, data: Path) -> None:
    site.offer(
        entry(version="1.9.0"),
        entry(version="1.10.0", kinds={"read_weather": "readonly"}, needs={"hosts": ["api.example"]}),
        entry(version="2.0.0rc1"),
        entry("acme/notes", publisher="Notes Ltd", reviewed="2026-02-01T00:00:00Z"),
    )
    added = add_market("acme", site.url + INDEX_FILE, PINNED)
    assert (added.name, added.url, added.key, added.is_registry) == ("acme", site.url, PINNED, False)
    assert markets() == [added] == [find_market("acme")]
    assert [(one.name, one.version) for one in find_offers()] == [("acme/notes", "1.0.0"), ("weather", "1.10.0")]
    assert [one.name for one in find_offers("NOTES ltd")] == ["acme/notes"]
    assert [one.name for one in find_offers("read_weather")] == ["weather"]
    assert find_offers("nothing of it") == []
    offer = find_offer("weather")
    assert (offer.version, offer.market, offer.publisher, offer.summary) == ("1.10.0", "acme", "Acme", "About weather.")
    assert offer.files[0].url == f"{site.url}files/weather-1.10.0.whl"
    assert (offer.files[0].sha256, offer.files[0].size) == ("0" * 64, 3)
    assert (offer.kinds, offer.needs.hosts) == ({"read_weather": "readonly"}, ("api.example",))
    assert offer.proof.startswith("Signed by the market acme with the key that you pinned on 20")
    assert find_offer("weather", "1.9.0").version == "1.9.0"
    assert find_offer("acme/notes").reviewed is not None
    assert refused(lambda: find_offer("weather", "7")) == (
        "`weather` has no version 7 in acme. It has 2.0.0rc1, 1.9.0, 1.10.0."
    )
    assert refused(lambda: find_offer("wether")) == "No market offers `wether`. Did you mean `weather`?"
    remove_market("acme")
    assert markets() == []
    assert list((data / "market").iterdir()) == []
    assert (
        refused(lambda: find_offer("weather"))
        == "There are no markets to look in. Add one: ferrule market add NAME URL"
    )


def test_the_key_is_confirmed_or_nothing_is_added(site: Site, data: Path) -> None:
    asked: list[str] = []

    def yes(key: str) -> bool:
        asked.append(key)
        return True

    for confirm in (None, lambda _key: False):
        assert refused(lambda confirm=confirm: add_market("acme", site.url, confirm=confirm)) == (
            f"The market was not added: its key {PINNED} was not confirmed. "
            "Ask the people who run it for its key, and give it with --key."
        )
        assert not (data / "market").exists()
    assert add_market("acme", site.url, confirm=yes).key == PINNED
    assert asked == [PINNED]
    assert "There is a market `acme` already." in refused(lambda: add_market("acme", site.url, PINNED))


def test_a_refresh_brings_what_is_new(site: Site, acme: Market) -> None:
    assert not refresh_market(acme).changed
    site.offer(entry(), entry("notes"), serial=2)
    done = refresh_market(acme)
    assert (done.serial, done.plugins, done.changed) == (2, 2, True)
    assert {one.name for one in find_offers()} == {"notes", "weather"}


def test_a_cached_index_can_be_used_offline(site: Site, acme: Market) -> None:
    with serving(site.folder) as gone:
        url = gone.url
    moved = Market(acme.name, url, acme.key, acme.added_at)
    said = refused(lambda: refresh_market(moved))
    assert said.startswith(f"{url}{INDEX_FILE} could not be fetched: ")
    assert said.endswith("Check the address and your network. What was fetched before can still be used.")
    assert find_offer("weather").version == "1.0.0"


def test_a_name_that_two_markets_offer_belongs_to_neither(site: Site, acme: Market) -> None:
    """A public source cannot slip something under a company's name."""
    add_market("other", site.url, PINNED)
    assert refused(lambda: find_offer("weather")) == (
        "Several markets offer `weather`: acme, other. Name the one that you mean with --market."
    )
    assert find_offer("weather", market="other").market == "other"
    assert refused(lambda: find_offer("weather", market="othr")) == "There is no market `othr`. Did you mean `other`?"


# Withdrawn


def test_withdrawn_versions_are_known_at_each_start(site: Site, acme: Market, data: Path) -> None:
    gone = {"reason": "It sends your notes elsewhere.", "at": "2026-02-01T00:00:00Z"}
    site.offer(entry(), entry(version="2.0.0", withdrawn=gone), entry("notes", withdrawn=gone), serial=2)
    refresh_market(acme)
    assert withdrawn_names() == {
        ("weather", "2.0.0"): "It sends your notes elsewhere.",
        ("notes", "1.0.0"): "It sends your notes elsewhere.",
    }
    assert withdrawn_names("other") == {}
    assert find_offer("weather").version == "1.0.0"
    assert find_offer("notes").withdrawn is not None
    assert [one.name for one in find_offers()] == ["weather"]
    (data / "market" / "acme" / "withdrawn.json").write_text("{")
    assert withdrawn_names() == {}
    refresh_market(acme)
    assert len(withdrawn_names()) == 2


def test_looking_for_withdrawn_versions_imports_nothing_heavy(acme: Market, data: Path) -> None:
    program = (
        "import sys, ferrule.plugins.plugin_files as files; files.withdrawn_names();"
        "print([one for one in ('httpx2', 'cryptography', 'asyncio', 'pydantic') if one in sys.modules])"
    )
    environment = {**os.environ, "FERRULE_DATA": str(data)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# Attacks on the index


def test_a_wrong_signature_is_refused_and_the_old_index_stays(site: Site, acme: Market) -> None:
    signed = sign(index(entry("notes"), serial=2), KEY)
    site.put(signed.replace(b'"notes"', b'"nodes"'))
    assert refused(lambda: refresh_market(acme)) == (
        f"The signature of the index of {site.url} is wrong: the index was changed or damaged. "
        "Try again later. If it stays, tell the people who run the market."
    )
    assert [one.name for one in find_offers()] == ["weather"]


def test_another_key_than_the_pinned_one_is_refused(site: Site, acme: Market) -> None:
    site.put(sign(index(serial=2), OTHER_KEY))
    said = refused(lambda: refresh_market(acme))
    assert f"is signed with another key: {public_key(OTHER_KEY)} instead of {PINNED}." in said
    assert "remove the market and add it again with --key" in said
    remove_market("acme")
    assert "is signed with another key" in refused(lambda: add_market("acme", site.url, PINNED))
    lying = sign(index(), OTHER_KEY).replace(public_key(OTHER_KEY).encode(), PINNED.encode())
    site.put(lying)
    assert "The signature of the index" in refused(lambda: add_market("acme", site.url, PINNED))
    assert "`ed25519:12` is not a public key" in refused(lambda: add_market("acme", site.url, "ed25519:12"))


def test_a_rolled_back_index_is_refused(site: Site, acme: Market) -> None:
    site.offer(serial=7)
    refresh_market(acme)
    site.offer(entry("vulnerable"), serial=6)
    assert refused(lambda: refresh_market(acme)) == (
        f"{site.url} offers an older index than you have: serial 6, yours is 7. Yours stays. "
        "Someone may be hiding withdrawn plugins from you. Tell the people who run the market."
    )
    site.offer(entry("other"), serial=7)
    assert "offers another index under the serial 7 that you have. Yours stays." in refused(
        lambda: refresh_market(acme)
    )
    assert [one.name for one in find_offers()] == ["weather"]


def test_an_expired_index_is_refused_and_a_kept_one_warns(
    site: Site, acme: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.offer(serial=2, days=-1)
    assert f"The index of {site.url} expired on 20" in refused(lambda: refresh_market(acme))
    site.offer(serial=2, days=1)
    refresh_market(acme)
    monkeypatch.setattr("ferrule.plugins.offers.now", lambda: market_module.now().replace(year=2100))
    notes: list[str] = []
    assert [one.name for one in find_offers(note=notes.append)] == ["weather"]
    assert len(notes) == 1
    assert notes[0].startswith("The index of the market acme expired on 20")
    assert notes[0].endswith("so it may lack withdrawn plugins. Fetch it again: ferrule market refresh acme")


BAD_SHAPES: dict[str, tuple[Any, str]] = {
    "not JSON": (b"{", "is not JSON"),
    "not UTF-8": (b'"\xff"', "is not JSON"),
    "deep": (b"[" * 100_000, "is not JSON"),
    "a list": (b"[]", "has a wrong shape at "),
    "no metadata": (b'{"servers": []}', "has a wrong shape at `metadata`: Field required"),
    "no serial": (b'{"servers": [], "metadata": {}}', "has a wrong shape at `metadata.serial`"),
    "serial 0": (index(serial=0), "has a wrong shape at `metadata.serial`"),
    "look-alike": (index(entry("wеather")), "has a wrong shape at `servers.0.server.name`"),
    "wide": (index(entry("ｗeather")), "has a wrong shape at `servers.0.server.name`"),
    "upper case": (index(entry("Weather")), "has a wrong shape at `servers.0.server.name`"),
    "newline": (index(entry("weather\n")), "has a wrong shape at `servers.0.server.name`"),
    "a path": (index(entry("../weather")), "has a wrong shape at `servers.0.server.name`"),
    "version": (index(entry(version="1.0 0")), "has a wrong shape at `servers.0.server.version`"),
    "twice": (index(entry(), entry()), "lists weather 1.0.0 twice"),
    "hash": (index(entry(files=[{"url": "a", "sha256": "0", "size": 1}])), "files.0.sha256"),
    "size": (index(entry(files=[{"url": "a", "sha256": "0" * 64, "size": -1}])), "files.0.size"),
    "file:": (index(entry(files=[{"url": "file:///etc/passwd", "sha256": "0" * 64, "size": 1}])), "cannot be fetched"),
    "http:": (index(entry(files=[{"url": "http://a.example/", "sha256": "0" * 64, "size": 1}])), "only https://"),
    "kind": (index(entry(kinds={"a": "harmless"})), "kinds.a"),
    "needs": (index(entry(needs={"everything": ["yes"]})), "needs.everything"),
    "naive time": (index(entry(published_at="2026-01-01T00:00:00")), "published_at"),
}


@pytest.mark.parametrize("shape", BAD_SHAPES)
def test_a_signed_index_of_a_wrong_shape_is_refused_with_the_place(site: Site, acme: Market, shape: str) -> None:
    payload, said = BAD_SHAPES[shape]
    site.put(sign(payload, KEY))
    assert said in refused(lambda: refresh_market(acme))
    assert [one.name for one in find_offers()] == ["weather"]


def test_what_is_no_signed_index_is_refused(site: Site) -> None:
    for data in (b"", b"<html>", index(), b"ferrule-market 2 " + sign(index(), KEY)[17:]):
        site.put(data)
        assert refused(lambda: add_market("acme", site.url, PINNED)) == (
            f"{site.url} is not a signed index: its first line has no signature. "
            "Check the address. A registry without signatures is added with --registry."
        )
    (site.folder / INDEX_FILE).unlink()
    assert "answered with status 404." in refused(lambda: add_market("acme", site.url, PINNED))


SIGNED = sign(index(entry(), entry("notes")), KEY)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, len(SIGNED) - 1), byte=st.integers(0, 255))
@example(at=len(SIGNED) - 1, byte=32)
@example(at=90, byte=65)
def test_any_change_of_a_byte_is_refused(at: int, byte: int) -> None:
    changed = bytearray(SIGNED)
    changed[at] = byte
    if bytes(changed) == SIGNED:
        assert check(SIGNED, PINNED, "it") == SIGNED.partition(b"\n")[2]
        return
    with pytest.raises(MarketError):
        check(bytes(changed), PINNED, "it")


@given(st.binary(min_size=1, max_size=20), st.integers(0, len(SIGNED)))
def test_nothing_can_be_put_in_or_cut_off(more: bytes, at: int) -> None:
    for changed in (SIGNED[:at] + more + SIGNED[at:], SIGNED[: min(at, len(SIGNED) - 1)]):
        with pytest.raises(MarketError):
            check(changed, PINNED, "it")


# Hostile servers


def answering(head: bytes, then: Callable[[socket.socket], object] = lambda _connection: None) -> Any:
    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        then(connection)

    return raw(answer)


def forever(piece: bytes, pause: float = 0.0) -> Callable[[socket.socket], None]:
    def send(connection: socket.socket) -> None:
        while True:
            connection.sendall(piece)
            time.sleep(pause)

    return send


def fetched(url: str, seconds: float = 30.0) -> str:
    return refused(lambda: fetch(url, 1_000_000, seconds))


def test_an_endless_body_is_cut_off() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", forever(b"x" * 65_536)) as url:
        assert fetched(url) == f"{url} has more than 1,000,000 bytes. Tell the people who run the server."


def test_one_that_only_says_how_large_it_is_is_cut_off_too() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc") as url:
        assert fetch(url, 10) == b"a"
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\nabc") as url:
        assert "could not be fetched: peer closed connection" in fetched(url)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"], ids=str)
def test_a_slow_server_is_not_waited_for(head: bytes) -> None:
    """Each piece comes soon after the last, so only a limit on all of it helps."""
    with answering(head, forever(b"x", 0.02)) as url:
        began = time.monotonic()
        assert fetched(url, 0.3).startswith(f"{url} took longer than 0.3 s.")
        assert time.monotonic() - began < 10


def test_huge_headers_are_refused() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n", forever(b"X-More: " + b"x" * 10_000 + b"\r\n")) as url:
        assert "could not be fetched: " in fetched(url)


def test_what_is_no_http_is_refused() -> None:
    for head in (b"\0" * 100, b"SSH-2.0-x\r\n", b""):
        with answering(head) as url:
            assert "could not be fetched: " in fetched(url)


def test_compressed_content_is_refused() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n") as url:
        assert "compressed content that was not asked for" in fetched(url)


def test_redirects_are_bounded_and_keep_their_scheme() -> None:
    for target, said in (
        ("/", "more than 5 redirects."),
        ("file:///etc/passwd", "redirects to file:///etc/passwd, which is not http://."),
        ("https://a.example/", "redirects to https://a.example/, which is not http://."),
        ("http://a.example/", "http://a.example/ cannot be fetched: only https:// is fetched"),
        ("http://u:p@127.0.0.1/", "it has a user name or password in it"),
    ):
        with answering(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()) as url:
            assert said in fetched(url)


def test_an_honest_redirect_is_followed(site: Site) -> None:
    target = f"{site.url}{INDEX_FILE}"
    with answering(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()) as url:
        assert add_market("moved", url, PINNED).url == url


@pytest.mark.parametrize(
    "url",
    ["http://plugins.example/", "ftp://127.0.0.1/", "file:///tmp/", "//a/", "", "https://", "https://a b/", "https://é.fr/",
     "https://u:p@a.example/", "http://127.0.0.1.evil.example/", "http://localhost.evil.example/", "https://[::1/",
     "https://a:99999/"],
)  # fmt: skip
def test_only_some_addresses_are_fetched(url: str) -> None:
    assert "cannot be fetched: " in refused(lambda: checked_address(url))
    assert "cannot be fetched: " in refused(lambda: add_market("acme", url, PINNED))


def test_markets_have_plain_names_and_plain_addresses(site: Site) -> None:
    for name in ("", "Acme", "a/b", "..", "аcme", "a" * 31, "-a", "acme\n"):
        assert "cannot name a market" in refused(lambda name=name: add_market(name, site.url, PINNED))
    for more in ("?x=1", "#a"):
        assert "has no `?` and no `#`" in refused(lambda more=more: add_market("acme", site.url + more, PINNED))


def test_an_interrupted_refresh_leaves_the_old_index(acme: Market, data: Path) -> None:
    new = sign(index(entry("new"), serial=2), KEY)
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(new)}\r\n\r\n".encode()
    for answer in (head + new[: len(new) // 2], b"HTTP/1.0 200 OK\r\n\r\n" + new[: len(new) // 2]):
        with answering(answer) as url:
            refused(lambda url=url: refresh_market(Market("acme", url, PINNED, acme.added_at)))
    assert [one.name for one in find_offers()] == ["weather"]
    assert sorted(one.name for one in (data / "market" / "acme").iterdir()) == [
        "index.signed",
        "source.json",
        "withdrawn.json",
    ]


def test_a_full_disk_leaves_the_old_index(
    site: Site, acme: Market, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    site.offer(entry("new"), serial=2)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(os, "fsync", full)
        refresh_market(acme)
    assert [one.name for one in find_offers()] == ["weather"]
    assert sorted(one.name for one in (data / "market" / "acme").iterdir()) == [
        "index.signed",
        "source.json",
        "withdrawn.json",
    ]


def test_two_at_once_keep_the_newest(site: Site, acme: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    """One fetched the old index, and writes after the other has the new one: it must not win."""
    old, met = (site.folder / INDEX_FILE).read_bytes(), threading.Barrier(2, timeout=30)
    newer_is_kept = threading.Event()
    new = sign(index(entry("new"), serial=2), KEY)
    answers = iter([old, new])

    def fetch_one(_url: str, _most: int) -> bytes:
        mine = next(answers)
        met.wait()
        if mine is old:
            assert newer_is_kept.wait(30)
        return mine

    monkeypatch.setattr(market_module, "fetch", fetch_one)
    ended: list[str] = []

    def one() -> None:
        try:
            ended.append(f"serial {refresh_market(acme).serial}")
            newer_is_kept.set()
        except MarketError as error:
            ended.append(error.message)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended[0] == "serial 2"
    assert "offers an older index than you have: serial 1, yours is 2." in ended[1]
    assert [one.name for one in find_offers()] == ["new"]


def test_many_add_at_once_and_one_wins(site: Site) -> None:
    ended: list[str] = []

    def one() -> None:
        try:
            ended.append(add_market("acme", site.url, PINNED).name)
        except MarketError as error:
            ended.append(error.message)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["There is a market `acme` already."] * 3 + ["acme"]
    assert find_offer("weather").market == "acme"


def test_a_damaged_cache_says_what_to_do(site: Site, acme: Market, data: Path) -> None:
    file = data / "market" / "acme" / INDEX_FILE
    file.write_bytes(file.read_bytes()[:-5])
    assert refused(lambda: find_offers()) == (
        "The kept index of the market acme is missing or damaged. Fetch it again: ferrule market refresh acme"
    )
    assert refresh_market(acme).changed
    assert find_offer("weather")
    (data / "market" / "acme" / "source.json").write_text("[]")
    assert "Remove the market and add it again: ferrule market remove acme" in refused(markets)
    remove_market("acme")
    assert markets() == []


# Names that could be mistaken


def test_near_names_are_found(site: Site, acme: Market) -> None:
    site.offer(
        entry("requests"), entry("acme/weather"), entry("git"), entry("weather-forecast"), entry("modern"), serial=2
    )
    refresh_market(acme)
    for name, near in {
        "request": ["requests"],
        "reqeusts": ["requests"],
        "requestes": ["requests"],
        "re-quests": ["requests"],
        "requ3sts": ["requests"],
        "rеquests": ["requests"],
        "weather_forecast": ["weather-forecast"],
        "weatherforecast": ["weather-forecast"],
        "wether-forecasts": ["weather-forecast"],
        "modem": ["modern"],
        "weather": ["acme/weather"],
        "acrne/weather": ["acme/weather"],
        "acme/vveather": ["acme/weather"],
        "acmee/wether": ["acme/weather"],
        "acme/wether": [],
        "got": [],
        "g1t": ["git"],
        "requests": [],
        "other/weather": [],
        "calendar": [],
    }.items():
        assert near_names(name) == near, name
    assert near_names("caIendar", also=["calendar"]) == ["calendar"]


# Registries


class Registry:
    """A small MCP registry."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.asked: list[str] = []
        self.page = 2

    def handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                from urllib.parse import parse_qs, urlsplit

                parts = urlsplit(self.path)
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                registry.asked.append(self.path)
                found = [one for one in registry.entries if asked.get("search", "") in json.dumps(one)]
                start = int(asked.get("cursor", "0"))
                end = start + min(registry.page, int(asked["limit"]))
                metadata = {"count": len(found), "nextCursor": str(end) if end < len(found) else None}
                body = json.dumps({"servers": found[start:end], "metadata": metadata}).encode()
                self.send_response(200 if parts.path == "/v0.1/servers" else 404)
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


def listed(name: str, version: str = "1.0.0", status: str = "active", **server: Any) -> dict[str, Any]:
    official = {"status": status, "publishedAt": "2026-01-01T00:00:00.123456Z", "isLatest": True}
    return {
        "server": {"name": name, "version": version, "description": f"Does {name}.", **server},
        "_meta": {"io.modelcontextprotocol.registry/official": official},
    }


def test_a_registry_is_searched_live_page_by_page_and_offline_from_what_it_answered() -> None:
    registry = Registry()
    bundle = {"registryType": "mcpb", "identifier": "https://a.example/a.mcpb", "fileSha256": "a" * 64}
    registry.entries = [
        listed("io.github.Ann/weather", packages=[bundle]),
        listed("io.github.Ann/weather", "1.1.0"),
        listed("io.github.bob/weather", status="deleted"),
        {"server": {"name": "broken"}},
        "nonsense",
        listed("io.github.bоb/weather"),
        listed("com.example/clock"),
    ]
    with running(registry.handler()) as url:
        market = add_market("mcp", url.rstrip("/"), registry=True)
        assert (market.is_registry, registry.asked) == (True, ["/v0.1/servers?limit=1"])
        found = find_offers("weather does")
        assert [(one.name, one.version) for one in found] == [("io.github.Ann/weather", "1.1.0")]
        assert found[0].proof == "By the registry's own name check, from this machine; no signature."
        assert Market("mcp", "https://a.example/", "", "").proof == (
            "By the registry's own name check (reverse DNS or GitHub), over TLS; no signature."
        )
        assert registry.asked[1:] == [
            "/v0.1/servers?search=weather&limit=100",
            "/v0.1/servers?search=weather&cursor=2&limit=100",
        ]
        first = find_offer("io.github.Ann/weather", "1.0.0")
        assert (first.files[0].url, first.files[0].sha256) == ("https://a.example/a.mcpb", "a" * 64)
        assert (first.publisher, first.kinds) == ("io.github.Ann", {})
        assert first.published_at is not None
        assert withdrawn_names() == {("io.github.bob/weather", "1.0.0"): "The registry lists it as deleted."}
        with pytest.raises(MarketError):
            find_offer("io.github.bоb/weather")
    notes: list[str] = []
    assert [one.version for one in find_offers("weather", note=notes.append)] == ["1.1.0"]
    assert len(notes) == 1
    assert notes[0].startswith("mcp: ")
    assert notes[0].endswith(" Answers from before are shown.")
    assert near_names("io.github.ann/weather") == ["io.github.Ann/weather"]


def test_a_registry_that_never_ends_is_asked_for_some_pages() -> None:
    registry = Registry()
    registry.entries = [listed(f"a.example/s{number}") for number in range(40)]
    with running(registry.handler()) as url:
        add_market("mcp", url, registry=True)
        notes: list[str] = []
        assert len(find_offers(note=notes.append)) == 10
        assert notes == ["mcp has more than 10 answers, and the first are shown. Search for more of the name."]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"servers": {}}', b"[" * 100_000, b"\xff"], ids=len)
def test_what_is_no_registry_is_refused(body: bytes) -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)) as url:
        assert refused(lambda: add_market("mcp", url, registry=True)) == (
            f"{url} does not answer as an MCP registry does: there is no list `servers`. "
            "Check the address. A signed market is added without --registry."
        )
