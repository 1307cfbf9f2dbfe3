"""Every form can do all that is asked of a form, and no server can make one fail in a way nobody expects."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core.model import Finished, ModelError, ModelRequest, UserMessage
from ferrule.models.faults import Endpoint, Faults, TryAgain
from ferrule.models.providers import Provider, form_of
from ferrule.models.wire_form import Frame, WireForm

from .endpoints.wire import FORMS, Call, Says, stream_of

ENDPOINT = Endpoint("x", "X", "https://x.example", "key")
FAULTS = Faults(ENDPOINT, "m")
SAYS = Says(text=["a", "b"], thinking=["c"], calls=[Call("i", "look", ['{"a"', ": 1}"])], stop="calls")


def form(name: Any) -> WireForm:
    return form_of(Provider("x", "X", name, "https://x.example"))


@pytest.mark.parametrize("name", FORMS)
def test_a_form_says_where_and_how_to_ask(name: str) -> None:
    one = form(name)
    body = one.body(ModelRequest([UserMessage("hi")]), "m")
    assert body["contents" if name == "gemini" else "input" if name == "responses" else "messages"]
    assert one.path("m")
    assert "key" in " ".join(one.headers(ENDPOINT).values())
    assert "key" not in " ".join(one.headers(Endpoint("x", "X", "https://x.example")).values())
    assert one.optional_fields.isdisjoint({"model", "messages", "input", "contents", "tools"})


# Real frames with something else in one place: shapes that a server may well send.
ODD = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=2) | st.just([]) | st.just({}) | st.just([{}])


def _frames(name: str) -> list[Frame]:
    lines = b"".join(stream_of(name, SAYS)).decode().splitlines()
    written = [line.removeprefix("data: ") for line in lines if line.startswith("data: ") and "[DONE]" not in line]
    return [Frame("message", json.loads(line)) for line in written]


def _spoil(value: Any, at: int, odd: Any) -> tuple[Any, int]:
    """The value with its `at`-th part replaced; gives how many parts are left to count."""
    if at == 0:
        return odd, -1
    at -= 1
    if isinstance(value, dict):
        out: Any = {}
        for key, inner in value.items():
            out[key], at = _spoil(inner, at, odd) if at >= 0 else (inner, at)
        return out, at
    if isinstance(value, list):
        listed: list[Any] = []
        for inner in value:
            one, at = _spoil(inner, at, odd) if at >= 0 else (inner, at)
            listed.append(one)
        return listed, at
    return value, at


@pytest.mark.parametrize("name", FORMS)
@given(spoilt=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), ODD), max_size=4), whole=st.booleans())
@settings(max_examples=150)
def test_any_shape_is_read_or_refused_in_words(name: str, spoilt: list[tuple[int, int, Any]], whole: bool) -> None:
    frames = _frames(name)
    for which, at, odd in spoilt:
        place = which % len(frames)
        frames[place] = Frame("message", _spoil(frames[place].data, at, odd)[0])
    if whole:
        frames = [Frame("whole", frame.data) for frame in frames]
    reader = form(name).reader(FAULTS, "m")
    with suppress(TryAgain, ModelError):  # nothing else may come out
        for frame in frames:
            reader.read(frame)
        if reader.is_complete:
            assert isinstance(reader.finish()[-1], Finished)
