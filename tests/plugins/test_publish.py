"""R7: a folder of wheels and `.mcpb` files becomes a signed market, or a finding that names what is wrong."""

from __future__ import annotations

import json
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ferrule.plugins.market import add_market, fetch, refresh_market
from ferrule.plugins.offers import find_offer
from ferrule.plugins.plugin_files import withdrawn_names
from ferrule.plugins.publish import Published, publish
from ferrule.plugins.signed_index import INDEX_FILE, MarketError, MarketIndex, check, parse_index, sign
from tests.plugins.market_site import KEY, TABLE, make_mcpb, make_wheel, serving


class Shop:
    """A folder of plugins, a key and the market made of them."""

    def __init__(self, folder: Path) -> None:
        self.dist, self.key, self.out = folder / "dist", folder / "market.key", folder / "site"
        self.dist.mkdir()

    def publish(self, **options: Any) -> Published:
        return publish(self.dist, self.key, self.out, **options)

    def index(self, key: str) -> MarketIndex:
        return parse_index(check((self.out / INDEX_FILE).read_bytes(), key, "it"), "it")

    def refused(self, **options: Any) -> str:
        with pytest.raises(MarketError) as refusal:
            self.publish(**options)
        return f"{refusal.value.message} {refusal.value.suggestion or ''}".strip()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    return Shop(tmp_path)


def test_what_is_published_can_be_added_and_has_the_hashes_of_its_files(shop: Shop) -> None:
    wheel = make_wheel(shop.dist, "acme/weather", "1.2.0")
    clock = make_mcpb(
        shop.dist,
        {
            "manifest_version": "0.3", "name": "clock", "version": "0.1.0", "description": "The time.",
            "author": {"name": "Bob"}, "tools": [{"name": "now", "description": "It."}],
        },
    )  # fmt: skip
    done = shop.publish(reviewed=[("acme/weather", "1.2.0")])
    assert (done.serial, done.key_is_new, done.plugins) == (1, True, [("acme/weather", "1.2.0"), ("clock", "0.1.0")])
    assert done.added == done.plugins
    assert stat.S_IMODE(shop.key.stat().st_mode) == 0o600
    assert sorted(one.name for one in shop.out.iterdir()) == ["files", INDEX_FILE]
    with serving(shop.out) as site:
        add_market("acme", site.url, done.key)
        offer = find_offer("acme/weather")
        (file,) = offer.files
        assert file.url == f"{site.url}files/{wheel.name}"
        assert (file.sha256, file.size) == (sha256(wheel.read_bytes()).hexdigest(), wheel.stat().st_size)
        assert (shop.out / "files" / wheel.name).read_bytes() == wheel.read_bytes()
        assert (offer.summary, offer.publisher, offer.ferrule) == ("The weather of a city.", "Acme", ">=0.1")
        assert offer.kinds == {"read_weather": "readonly"}
        assert (offer.needs.hosts, offer.needs.secrets) == (("api.weather.example",), ("WEATHER_KEY",))
        assert offer.reviewed is not None
        assert offer.server["packages"] == [
            {
                "registryType": "pypi",
                "identifier": "acme-weather",
                "version": "1.2.0",
                "transport": {"type": "stdio"},
            }
        ]
        bundle = find_offer("clock")
        assert (bundle.kinds, bundle.publisher, bundle.reviewed) == ({"now": "unknown"}, "Bob", None)
        assert bundle.server["packages"][0]["fileSha256"] == sha256(clock.read_bytes()).hexdigest()


def test_the_serial_grows_and_the_day_of_publishing_stays(shop: Shop) -> None:
    make_wheel(shop.dist)
    first = shop.publish(reviewed=[("weather", "1.0.0")])
    (before,) = shop.index(first.key).servers
    make_wheel(shop.dist, version="1.1.0")
    second = shop.publish(days=7)
    assert (second.serial, second.key, second.key_is_new) == (2, first.key, False)
    assert second.added == [("weather", "1.1.0")]
    after = shop.index(first.key).servers[0]
    assert after == before
    (shop.dist / "acme_weather-1.0.0-py3-none-any.whl").unlink()
    third = shop.publish()
    assert (third.serial, third.dropped, third.plugins) == (3, [("weather", "1.0.0")], [("weather", "1.1.0")])


