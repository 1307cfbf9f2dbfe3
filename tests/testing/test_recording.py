import asyncio
import json
from pathlib import Path

from ferrule import Runtime, ToolContext, ToolResult, tool
from ferrule.testing import Cassette


def test_a_call_cut_short_is_not_recorded(tmp_path: Path):
    @tool(kind="readonly")
    async def sleep_long() -> None:
        """Sleep."""
        await asyncio.sleep(30)

    path = tmp_path / "c.json"
    with Cassette(path) as cassette:
        result = asyncio.run(Runtime(cassette.tools([sleep_long])).run("sleep_long", {}, timeout=0.01))
        assert result.error is not None
        assert cassette.calls == []
    assert json.loads(path.read_text())["calls"] == []


def test_some_tools_can_be_on_tape_among_others_that_run(tmp_path: Path):
    @tool(kind="readonly")
    async def warmest(context: ToolContext) -> ToolResult:
        """The warmest city."""
        return await context.call("get_weather", {"city": "Cairo"})

    ran: list[str] = []

    @tool(kind="readonly")
    async def get_weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        return f"{city}: {20 + len(ran)} °C"

    path = tmp_path / "c.json"
    for _ in range(2):
        with Cassette(path) as cassette:
            runtime = Runtime([*cassette.tools([get_weather]), warmest])
            assert asyncio.run(runtime.run("warmest", {})).llm_content == "Cairo: 21 °C"
    assert ran == ["Cairo"]
