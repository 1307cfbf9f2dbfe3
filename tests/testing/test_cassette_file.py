import asyncio
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import Runtime, ToolError, tool
from ferrule.testing import Cassette, CassetteError, ScriptedCaller, call


def weather(ran: list[str], version: str = "1.0.0"):
    @tool(kind="readonly", version=version, render=lambda value: f"{value['city']}: {value['degrees']} °C")
    async def get_weather(city: str, token: str = "") -> dict[str, Any]:
        """The weather of a city."""
        ran.append(city)
        if city == "Atlantis":
            raise ToolError(
                "There is no such city.", kind="not_found_error", suggestion="Try Lisbon.", details={"n": 1}
            )
        return {"city": city, "degrees": 20 + len(ran)} | ({"session_token": token} if token else {})

    return get_weather


def test_the_file_can_be_read_by_a_person_and_has_no_secret_in_it(tmp_path: Path):
    path = tmp_path / "weather.json"
    with Cassette(path) as cassette:
        runtime = Runtime(cassette.tools([weather([])]))
        asyncio.run(runtime.run("get_weather", {"city": "Zürich", "token": "tr0ub4dor"}))
        asyncio.run(runtime.run("get_weather", {"city": "Atlantis"}))
    assert path.read_text("utf-8") == snapshot("""\
{
  "ferrule_cassette": 1,
  "tools": {
    "get_weather": {
      "1.0.0": "27f41ddc842117c9"
    }
  },
  "calls": [
    {
      "tool": "get_weather",
      "version": "1.0.0",
      "arguments": {
        "city": "Atlantis",
        "token": "[redacted]"
      },
      "error": {
        "type": "not_found_error",
        "message": "There is no such city.",
        "suggestion": "Try Lisbon.",
        "details": {
          "n": 1
        }
      }
    },
    {
      "tool": "get_weather",
      "version": "1.0.0",
      "arguments": {
        "city": "Zürich",
        "token": "[redacted]"
      },
      "result": {
        "llm_content": "Zürich: 21 °C",
        "display_content": "Zürich: 21 °C",
        "data": {
          "city": "Zürich",
          "degrees": 21,
          "session_token": "[redacted]"
        }
      }
    }
  ]
}
""")


def test_recording_in_another_order_gives_the_same_file(tmp_path: Path):
    @tool(kind="readonly")
    def slowly(number: int) -> int:
        """Double a number, the small ones last."""
        import time

        time.sleep(0.02 / (number + 1))
        return 2 * number

    texts: set[str] = set()
    for name, numbers in (("a", range(10)), ("b", reversed(range(10)))):
        path = tmp_path / f"{name}.json"
        with Cassette(path) as cassette:
            caller = ScriptedCaller([[call("slowly", {"number": number}) for number in numbers]])
            caller.run(Runtime(cassette.tools([slowly])))
        texts.add(path.read_text("utf-8"))
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is damaged: Expecting property name"),
        ("[]", "is not a cassette"),
        ('{"ferrule_cassette": 3}', "its format is 3, and this one reads up to 2. Upgrade Ferrule."),
        ('{"ferrule_cassette": 1, "tools": {}, "calls": [{"tool": 5}]}', "is damaged: calls.0.tool: "),
        ('{"ferrule_cassette": 1, "calls": []}', "is damaged: tools: Field required"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_clear_error(tmp_path: Path, content: str, words: str):
    path = tmp_path / "weather.json"
    path.write_text(content)
    with pytest.raises(CassetteError) as error:
        Cassette(path)
    assert words in str(error.value)
    assert "to record again" in str(error.value)


def test_replaying_what_is_not_there_is_a_clear_error(tmp_path: Path):
    with pytest.raises(CassetteError, match="There is no cassette"):
        Cassette(tmp_path / "none.json", mode="replay")
    with pytest.raises(ValueError, match='"auto", "record" or "replay"'):
        Cassette(tmp_path / "none.json", mode="rewind")  # pyright: ignore[reportArgumentType]