def test_what_was_withdrawn_stays_withdrawn_also_without_its_file(shop: Shop) -> None:
    old = make_wheel(shop.dist)
    make_wheel(shop.dist, version="1.1.0")
    done = shop.publish()
    with serving(shop.out) as site:
        market = add_market("acme", site.url, done.key)
        shop.publish(withdraw={("weather", "1.0.0"): "It leaks."})
        refresh_market(market)
        assert withdrawn_names() == {("weather", "1.0.0"): "It leaks."}
        old.unlink()
        assert shop.publish().withdrawn == [("weather", "1.0.0")]
        assert refresh_market(market).serial == 3
        assert withdrawn_names() == {("weather", "1.0.0"): "It leaks."}
        assert find_offer("weather").version == "1.1.0"


def test_wheels_for_several_machines_are_one_version(shop: Shop) -> None:
    make_wheel(shop.dist, tag="cp311-cp311-manylinux_2_28_x86_64")
    make_wheel(shop.dist, tag="cp311-cp311-macosx_11_0_arm64")
    done = shop.publish(base_url="https://files.acme.example/plugins")
    (entry,) = shop.index(done.key).servers
    assert [file.url for file in entry.plugin.files] == [
        "https://files.acme.example/plugins/acme_weather-1.0.0-cp311-cp311-macosx_11_0_arm64.whl",
        "https://files.acme.example/plugins/acme_weather-1.0.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    ]


def test_what_is_not_a_plugin_is_named_and_nothing_is_published(shop: Shop) -> None:
    make_wheel(shop.dist, "good")
    (shop.dist / "README.txt").write_text("hello")
    (shop.dist / "source-1.0.tar.gz").write_bytes(b"")
    (shop.dist / "folder").mkdir()
    (shop.dist / "broken.whl").write_bytes(b"PK nonsense")
    make_wheel(shop.dist, "plain", table="[project]\nname = 'x'\n")
    make_wheel(shop.dist, "toml", table="[[[")
    make_wheel(shop.dist, "Upper")
    make_wheel(shop.dist, "other", table=f"{TABLE.format(name='other', summary='')}version = '3'\n")
    make_wheel(shop.dist, "kind", table=TABLE.format(name="kind", summary="").replace("readonly", "harmless"))
    make_wheel(shop.dist, "large", table="#" * 1_000_001)
    make_mcpb(shop.dist, {"name": "clock", "version": 3})
    said = shop.refused().replace(f"{shop.dist}/", "").split("\n")
    assert said[0] == "Nothing was published, because of what is not a plugin:"
    found = dict(line.split(": ", 1) for line in said[1:])
    assert found["README.txt"] == "it is neither a wheel (.whl) nor an .mcpb file"
    assert found["source-1.0.tar.gz"] == "it is neither a wheel (.whl) nor an .mcpb file"
    assert found["folder"] == "it is not a file"
    assert found["broken.whl"] == "it is not a zip archive that can be read: File is not a zip file"
    wheel = "-1.0.0-py3-none-any.whl"
    assert found[f"acme_plain{wheel}"] == "ferrule-plugin.toml has no table [tool.ferrule.plugin]"
    assert found[f"acme_toml{wheel}"].startswith("its declaration cannot be read: ")
    assert found[f"acme_Upper{wheel}"].startswith("its declaration is wrong: `name`: ")
    assert found[f"acme_other{wheel}"] == "it says version 3, and the wheel is 1.0.0"
    assert found[f"acme_kind{wheel}"].startswith("its declaration is wrong: `tools.0.kind`: ")
    assert found[f"acme_large{wheel}"] == "acme_large/ferrule-plugin.toml in it has more than 1,000,000 bytes"
    assert found["clock.mcpb"].startswith("its declaration is wrong: `version`: ")
    assert len(found) == 11
    assert not shop.out.exists()
    assert not shop.key.exists()


def test_bad_bundles_are_findings(shop: Shop) -> None:
    for manifest in (
        [],
        "x",
        None,
        {"name": "a", "version": "1", "tools": 5},
        {"name": "a", "version": "1", "tools": [7]},
    ):
        make_mcpb(shop.dist, manifest)
        assert "clock.mcpb: its declaration " in shop.refused()


def test_files_may_have_any_name_and_hidden_ones_are_left_alone(shop: Shop) -> None:
    """`uv build` puts a `.gitignore` into `dist`."""
    (shop.dist / ".gitignore").write_text("*")
    make_mcpb(shop.dist, {"name": "clock", "version": "1.0"}).rename(shop.dist / "die Uhr #1: größer.mcpb")
    done = shop.publish()
    with serving(shop.out) as site:
        add_market("acme", site.url, done.key)
        file = find_offer("clock").files[0]
        assert file.url == f"{site.url}files/die%20Uhr%20%231%3A%20gr%C3%B6%C3%9Fer.mcpb"
        assert sha256(fetch(file.url, 10_000)).hexdigest() == file.sha256
    assert shop.publish().added == []
    make_mcpb(shop.dist, {"name": "clock", "version": "1.0", "more": 1}).rename(shop.dist / "die Uhr #1: größer.mcpb")
    assert "was published before with other content" in shop.refused()


def test_what_readers_would_refuse_is_not_published(shop: Shop) -> None:
    make_wheel(shop.dist)
    said = shop.refused(withdraw={("weather", "1.0.0"): "x" * 2_001})
    assert said.startswith("Nothing was published, because readers would refuse `reason`: ")
    assert "refuse `url`" in shop.refused(base_url=f"https://a.example/{'x' * 2_000}")
    assert not (shop.out / INDEX_FILE).exists()


def test_an_empty_folder_is_no_market(shop: Shop) -> None:
    assert shop.refused() == f"{shop.dist} has no plugins in it."


def test_a_published_version_never_changes(shop: Shop) -> None:
    make_wheel(shop.dist)
    done = shop.publish()
    before = (shop.out / INDEX_FILE).read_bytes()
    make_wheel(shop.dist, summary="Something else.")
    assert shop.refused() == (
        "acme_weather-1.0.0-py3-none-any.whl was published before with other content. "
        "Give the plugin a new version: its users have the hash of the old file."
    )
    assert (shop.out / INDEX_FILE).read_bytes() == before
    assert shop.index(done.key).metadata.serial == 1


def test_wheels_of_one_version_must_say_the_same(shop: Shop) -> None:
    make_wheel(shop.dist)
    make_wheel(shop.dist, summary="Other.", tag="cp311-cp311-macosx_11_0_arm64")
    assert "it declares weather 1.0.0 in another way than acme_weather-1.0.0-cp311" in shop.refused()


def test_the_key_is_kept_safe(shop: Shop, tmp_path: Path) -> None:
    make_wheel(shop.dist)
    assert "would be published with the market. Keep it outside of" in _refused_key(shop, shop.out / "market.key")
    shop.publish()
    shop.key.chmod(0o644)
    assert shop.refused() == (
        f"Other users can read the private key {shop.key}. Keep it to yourself: chmod 600 {shop.key}"
    )
    shop.key.chmod(0o600)
    assert "is signed already. Publish with the key of that market" in _refused_key(shop, tmp_path / "new.key")
    (shop.out / INDEX_FILE).write_bytes(sign(b"{}", KEY))
    assert "is signed with another key" in shop.refused()
    (shop.out / INDEX_FILE).unlink()
    shop.key.write_text("nonsense")
    assert "is not a private key in PEM form" in shop.refused()


def _refused_key(shop: Shop, key: Path) -> str:
    with pytest.raises(MarketError) as refusal:
        publish(shop.dist, key, shop.out)
    assert not key.exists()
    return f"{refusal.value.message} {refusal.value.suggestion or ''}"


def test_a_version_that_is_not_there_cannot_be_withdrawn(shop: Shop) -> None:
    make_wheel(shop.dist)
    said = "There is no weather==2.0.0 to publish. There are: weather==1.0.0."
    assert shop.refused(withdraw={("weather", "2.0.0"): "x"}) == said
    assert shop.refused(reviewed=[("weather", "2.0.0")]) == said
    assert not shop.key.exists()
    assert "only https:// is fetched" in shop.refused(base_url="http://files.example/")


def test_the_index_is_in_the_shape_of_the_mcp_registry(shop: Shop) -> None:
    make_wheel(shop.dist)
    done = shop.publish(withdraw={("weather", "1.0.0"): "It leaks."})
    document = json.loads(check((shop.out / INDEX_FILE).read_bytes(), done.key, "it"))
    assert set(document) == {"servers", "metadata"}
    (entry,) = document["servers"]
    assert set(entry) == {"server", "_meta"}
    assert (entry["server"]["name"], entry["server"]["version"]) == ("weather", "1.0.0")
    assert set(entry["_meta"]["dev.ferrule/plugin"]) == {
        "files", "kinds", "needs", "publisher", "ferrule", "published_at", "withdrawn",
    }  # fmt: skip
    assert set(document["metadata"]) == {"serial", "count", "generated_at", "expires_at"}
