"""Names that every provider accepts, and back (T10)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.dialects import NameMap
from ferrule.dialects import names as module
from tests.dialects.strategies import names

PORTABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@pytest.mark.parametrize("name", ["Read", "get_file", "_x", "a-b", "x" * 64, "mcp__github__search"])
def test_a_portable_name_stays(name: str) -> None:
    assert NameMap().external(name) == name


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("files.read", "files_read__"),
        ("读取文件", "tool__"),
        ("9lives", "_9lives__"),
        ("x" * 65, "x" * 52 + "__"),
    ],
)
def test_another_name_keeps_what_can_be_read_of_it(name: str, start: str) -> None:
    assert NameMap().external(name).startswith(start)


@given(st.lists(names, unique=True, max_size=30))
def test_every_name_is_portable_apart_from_the_others_and_comes_back(given_names: list[str]) -> None:
    known = NameMap()
    shown = [known.external(name) for name in given_names]
    assert all(PORTABLE.fullmatch(name) for name in shown)
    assert len(set(shown)) == len(shown)
    assert [known.internal(name) for name in shown] == given_names


@given(st.lists(names, unique=True, min_size=2, max_size=10))
def test_a_name_does_not_depend_on_its_neighbours(given_names: list[str]) -> None:
    crowd = NameMap()
    for name in given_names[:-1]:
        crowd.external(name)
    assert crowd.external(given_names[-1]) == NameMap().external(given_names[-1])


def test_nobody_can_choose_the_name_that_another_tool_was_given() -> None:
    """A server that registers a made name on purpose must not receive the other tool's calls."""
    known = NameMap()
    victim = known.external("files.delete")
    assert known.external(victim) != victim
    assert known.internal(victim) == "files.delete"


def test_two_names_with_one_hash_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.portable_name
    monkeypatch.setattr(
        module, "portable_name", lambda name, salt=0, longest=64: f"same__{salt:010x}" if name != "ok" else real(name)
    )
    known = NameMap()
    assert known.external("a.b") != known.external("a/b")
    assert known.internal(known.external("a/b")) == "a/b"


def test_names_leave_room_for_what_others_write_before_them() -> None:
    known = NameMap(50)
    assert known.external("x" * 50) == "x" * 50
    made = known.external("x" * 51)
    assert len(made) == 50
    assert known.internal(made) == "x" * 51


def test_a_name_never_shown_comes_back_as_it_is() -> None:
    assert NameMap().internal("made_up") == "made_up"
