"""What a tool may know and use while it runs (T8)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ferrule import (
    Caller,
    Environment,
    PartialOutput,
    Progress,
    RawCall,
    Runtime,
    Session,
    ToolContext,
    ToolError,
    tool,
)
from ferrule.core.context import ANYONE, Cancellation, SandboxChoice


class Model:
    async def complete(self, prompt: str) -> str:
        return prompt.upper()


def session(tmp_path: Path) -> Session:
    return Session(
        workspace=tmp_path,
        caller=Caller("t", "u", "r"),
        config={"key": 1},
        state={"seen": 0},
        model="m",
        model_adapter=Model(),
        id="s",
    )


def test_a_tool_sees_its_session(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    @tool(kind="readonly")
    async def look(context: ToolContext) -> str:
        context.state["seen"] += 1
        seen.update(
            call=context.call_id, session=context.session_id, caller=context.caller, workspace=context.workspace,
            directory=context.working_directory, config=context.config["key"], model=context.model, tool=context.tool,
            lineage=context.lineage, cancelled=context.cancelled,
        )  # fmt: skip
        return await context.model_adapter.complete("hi")

    own = session(tmp_path)
    result = asyncio.run(Runtime([look], session=own).run(RawCall("look", id="c")))
    assert result.data == "HI"
    assert own.state == {"seen": 1}
    assert seen == {
        "call": "c", "session": "s", "caller": Caller("t", "u", "r"), "workspace": tmp_path, "directory": tmp_path,
        "config": 1, "model": "m", "tool": "look", "lineage": ("look",), "cancelled": False,
    }  # fmt: skip


def test_the_working_directory_is_the_workspace_unless_chosen() -> None:
    assert Session(workspace=Path("/w")).directory == Path("/w")
    assert Session(workspace=Path("/w"), working_directory=Path("/w/s")).directory == Path("/w/s")


def test_sessions_have_ids_of_their_own_and_are_nobodys_unless_said() -> None:
    assert Session().id != Session().id
    assert Session().caller is ANYONE
    assert Session().state is not Session().state


def test_a_missing_model_is_an_error_in_words() -> None:
    with pytest.raises(ToolError, match="This tool asks a model, and the session has none"):
        _ = ToolContext(Session(), "c", "t").model_adapter


def test_without_a_runtime_no_other_tool_can_be_called() -> None:
    context = ToolContext(Session(), "c", "t")
    with pytest.raises(ToolError, match="has no runtime"):
        asyncio.run(context.call("other"))
    with pytest.raises(ToolError, match="has no runtime"):
        asyncio.run(context.batch([]))


def test_reports_go_to_whoever_listens_and_nowhere_otherwise() -> None:
    heard: list[Any] = []
    context = ToolContext(Session(), "c", "t", heard.append)
    context.progress(1, 4, "a quarter")
    context.partial({"row": 1})
    assert heard == [Progress("c", "t", 1, 4, "a quarter"), PartialOutput("c", "t", {"row": 1})]
    assert context.watched
    silent = ToolContext(Session(), "c", "t")
    assert not silent.watched
    silent.progress(1)
    silent.partial("x")


def test_a_sync_tool_can_sleep_until_it_is_cancelled() -> None:
    cancellation = Cancellation()
    assert cancellation.wait(0.001) is False
    cancellation.raise_if_requested()
    threading.Timer(0.02, cancellation.request).start()
    began = time.monotonic()
    assert cancellation.wait(120) is True
    assert time.monotonic() - began < 60
    assert cancellation.requested
    with pytest.raises(ToolError) as error:
        cancellation.raise_if_requested()
    assert error.value.kind == "cancelled_error"


def test_a_nested_call_knows_where_it_came_from() -> None:
    @tool(kind="readonly")
    async def inner(context: ToolContext) -> list[str]:
        return [*context.lineage, context.session_id]

    @tool(kind="readonly")
    async def outer(context: ToolContext) -> Any:
        return (await context.call("inner")).data

    result = asyncio.run(Runtime([inner, outer], session=Session(id="s")).run("outer"))
    assert result.data == ["outer", "inner", "s"]


def test_a_session_has_its_workspace_and_the_folders_added_to_it(tmp_path: Path) -> None:
    assert Session(workspace=tmp_path).folders == (tmp_path,)
    session = Session(workspace=tmp_path, environment=Environment(roots=["/a", Path("/b")]))
    assert session.folders == (tmp_path, Path("/a"), Path("/b"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Environment(roots="/srv"), "Environment: `roots` takes a list. Write roots=['/srv']."),
        (lambda: Environment(guarded=cast("Any", Path("/srv"))), "`guarded` takes a list. Write guarded=['/srv']."),
        (lambda: SandboxChoice(hosts="pypi.org"), "SandboxChoice: `hosts` takes a list. Write hosts=['pypi.org']."),
        (lambda: Session(environment=cast("Any", {})), "Session: `environment` must be an Environment, not {}."),
    ],
)
def test_a_wrong_environment_says_so_when_it_is_made(wrong: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError) as raised:
        wrong()
    assert said in str(raised.value)


def test_a_session_keeps_one_object_of_a_type() -> None:
    """T8: what a tool keeps between calls is found by its type, and a session made like another one starts without."""
    session = Session()
    kept = session.part(Counter, Counter)
    assert session.part(Counter, Counter) is kept
    assert replace(session, id="other").part(Counter, Counter) is not kept
    session.drop_part(Counter)
    assert session.part(Counter, Counter) is not kept
    assert session.state == {}
