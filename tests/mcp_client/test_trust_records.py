"""Records of trust: every change is found, nothing else is, and no value is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.mcp_client.server_config import ServerConfig
from ferrule.mcp_client.trust_records import TrustChange, TrustRecord, TrustRecords

SERVER = ServerConfig("s", ("serve", "--x"), env={"A": "alpha-value"}, folder="f", scope="/w")


def records(folder: Path) -> TrustRecords:
    return TrustRecords(folder / "mcp" / "trusted.json")


def changes(folder: Path, after: ServerConfig, before: ServerConfig = SERVER) -> list[TrustChange]:
    kept = records(folder)
    kept.remember(before)
    record = kept.of(after)
    assert record is not None
    return record.changes_to(after)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (SERVER, []),
        (replace(SERVER, command=("serve",)), [TrustChange("command", "serve --x", "serve")]),
        (replace(SERVER, command=("serve --x",)), [TrustChange("command", "serve --x", "'serve --x'")]),
        (replace(SERVER, folder=""), [TrustChange("folder", "f", None)]),
        (replace(SERVER, env={}), [TrustChange("variable", "A", None)]),
        (replace(SERVER, env={"A": "beta"}), [TrustChange("variable", "A", "A")]),
        (replace(SERVER, client_secret="x"), [TrustChange("sign-in", None, "client_secret")]),
        (replace(SERVER, timeout=5.0), []),
    ],
)
def test_each_change_is_found(tmp_path: Path, after: ServerConfig, found: list[TrustChange]) -> None:
    assert changes(tmp_path, after) == found


def test_what_was_trusted_before_is_known_until_it_is_forgotten(tmp_path: Path) -> None:
    kept = records(tmp_path)
    assert kept.given(SERVER.identity) == set()
    versions = [replace(SERVER, command=(str(at),)) for at in range(3)]
    for one in (*versions, versions[0]):
        kept.remember(one)
    assert kept.given(SERVER.identity) == kept.fingerprints() == {one.fingerprint for one in versions}
    kept.remember(replace(SERVER, name="other"))
    kept.forget(SERVER.identity)
    kept.forget(SERVER.identity)
    assert kept.given(SERVER.identity) == set()
    assert kept.of(replace(SERVER, name="other")) is not None


def test_a_record_from_before_that_was_kept_is_read(tmp_path: Path) -> None:
    kept = records(tmp_path)
    kept.remember(SERVER)
    file = tmp_path / "mcp" / "trusted.json"
    document = json.loads(file.read_text())
    del document[SERVER.identity]["earlier"]
    file.write_text(json.dumps(document))
    assert kept.given(SERVER.identity) == {SERVER.fingerprint}


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0="), min_size=1, max_size=8)
configs = st.builds(
    lambda words, env, headers, folder, url: (
        ServerConfig("s", headers=headers, url="https://h/" + "".join(words), folder=folder, scope="/w")
        if url
        else ServerConfig("s", ("run", *words), env=env, folder=folder, scope="/w")
    ),
    st.lists(texts, max_size=3),
    st.dictionaries(names, texts, max_size=2),
    st.dictionaries(texts, texts, max_size=2),
    texts,
    st.booleans(),
)


@given(configs, configs)
def test_there_are_changes_exactly_where_the_hash_is_another(before: ServerConfig, after: ServerConfig) -> None:
    """The person is never asked again without being shown why."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        assert bool(changes(Path(folder), after, before)) == (before.fingerprint != after.fingerprint)


def test_values_are_kept_as_digests_alone_and_each_record_has_its_own(tmp_path: Path) -> None:
    kept = records(tmp_path)
    for name in ("one", "two"):
        kept.remember(replace(SERVER, name=name))
    text = (tmp_path / "mcp" / "trusted.json").read_text()
    assert "alpha-value" not in text
    one, two = (dict[str, Any](found) for found in json.loads(text).values())
    assert one["parts"] != two["parts"], "the same value has another digest in each"


def test_one_that_is_as_it_was_keeps_its_day(tmp_path: Path) -> None:
    kept = records(tmp_path)
    kept.remember(SERVER)
    file = tmp_path / "mcp" / "trusted.json"
    found = json.loads(file.read_text())
    found["/w#s"]["day"] = "2020-01-02"
    file.write_text(json.dumps(found))
    kept.remember(SERVER)
    record = kept.of(SERVER)
    assert record is not None
    assert record.day == "2020-01-02"


@pytest.mark.parametrize(
    "odd",
    [3, [], {}, {"fingerprint": 1, "day": "d", "salt": "s", "parts": []}, {"parts": [[1, 2]]},
     {"fingerprint": "f", "day": "d", "salt": "s", "parts": [{"kind": "unheard of", "shown": "x", "digest": "y"}]}],
)  # fmt: skip
def test_a_record_that_somebody_wrote_otherwise_is_none(tmp_path: Path, odd: Any) -> None:
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "trusted.json").write_text(json.dumps({"/w#s": odd}))
    assert records(tmp_path).of(SERVER) is None
    records(tmp_path).remember(SERVER)
    assert isinstance(records(tmp_path).of(SERVER), TrustRecord)


def test_one_that_cannot_be_written_is_said_and_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mcp").write_text("a file in the way")
    records(tmp_path).remember(SERVER)
    assert "What s was when it was trusted could not be remembered" in caplog.text
