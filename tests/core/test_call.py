"""A call as it came in, and once it is sound."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from pydantic import BaseModel

from ferrule import RawCall, Session, Tool, ToolContext, tool
from ferrule.core.call import CallInfo, new_call_id


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
