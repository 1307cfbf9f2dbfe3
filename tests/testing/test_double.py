from pathlib import Path
from typing import Any

from ferrule import CallInfo, Registry, Session, reads, tool
from ferrule.builtin.read import read
from ferrule.core.tool import OPTIONS
from ferrule.testing import Cassette


@tool(
    kind="readonly", version="3.1", tags=("sky",), timeout=5, cache=60, roles=("crew",), needs=("tenant",),
    render=lambda value: f"{value['degrees']} °C", touches=lambda params: (reads("host", "weather.example"),),
)  # fmt: skip
async def get_weather(city: str, days: int = 3) -> dict[str, Any]:
    """The weather of a city.

    Args:
        city: Its name.
    """
    return {"city": city, "degrees": 20 + days}


def test_a_double_shows_what_the_tool_shows(tmp_path: Path):
    registry = Registry()
    registry.register(get_weather, origin="plugin", aliases=["forecast"])
    with Cassette(tmp_path / "c.json") as cassette:
        view = cassette.tools(registry)
        shown = view.get("forecast")
        original = registry.get("get_weather")
        assert shown is not None
        assert original is not None
        flags = ("has_check", "has_words", "has_touches")
        schemas = ("description", "input_schema", "output_schema", "expected_form")
        for what in (*(OPTIONS - {"max_result"}), *flags, *schemas, "name", "style"):
            assert getattr(shown, what) == getattr(original, what)
        registry.disable("get_weather")
        assert view.tools() == []


def test_a_double_says_it_of_the_session_too(tmp_path: Path):
    session = Session(workspace=tmp_path)
    with Cassette(tmp_path / "c.json") as cassette:
        (double,) = cassette.tools([read])
        ours, theirs = double.build({"file_path": "f"}), read.build({"file_path": "f"})
        ours.session = theirs.session = session
        assert (ours.touches, ours.signature) == ((reads("path", tmp_path / "f"),), str(tmp_path / "f"))
        assert (ours.always_rule, ours.summary) == (theirs.always_rule, theirs.summary)


def test_a_double_says_of_a_call_what_the_tool_says(tmp_path: Path):
    with Cassette(tmp_path / "c.json") as cassette:
        (double,) = cassette.tools([get_weather])
        ours, theirs = double.build({"city": "Oslo"}), get_weather.build({"city": "Oslo"})
        assert (ours.touches, ours.signature, ours.always_rule) == (theirs.touches, theirs.signature, "get_weather")
        assert ours.summary == theirs.summary
        assert double.render({"degrees": 3}) == "3 °C"
        assert double.display({"degrees": 3}) is None
        assert list(double.check(ours.params) or ()) == []


def test_a_double_says_what_a_call_touches_in_its_session(tmp_path: Path):
    def describe(params: Any, session: Session) -> CallInfo:
        return CallInfo(touches=reads("path", session.workspace), only_reads=True)

    @tool(kind="write", describe=describe)
    def peek() -> None:
        """Peek at something. Use it to look."""

    with Cassette(tmp_path / "c.json") as cassette:
        (double,) = cassette.tools([peek])
        invocation = double.build({})
        invocation.session = Session(workspace=tmp_path)
        assert invocation.touches == (reads("path", tmp_path),)
        assert invocation.only_reads
