"""A call as it came in, and once it is sound."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ferrule import RawCall, Session, Tool, ToolContext, tool
from ferrule.core.call import CallInfo, Effects, FileEffect, new_call_id


def test_a_call_without_an_id_gets_one_of_its_own() -> None:
    assert RawCall("t").id != RawCall("t").id
    assert RawCall("t", id="mine").id == "mine"
    assert RawCall("t", id="").id.startswith("call_")
    assert RawCall("t").id.count("_") == 2, "no model that counts call_1, call_2 meets it"


def test_ids_are_unique_across_threads() -> None:
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.extend(new_call_id() for _ in range(2000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 8000


FORKING = """
import os
from ferrule.core.call import new_call_id
child = os.fork()
os.write(1, new_call_id().encode() + b" ")
if child:
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_ids_are_unique_across_forks() -> None:
    """A server that forks its workers after the imports has them all count from one."""
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True)
    parents, childs = done.stdout.split()
    assert parents != childs


def test_calls_are_equal_when_everything_is() -> None:
    assert RawCall("t", {"a": 1}, id="c") == RawCall("t", {"a": 1}, id="c")
    assert RawCall("t", {"a": 1}, id="c") != RawCall("t", {"a": 1}, id="c", version="1")
    assert RawCall("t", id="c") != "c"
    with pytest.raises(TypeError):
        hash(RawCall("t"))


def test_calls_say_what_they_are() -> None:
    assert repr(RawCall("t", "{}", id="c")) == "RawCall('t', '{}', id='c', version=None)"


def test_an_invocation_asks_its_tool() -> None:
    """T5, T6."""

    @tool(kind="readonly", signature=lambda params: params.path, always_rule=lambda params: "any")
    def read(path: str) -> None: ...

    invocation = read.build({"path": "/a"}, call_id="c")
    assert (invocation.call_id, invocation.signature, invocation.always_rule) == ("c", "/a", "any")
    assert invocation.repairs == ()
    assert repr(invocation).startswith("Invocation('read', ")


def test_an_invocation_asks_its_tool_with_its_session() -> None:
    """T6: and a tool that words its own summary keeps it."""

    class Nothing(BaseModel): ...

    class Read(Tool[Nothing]):
        name = "read"

        def describe(self, params: Nothing, session: Session) -> CallInfo:
            return CallInfo(signature=session.id)

        def run(self, params: Nothing, context: ToolContext) -> None: ...

    class Told(Read):
        summary = "my own words"

        def describe(self, params: Nothing, session: Session) -> CallInfo:
            return Tool.describe(self, params, session)

    invocation = Read().build({})
    invocation.session = Session(id="s1")
    assert (invocation.signature, invocation.summary, invocation.always_rule) == ("s1", "read s1", "read")
    assert Told().build({}).summary == "my own words"


_NAMES = st.lists(st.sampled_from(["a", "b", "src", "out", "x.py", "р", "l" * 90]), min_size=1, max_size=4)
_EFFECTS = st.builds(
    lambda action, names, at, odd: FileEffect(
        action, f"/w/{at}", "/".join([*names, f"{at}"]), node="link" if odd else "file", opens=odd
    ),
    st.sampled_from(["create", "create", "create", "change", "delete", "rename", "mode"]),
    _NAMES,
    st.integers(0, 10**6),
    st.sampled_from([False, False, False, True]),
)


@given(st.lists(_EFFECTS, max_size=120), st.integers(6, 40))
def test_no_change_is_hidden_by_order_or_for_want_of_room(files: list[FileEffect], most: int) -> None:
    """P4: each is named or counted in its folder, removals first, and every one is named on demand."""
    told = Effects(tuple(files))
    lines = told.lines(most)
    counted = Counter[str]()
    for line in lines:
        several = re.match(r"(.*?)(\d[\d,]*) files(?: in |: )", line)
        verb = next(
            one for one in ("delete", "rename", "change the permissions of", "change", "create") if line.startswith(one)
        )
        counted[verb] += int(several[2].replace(",", "")) if several and several[1] == f"{verb} " else 1
    assert counted == Counter(one.words.partition(f" {one.shown}")[0] for one in files)
    order = [["delete", "rename", "change", "create"].index(line.split()[0]) for line in lines]
    assert order == sorted(order)
    assert len(lines) <= max(most, 2 * 5)
    assert sorted(told.every_line) == sorted(one.words for one in files)
    if len(lines) < len(files):
        assert told.folded(most)


def test_what_stands_out_comes_before_others_of_its_kind() -> None:
    files = [FileEffect("create", f"/w/o/{at}", f"o/{at}") for at in range(50)]
    odd = [
        FileEffect("create", "/w/z/.envrc", "z/.envrc", guarded=True),
        FileEffect("create", "/w/z/p", "z/\u0440assword"),
        FileEffect("create", "/w/z/l", "z/l", node="link", target="/etc"),
        FileEffect("create", "/w/z/s", "z/s", detail="4755", opens=True),
    ]
    assert Effects((*files, *odd)).lines()[:-1] == [one.words for one in odd]


def test_a_file_that_was_moved_is_no_removal() -> None:
    """The only real removal among many renames is the first line."""
    moved = [
        one
        for at in range(30)
        for one in (
            FileEffect("delete", f"/w/a/{at}", f"a/{at}", detail=f"renamed to b/{at}", moved=True),
            FileEffect("rename", f"/w/b/{at}", f"b/{at}", detail=f"from a/{at}", source=f"/w/a/{at}"),
        )
    ]
    told = Effects((*moved, FileEffect("delete", "/w/z", "z")))
    assert told.reason == "it would delete 1 file and rename 30 files"
    assert told.lines() == ["delete z", "rename 30 files in b/: 0, 1, 2, …"]
    assert len(told.every_line) == 61


def test_a_name_is_marked_wherever_the_effect_comes_from() -> None:
    """P4: no front end has to think of it; a deep tree of many files is summed up at once."""
    effect = FileEffect("create", "/w/p\u0430y", "p\u0430y")
    assert (effect.shown, effect.stands_out, effect.path) == ("p\\u{430}y", True, "/w/p\u0430y")
    deep = [FileEffect("create", "/w/x", "/".join(["d"] * 1500 + [f"{at}"])) for at in range(500)]
    assert Effects(tuple(deep)).lines() == [
        f"create 500 files in {'d/' * 8}: {'d/' * 14}d…, {'d/' * 14}d…, {'d/' * 14}d…, …"
    ]
