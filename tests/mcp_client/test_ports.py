"""Where nobody stands behind a port, a server is declined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ferrule.mcp_client.server_config import Ports
from tests.mcp_client.peers import plain, using


async def test_sampling_is_declined_unless_somebody_lends_a_model(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        assert json.loads((await used.call("sample")).llm_content)["message"] == "Sampling not supported"


async def test_a_model_that_is_lent_is_asked(tmp_path: Path) -> None:
    from mcp_types import CreateMessageResult, TextContent

    asked: list[Any] = []

    async def lend(server: str, params: Any) -> CreateMessageResult:
        asked.append((server, params.messages[0].content.text))
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="hi"), model="m")

    async with using(tmp_path, plain(), ports=Ports(sample=lend)) as used:
        assert json.loads((await used.call("sample")).llm_content)["content"]["text"] == "hi"
    assert asked == [("peer", "hello")]
