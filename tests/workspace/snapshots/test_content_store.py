from __future__ import annotations

import os
from pathlib import Path

import pytest

from ferrule.workspace.snapshots.content_store import SHARDS, ContentLost, ContentStore, pack, room
from ferrule.workspace.tracker import digest


def put(store: ContentStore, data: bytes) -> str:
    store.put(digest(data), pack(data), durable=True)
    return digest(data)


@pytest.mark.parametrize("data", [b"", b"small", b"text " * 5000, os.urandom(50_000), b"x" * 600_000])
def test_what_is_put_comes_back(tmp_path: Path, data: bytes) -> None:
    store = ContentStore(tmp_path / "contents")
    name = put(store, data)
    assert store.get(name) == data
    assert store.has(name, sum(map(len, pack(data))), durable=True)
    store.remove(name)
    store.remove(name)
    with pytest.raises(ContentLost):
        store.get(name)


def test_what_compresses_takes_less_room() -> None:
    assert sum(map(len, pack(b"text " * 5000))) < 4096
    assert sum(map(len, pack(os.urandom(50_000)))) == 50_001
    assert [room(size) for size in (0, 1, 4096, 4097)] == [0, 4096, 4096, 8192]


@pytest.mark.parametrize("damage", [b"", b"\0other", b"\1not zlib", b"\7"])
def test_what_is_damaged_is_lost_and_not_believed(tmp_path: Path, damage: bytes) -> None:
    store = ContentStore(tmp_path)
    name = put(store, b"good")
    (tmp_path / name[:2] / name[2:]).write_bytes(damage)
    with pytest.raises(ContentLost):
        store.get(name)
    assert not store.has(name, 5, durable=False) or len(damage) == 5
    put(store, b"good")
    assert store.get(name) == b"good"


def test_the_shards_list_everything(tmp_path: Path) -> None:
    store = ContentStore(tmp_path)
    names = {put(store, b"%d" % n) for n in range(50)}
    assert {name for number in range(SHARDS) for name in store.shard(number)} == names
