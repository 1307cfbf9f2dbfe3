"""R7: `ferrule market`, against a real market on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.plugins.market_site import KEY, PINNED, Site, entry, index, make_wheel, serving

from ferrule.plugins.signed_index import sign

from .conftest import Command
from .terminal import ENTER, Terminal


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    with serving(tmp_path / "site") as site:
        gone = {"reason": "It leaks.", "at": "2026-02-01T00:00:00Z"}
        site.offer(
            entry(kinds={"read_weather": "readonly"}, needs={"hosts": ["api.example"], "secrets": ["KEY"]}),
            entry("weathr", "0.1.0"),
            entry("old-notes", withdrawn=gone),
        )
        yield site


def plain(text: str, site: Site) -> str:
    text = text.replace(site.url, "https://market.example/").replace("0" * 64, "SHA256")
    return re.sub(r"\d{4}-\d\d-\d\d(T[\d:+]+)?", "DATE", text)


def test_from_nothing_to_what_there_is_in_two_commands(ferrule: Command, site: Site) -> None:
    done = ferrule("market", "add", "acme", site.url, "--key", PINNED)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"acme was added. Plugins: 3. Pinned key: {PINNED}\n"
    done = ferrule("market", "search", "weather")
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot("""\
NAME     VERSION  MARKET  PUBLISHER  SUMMARY
weather  1.0.0    acme    Acme       About weather.
""")
    done = ferrule("market", "show", "weather")
    assert done.code == 0
    assert plain(done.out, site) == snapshot("""\
weather 1.0.0
About weather.
Market: acme
Proof: Signed by the market acme with the key that you pinned on DATE; files must have the sha256 in its index.
Publisher: Acme
Published: DATE
Reviewed: no
Tools: read_weather (readonly)
Hosts: api.example
Secrets: KEY
File: https://market.example/files/weather-1.0.0.whl (3 bytes, sha256 SHA256)
""")
    assert done.err == ("Warning: Its name is close to others: weathr. Make sure it is the one you mean.\n")
    assert "Warning: It was withdrawn: It leaks.\n" in ferrule("market", "show", "old-notes").err
    assert plain(ferrule("market", "list").out, site) == snapshot("""\
