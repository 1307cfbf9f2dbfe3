"""What servers offered last time."""

from __future__ import annotations

from pathlib import Path

from ferrule.mcp_client.remote_tool import Definition, DefinitionStore
from ferrule.mcp_client.server_config import ServerConfig

CONFIG = ServerConfig("a/b", ("x",))
ONE = Definition({"name": "one", "inputSchema": {"type": "object"}})


def test_it_is_there_again_for_the_same_command_alone(tmp_path: Path) -> None:
    store = DefinitionStore(tmp_path)
    assert store.load(CONFIG) is None
    store.save(CONFIG, [ONE])
    found = store.load(CONFIG)
    assert found is not None
    assert [one.digest for one in found.definitions] == [ONE.digest]
    assert store.load(ServerConfig("a/b", ("y",))) is None
    store.forget(CONFIG)
    assert store.load(CONFIG) is None


def test_a_file_that_somebody_spoilt_is_nothing(tmp_path: Path) -> None:
    store = DefinitionStore(tmp_path)
    store.save(CONFIG, [ONE])
    (file,) = tmp_path.iterdir()
    for text in ("{", '{"tools": 5}', f'{{"fingerprint": "{CONFIG.fingerprint}", "tools": {{}}}}'):
        file.write_text(text)
        assert store.load(CONFIG) is None
