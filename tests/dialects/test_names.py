"""Names that every provider accepts, and back (T10)."""

from __future__ import annotations

import re
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.dialects import NameMap
from tests.dialects.strategies import names

PORTABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@pytest.mark.parametrize("name", ["Read", "get_file", "_x", "a-b", "x" * 64, "mcp__github__search"])
def test_a_portable_name_stays(name: str) -> None:
    assert NameMap().external(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("查询天气", "ChaXunTianQi"),
        ("读取文件", "DuQuWenJian"),
        ("天気.get", "TianQi_get"),
        ("날씨", "NalSsi"),
        ("größe_lesen", "grosse_lesen"),
        ("получить-погоду", "poluchit_-pogodu"),
        ("files.read", "files_read"),
        ("🔧fix", "wrench_fix"),
        ("9lives", "_9lives"),
        ("x" * 65, "x" * 64),
        ("查" * 40, "Cha" * 21 + "C"),
    ],
)
def test_another_name_is_what_can_be_read_of_it(name: str, shown: str) -> None:
    known = NameMap()
    assert known.external(name) == shown
    assert known.internal(shown) == name


@pytest.mark.parametrize("name", ["\u200b", "\ue000\ue001", "…", "-", "。。"])
def test_a_name_of_which_nothing_can_be_read_has_a_hash(name: str) -> None:
    assert re.fullmatch(r"tool__[0-9a-f]{8}", NameMap().external(name))


def test_the_same_name_is_made_in_every_process() -> None:
    script = (
        "from ferrule.dialects import NameMap\n"
        "known = NameMap(); known.learn(['查询天气', '茶讯天期']); print(known.external('查询天气'))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs == [snapshot("ChaXunTianQi__22cf3c76\n")] * 2


def test_without_the_letters_of_other_scripts_accents_go_and_the_rest_is_a_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "anyascii", None)
    assert NameMap().external("größe") == "gro_e"
    assert re.fullmatch(r"tool__[0-9a-f]{8}", NameMap().external("查询天气"))


def test_tools_that_read_alike_are_told_apart_and_one_that_needs_no_change_keeps_its_name() -> None:
    known = NameMap()
    known.learn(["查询天气", "茶讯天期", "files.read", "files_read", "Read"])
    assert known.external("files_read") == "files_read"
    assert known.external("Read") == "Read"
    made = [known.external(name) for name in ("查询天气", "茶讯天期", "files.read")]
    assert all(re.fullmatch(r"(ChaXunTianQi|files_read)__[0-9a-f]{8}", name) for name in made)
    assert len(set(made)) == 3


@given(st.lists(names, unique=True, max_size=30))
def test_every_name_is_portable_apart_from_the_others_and_comes_back(given_names: list[str]) -> None:
    known = NameMap()
    shown = [known.external(name) for name in given_names]
    assert all(PORTABLE.fullmatch(name) for name in shown)
    assert len(set(shown)) == len(shown)
    assert [known.internal(name) for name in shown] == given_names


@given(st.lists(names, unique=True, min_size=2, max_size=10), st.randoms())
def test_names_that_are_learnt_together_do_not_depend_on_their_order(given_names: list[str], random: Random) -> None:
    other = random.sample(given_names, len(given_names))
    maps = NameMap(), NameMap()
    for known, order in zip(maps, (given_names, other), strict=True):
        known.learn(order)
    first, second = ([known.external(name) for name in given_names] for known in maps)
    assert first == second


@given(st.lists(names, unique=True, min_size=2, max_size=10))
def test_a_name_depends_on_those_alone_that_read_alike(given_names: list[str]) -> None:
    *others, last = given_names
    crowd = NameMap()
    crowd.learn(others)
    alone = NameMap().external(last)
    if all(NameMap().external(other) != alone for other in others):
        assert crowd.external(last) == alone


@given(st.lists(names, unique=True, min_size=2, max_size=10))
def test_a_name_that_was_shown_stays_whatever_comes(given_names: list[str]) -> None:
    first, *others = given_names
    known = NameMap()
    shown = known.external(first)
    known.learn(others)
    assert (known.external(first), known.internal(shown)) == (shown, first)


@pytest.mark.parametrize("victim", ["files.delete", "删除文件", "\u200b"])
def test_nobody_can_choose_the_name_that_another_tool_was_given(victim: str) -> None:
    """A server that registers a made name on purpose must not receive the other tool's calls."""
    known = NameMap()
    shown = known.external(victim)
    assert known.external(shown) != shown
    assert known.internal(shown) == victim


def test_two_names_with_one_hash_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys.modules["ferrule.dialects.dialect"], "_hashed", lambda name, longest, salt=0: f"same__{salt:08x}"
    )
    known = NameMap()
    known.learn(["a.b", "a/b"])
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