NAME  KIND    PLUGINS  EXPIRES     ADDRESS
acme  signed  3        DATE  https://market.example/
""")


def test_every_command_gives_a_document(ferrule: Command, site: Site) -> None:
    added = ferrule("market", "add", "acme", site.url, "--key", PINNED, "--json").json
    assert (added["name"], added["kind"], added["serial"], added["plugins"]) == ("acme", "signed", 1, 3)
    assert ferrule("market", "list", "--json").json == [added]
    found = ferrule("market", "search", "weather", "--json").json
    assert [one["name"] for one in found] == ["weather"]
    shown = ferrule("market", "show", "weather", "--json").json
    assert shown.pop("near_names") == ["weathr"]
    assert shown == found[0]
    assert shown["needs"] == {"hosts": ["api.example"], "folders": [], "secrets": ["KEY"], "programs": []}
    assert ferrule("market", "show", "old-notes", "--json").json["withdrawn"] == {
        "reason": "It leaks.",
        "at": "2026-02-01T00:00:00Z",
    }
    (refreshed,) = ferrule("market", "refresh", "--json").json
    assert (refreshed["market"], refreshed["changed"], refreshed["problem"]) == ("acme", False, None)
    assert ferrule("market", "remove", "acme", "--json").json == {"name": "acme", "removed": True}
    error = ferrule("market", "show", "weather", "--json").json["error"]
    assert (error["type"], error["message"]) == ("not_found_error", "There are no markets to look in.")
    assert error["suggestion"] == "Add one: ferrule market add NAME URL"


def test_a_refresh_says_what_came_and_what_failed(ferrule: Command, site: Site) -> None:
    for name in ("acme", "other"):
        ferrule("market", "add", name, site.url, "--key", PINNED)
    done = ferrule("market", "refresh", "acme")
    assert re.fullmatch(r"acme: up to date, serial 1. Plugin versions: 3. Valid until 20\S+\.\n", done.out)
    site.offer(serial=5)
    assert ferrule("market", "refresh", "acme").out.startswith(
        "acme: new index, serial 5. Plugin versions: 1. Valid until 20"
    )
    site.put(sign(index(serial=4), KEY))
    done = ferrule("market", "refresh")
    assert done.code == 1
    assert done.out.startswith("other: new index, serial 4.")
    assert done.err == (
        f"Warning: acme was not refreshed. {site.url} offers an older index than you have: serial 4, yours is 5. Yours "
        "stays. Someone may be hiding withdrawn plugins from you. Tell the people who run the market.\n"
    )
    done = ferrule("market", "refresh", "acme", "--json")
    assert done.code == 1
    assert done.json[0]["problem"].startswith(site.url)


def test_without_a_key_and_a_terminal_nothing_is_added(ferrule: Command, site: Site) -> None:
    done = ferrule("market", "add", "acme", site.url, stdin="y\n")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"Error: The market was not added: its key {PINNED} was not confirmed. "
        "Ask the people who run it for its key, and give it with --key.\n"
    )
    assert ferrule("market", "list").err == "There are no markets. Add one: ferrule market add NAME URL\n"


def test_with_yes_the_key_is_pinned_and_printed(ferrule: Command, site: Site) -> None:
    done = ferrule("market", "add", "acme", site.url, "--yes")
    assert done.code == 0
    assert PINNED in done.err
    assert f"Pinned key: {PINNED}" in done.out


def test_at_a_terminal_the_key_is_shown_and_confirmed(ferrule: Command, site: Site) -> None:
    for typed, said in (("n", "was not confirmed"), ("y", "Pinned key:")):
        arguments = ferrule.arguments("market", "add", "acme", site.url)
        with Terminal(arguments, ferrule.workspace, ferrule.environment, columns=120) as terminal:
            terminal.wait("Pin this key?")
            assert PINNED in terminal.text
            assert "Compare it with the key that the people who run the market gave you." in terminal.text
            terminal.press(typed + ENTER)
            terminal.wait(said)
            terminal.ended()
    assert [one["key"] for one in ferrule("market", "list", "--json").json] == [PINNED]


def test_wrong_ways_to_call_it(ferrule: Command, site: Site, tmp_path: Path) -> None:
    make_wheel(tmp_path / "dist")
    publish = (
        "market",
        "publish",
        str(tmp_path / "dist"),
        "--key-file",
        str(tmp_path / "k"),
        "--out",
        str(tmp_path / "o"),
    )
    for arguments, said in (
        (("market", "add", "mcp", site.url, "--registry", "--key", PINNED), "A registry is not signed"),
        ((*publish, "--withdraw", "weather==1.0.0"), "--withdraw and --reason go together."),
        ((*publish, "--withdraw", "weather", "--reason", "x"), "`weather` is not NAME==VERSION."),
        ((*publish, "--days", "0"), "0 is not in the range"),
        (("market", "publish", str(tmp_path / "none"), "--key-file", "k", "--out", "o"), "does not exist"),
    ):  # fmt: skip
        done = ferrule(*arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert said in done.err
    assert ferrule("market", "refresh", "nobody").err == (
        "Error: There is no market `nobody`. `ferrule market list` shows them.\n"
    )


def test_a_market_is_published_and_used(ferrule: Command, site: Site, tmp_path: Path) -> None:
    make_wheel(tmp_path / "dist", "acme/weather", "1.2.0")
    key = tmp_path / "market.key"
    publish = ("market", "publish", str(tmp_path / "dist"), "--key-file", str(key), "--out", str(site.folder / "shop"))
    done = ferrule(*publish)
    assert (done.code, done.err) == (0, "")
    lines = done.out.replace(str(tmp_path), "").splitlines()
    pinned = lines[-1].rpartition(" ")[2]
    assert plain("\n".join(lines).replace(pinned, "KEY"), site) == snapshot("""\
A new private key is in /market.key. Keep it safe and secret.
Published in /site/shop: serial 1. Plugin versions: 1. Valid until DATE.
New: acme/weather 1.2.0
To add it: ferrule market add NAME URL --key KEY\
""")
    assert ferrule("market", "add", "acme", f"{site.url}shop", "--key", pinned).code == 0
    done = ferrule(*publish, "--withdraw", "acme/weather==1.2.0", "--reason", "It leaks.")
    assert "Withdrawn: acme/weather 1.2.0\n" in done.out
    assert ferrule("market", "refresh").code == 0
    assert ferrule("market", "search").err == "No market offers a plugin with these words.\n"
    assert json.loads(ferrule(*publish, "--json").out)["serial"] == 3
    (tmp_path / "dist" / "README.txt").write_text("")
    done = ferrule(*publish)
    assert (done.code, done.out) == (1, "")
    assert "README.txt: it is neither a wheel (.whl) nor an .mcpb file\n" in done.err
