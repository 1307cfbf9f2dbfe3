"""Requests that do not fit: what is wrong with each is said."""

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot

from tests.mcp_server.processes import stdio_server


def test_what_is_wrong_with_a_request_is_said(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        early = server.request(1, "tools/list")["error"]
        server.greet()
        found = [
            early,
            server.request(2, "tools/call", name="Read", arguments='{"file_path": "a"}')["error"],
            server.request(3, "tools/call", arguments={})["error"],
            server.request(4, "tools/list", cursor=5)["error"],
        ]
    assert {one["code"] for one in found} == {-32602}
    assert [one["message"] for one in found] == snapshot(
        [
            "`tools/list` was not accepted: this connection has had no `initialize` yet. Send that first.",
            "`tools/call` was not accepted: `params.arguments`: Input should be a valid dictionary.",
            "`tools/call` was not accepted: `params.name`: Field required.",
            "`tools/list` was not accepted: `params.cursor`: Input should be a valid string.",
        ]
    )
