import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import Runtime, ToolError, tool
from ferrule.testing import (
    Cassette,
    CassetteMissError,
    Recorded,
    ScriptedAsker,
    ScriptedCaller,
    ToolChangedWarning,
    call,
)


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


def play(cassette: Cassette, tools: Any, *cities: str) -> ScriptedCaller:
    caller = ScriptedCaller([call("get_weather", {"city": city}) for city in cities])
    caller.run(Runtime(cassette.tools(tools)))
    return caller


def test_auto_records_once_and_then_replays_without_running(tmp_path: Path):
    path = tmp_path / "some" / "weather.json"
    ran: list[str] = []
    with Cassette(path) as cassette:
        assert cassette.recording
        first = play(cassette, [weather(ran)], "Oslo", "Atlantis")
    with Cassette(path) as cassette:
        assert not cassette.recording
        second = play(cassette, [weather(ran)], "Oslo", "Atlantis")
        assert cassette.unused == []
    assert ran == ["Oslo", "Atlantis"]
    assert second.transcript == first.transcript
    assert [one.to_dict() for one in second.results] == [one.to_dict() for one in first.results]
    assert second.result("call_1").llm_content == "Oslo: 21 °C"


def test_a_secret_argument_is_found_again_though_it_was_not_written(tmp_path: Path):
    path = tmp_path / "weather.json"
    arguments = {"city": "Oslo", "token": "tr0ub4dor"}
    with Cassette(path) as cassette:
        asyncio.run(Runtime(cassette.tools([weather([])])).run("get_weather", arguments))
    assert "tr0ub4dor" not in path.read_text("utf-8")
    with Cassette(path) as cassette:
        result = asyncio.run(Runtime(cassette.tools([weather([])])).run("get_weather", arguments))
    assert result.success


def test_an_own_redaction_replaces_the_default(tmp_path: Path):
    path = tmp_path / "weather.json"

    def hide_cities(value: Any) -> Any:
        return json.loads(json.dumps(value).replace("Oslo", "SOMEWHERE"))

    for _ in range(2):
        with Cassette(path, redact=hide_cities) as cassette:
            assert play(cassette, [weather([])], "Oslo").expect_success()
    assert "Oslo" not in path.read_text("utf-8")
    assert "SOMEWHERE: 21" in path.read_text("utf-8")


def test_equal_calls_replay_in_the_order_recorded_and_then_the_last_again(tmp_path: Path):
    path = tmp_path / "weather.json"
    with Cassette(path) as cassette:
        play(cassette, [weather([])], "Oslo", "Rome", "Oslo")
    with Cassette(path) as cassette:
        replayed = play(cassette, [weather([])], "Oslo", "Oslo", "Oslo", "Oslo")
        assert [one.arguments["city"] for one in cassette.unused] == ["Rome"]  # pyright: ignore[reportAttributeAccessIssue]
    assert [result.data["degrees"] for result in replayed.results] == [21, 23, 23, 23]


def test_an_unknown_call_fails_the_test_and_names_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    path = Path("weather.json")
    with Cassette(path) as cassette:
        play(cassette, [weather([])], "Oslo", "Lisbon")
    cassette = Cassette(path)
    result = play(cassette, [weather([])], "Lissabon").result("call_1")
    with pytest.raises(CassetteMissError) as miss:
        cassette.check()
    assert str(miss.value) == snapshot("""\
Not recorded in weather.json: get_weather {"city": "Lissabon", "token": "[redacted]"}
The nearest that was: get_weather {"city": "Lisbon", "token": "[redacted]"}
To record again, delete the file or open it with mode="record".\
""")
    assert str(miss.value) in result.llm_content
    with pytest.raises(CassetteMissError), Cassette(path) as cassette:
        play(cassette, [weather([])], "Paris")
    with pytest.raises(KeyError) as failure, Cassette(path) as cassette:
        play(cassette, [weather([])], "Paris")
        raise KeyError
    assert "Not recorded in weather.json" in failure.value.__notes__[0]


def test_a_tool_that_was_never_recorded_says_so(tmp_path: Path):
    path = tmp_path / "weather.json"
    with Cassette(path) as cassette:
        play(cassette, [weather([])], "Oslo")

    @tool(kind="readonly")
    def count_sheep(many: int) -> int:
        """Count."""
        return many

    says = "No call of `count_sheep` was, nor of a tool with a name like it"
    with pytest.raises(CassetteMissError, match=says), Cassette(path) as cassette:
        asyncio.run(Runtime(cassette.tools([count_sheep])).run("count_sheep", {"many": 3}))


def test_a_test_that_failed_writes_no_recording(tmp_path: Path):
    path = tmp_path / "weather.json"
    with pytest.raises(RuntimeError), Cassette(path) as cassette:
        play(cassette, [weather([])], "Oslo")
        raise RuntimeError
    assert not path.exists()


def test_record_writes_the_file_anew(tmp_path: Path):
    path = tmp_path / "weather.json"
    for city in ("Oslo", "Rome"):
        with Cassette(path, mode="record") as cassette:
            play(cassette, [weather([])], city)
    assert [one.arguments["city"] for one in Cassette(path, mode="replay").calls] == ["Rome"]


def test_a_tool_that_changed_is_reported(tmp_path: Path):
    path = tmp_path / "weather.json"
    with Cassette(path) as cassette:
        play(cassette, [weather([])], "Oslo")

    with Cassette(path) as cassette, pytest.warns(ToolChangedWarning, match=r"is version 2\.0\.0 now; .* with 1\.0\.0"):
        assert play(cassette, [weather([], "2.0.0")], "Oslo").expect_success()

    @tool(kind="readonly")
    async def get_weather(city: str, token: str = "", unit: str = "C") -> str:
        """The weather of a city."""
        return city

    with Cassette(path) as cassette, pytest.warns(ToolChangedWarning, match="parameters of `get_weather` have changed"):
        cassette.tools([get_weather])


def test_policy_questions_and_records_are_the_real_ones_while_replaying(tmp_path: Path):
    @tool(kind="write", touches=lambda params: ())
    def save(name: str) -> str:
        """Save something."""
        return f"saved {name}"

    path = tmp_path / "save.json"
    for _ in range(2):
        recorded = Recorded()
        with Cassette(path) as cassette, ScriptedAsker("once", "no") as ask:
            runtime = Runtime(cassette.tools([save]), ask=ask, recorders=[recorded])
            caller = ScriptedCaller(
                [call("save", {"name": "a"}), call("save", {"name": "b"}), call("save", {"nam": 1})]
            )
            caller.run(runtime)
            assert [one.outcome for one in recorded] == ["success", "permission_error", "validation_error"]
            assert ask.questions[0].summary == 'save {"name":"a"}'
    assert len(Cassette(path).calls) == 1
