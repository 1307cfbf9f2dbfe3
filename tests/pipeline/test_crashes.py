"""P10, O2: a crash is in the log with its traceback; what a result says of it is a setting."""

from __future__ import annotations

import errno
import logging
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule.core.context import Session, ToolContext
from ferrule.core.errors import ToolError
from ferrule.core.function_tool import tool
from ferrule.core.tool import Kind, Tool
from ferrule.pipeline.run import Runtime
from ferrule.pipeline.stages import CallRecord


@tool(kind="readonly")
async def pay(amount: int) -> str:
    """Pay an amount."""
    raise KeyError(f"account of {amount}, password=hunter2")


class NoParams(BaseModel):
    pass


class Unshowable(Tool[NoParams]):
    """Give what cannot be shown."""

    name = "unshowable"
    kind = Kind.READONLY

    async def run(self, params: NoParams, context: ToolContext) -> dict[str, int]:
        return {"a": 1}

    def render(self, value: Any) -> str:
        raise RuntimeError("a detail of the render")


class Unchecked(Tool[NoParams]):
    """Have a check that crashes."""

    name = "unchecked"
    kind = Kind.READONLY

    async def run(self, params: NoParams, context: ToolContext) -> str:
        return "ran"

    def check(self, params: NoParams) -> None:
        raise RuntimeError("a detail of the check")


@tool(kind="readonly")
def decline() -> str:
    """Decline."""
    raise ToolError("Not today.")


@tool(kind="readonly")
def exhausted() -> str:
    """Find no file that can be opened."""
    raise OSError(errno.EMFILE, "Too many open files")


async def said(**options: Any) -> list[str]:
    runtime = Runtime([pay, Unshowable(), Unchecked(), decline], **options)
    calls = [("pay", {"amount": 5}), ("unshowable", {}), ("unchecked", {}), ("decline", {})]
    return [(await runtime.run(*call)).llm_content.splitlines()[0].partition(": ")[2] for call in calls]


async def test_the_model_reads_the_cleaned_message_unless_set_otherwise() -> None:
    assert (
        await said()
        == await said(show_crashes="message")
        == snapshot(
            [
                "`pay` failed. KeyError: 'account of 5, password=[redacted]'",
                "`unshowable` ran, but its `render` failed. RuntimeError: a detail of the render",
                "`unchecked` was not run: its own check of the arguments failed. RuntimeError: a detail of the check",
                "Not today.",
            ]
        )
    )


async def test_the_model_may_read_the_type_alone() -> None:
    assert await said(show_crashes="type") == snapshot(
        [
            "`pay` failed. KeyError",
            "`unshowable` ran, but its `render` failed. RuntimeError",
            "`unchecked` was not run: its own check of the arguments failed. RuntimeError",
            "Not today.",
        ]
    )


async def test_the_model_may_read_nothing_of_it() -> None:
    assert await said(show_crashes="nothing") == snapshot(
        [
            "`pay` failed. Its error message is not shown.",
            "`unshowable` ran, but its `render` failed. Its error message is not shown.",
            "`unchecked` was not run: its own check of the arguments failed. Its error message is not shown.",
            "Not today.",
        ]
    )


async def test_the_user_and_the_record_have_no_more_than_the_model() -> None:
    records: list[CallRecord] = []

    class Keeper:
        def record(self, record: CallRecord) -> None:
            records.append(record)

    result = await Runtime([pay], recorders=[Keeper()], show_crashes="nothing", language="zh").run("pay", {"amount": 5})
    assert result.display_content == snapshot("`pay` 失败。错误信息不予显示。")
    assert records[0].error == snapshot("`pay` failed. Its error message is not shown.")


async def test_a_session_of_its_own_has_the_same_setting() -> None:
    own = Runtime([pay], show_crashes="type").for_session(Session())
    assert "account" not in (await own.run("pay", {"amount": 5})).llm_content


async def test_a_broken_policy_follows_the_setting_too() -> None:
    class Broken:
        def decide(self, invocation: object, session: object) -> Any:
            raise RuntimeError("a detail of the policy")

        remember = decide

    result = await Runtime([pay], policy=Broken(), show_crashes="type").run("pay", {"amount": 5})
    assert "a detail" not in result.llm_content
    assert "RuntimeError" in result.llm_content


def test_another_setting_is_refused() -> None:
    with pytest.raises(ValueError, match='"message", "type" or "nothing"'):
        Runtime([pay], show_crashes="none")  # type: ignore[arg-type]


async def test_every_crash_is_logged_with_its_traceback_and_nothing_else_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    await said(show_crashes="nothing")
    crashes = [record for record in caplog.records if record.name == "ferrule.crashes"]
    assert [(record.levelname, record.getMessage().partition(" (call ")[0]) for record in crashes] == [
        ("ERROR", "Tool pay crashed"),
        ("ERROR", "Tool unshowable crashed"),
        ("ERROR", "Tool unchecked crashed"),
    ]
    assert 'raise KeyError(f"account of {amount}' in caplog.text
    assert "Not today" not in caplog.text


async def test_a_call_in_a_batch_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    runtime = Runtime([pay, Unchecked()])
    await runtime.batch([{"name": "pay", "arguments": {"amount": 1}}, {"name": "unchecked", "arguments": {}}])
    assert sorted(record.getMessage().split()[1] for record in caplog.records) == ["pay", "unchecked"]


async def test_a_machine_that_has_run_out_is_no_fault_in_a_line_of_code(caplog: pytest.LogCaptureFixture) -> None:
    await Runtime([exhausted]).run("exhausted")
    (record,) = caplog.records
    assert not record.exc_info
