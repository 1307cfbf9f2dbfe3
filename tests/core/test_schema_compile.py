"""No reference of a schema makes Ferrule open a connection or a file (T4, S1)."""

from __future__ import annotations

import http.server
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ferrule.core.errors import DefinitionError
from ferrule.core.schema_params import SchemaParams

if TYPE_CHECKING:
    from pathlib import Path


def test_a_server_that_would_answer_is_never_asked():
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        schemas = [
            {"$ref": f"{address}/a"},
            {"$schema": f"{address}/meta"},
            {"$dynamicRef": f"{address}/b#x"},
            {"$id": f"{address}/c", "properties": {"a": {"$ref": "d"}}},
            {"if": {"$ref": f"{address}/e"}},
        ]
        for schema in schemas:
            with pytest.raises(DefinitionError):
                SchemaParams("do_it", schema).compile()
        with pytest.raises(DefinitionError):
            SchemaParams("do_it", {"$ref": "urn:a"}, {"urn:a": {"$ref": f"{address}/f"}}).compile()
        server.shutdown()
        thread.join()
    assert asked == []


def test_a_file_is_never_read(tmp_path: Path):
    target = tmp_path / "schema.json"
    target.write_text('{"type": "string"}')
    for ref in (target.as_uri(), str(target)):
        with pytest.raises(DefinitionError):
            SchemaParams("do_it", {"$ref": ref}).compile()
