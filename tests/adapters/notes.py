"""The tools of every adapter's tests: some that read, one that asks, one that takes long, one that shows a picture."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ferrule import (
    Attachment,
    Caller,
    CallInfo,
    CallRecord,
    ErrorKind,
    Output,
    Policy,
    Registry,
    Runtime,
    Session,
    ToolContext,
    ToolError,
    raw_tool,
    tool,
)
from ferrule.policy import Effects, FileEffect

PNG = bytes.fromhex("89504e470d0a1a0a") + b"not much of a picture"


@dataclass
class Notes:
    """What the tools did, and what was recorded."""

    kept: dict[str, str] = field(default_factory=lambda: {"a": "milk", "b": "bread"})
    records: list[CallRecord] = field(default_factory=list[CallRecord])
    started: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    recorded: asyncio.Event = field(default_factory=asyncio.Event)

    def record(self, record: CallRecord) -> None:
        self.records.append(record)
        self.recorded.set()

    def calls(self) -> list[tuple[str, str, str | None]]:
        """Each record's tool, outcome and answer."""
        return [(one.tool, one.outcome, one.answer) for one in self.records]

    def runtime(self, *, policy: Policy | None = None, session: Session | None = None, ask: Any = None) -> Runtime:
        @tool(kind="readonly")
        def read_note(name: str, upper: bool = False) -> str:
            """Read a note."""
            return self.kept[name].upper() if upper else self.kept[name]

        @tool(kind="write")
        async def delete_note(name: str) -> str:
            """Delete a note."""
            return f"deleted {self.kept.pop(name)}"

        @tool(kind="readonly")
        async def wait_long(context: ToolContext) -> str:
            """Wait until the call is stopped."""
            context.progress(1, 10, "waiting")
            self.started.set()
            try:
                await asyncio.sleep(600)
            finally:
                self.stopped.set()
            return "never"

        @tool(kind="readonly")
        async def show_picture(context: ToolContext) -> Output[None]:
            """Show a picture."""
            context.progress(1, 2, "half of it")
            return Output(llm_content="A picture:", attachments=[Attachment("image/png", PNG)])

        @tool(kind="readonly", roles=["admin"])
        def count_users(context: ToolContext) -> str:
            """Count the users."""
            return f"3, as {context.session.caller.user} sees it"

        @tool(kind="readonly")
        async def clear_all(context: ToolContext) -> str:
            """Delete every note, one after the other."""
            return "; ".join(
                [(await context.call("delete_note", {"name": one})).llm_content for one in list(self.kept)]
            )

        tools = [read_note, delete_note, wait_long, show_picture, count_users, clear_all]
        return Runtime(Registry(tools), policy=policy, recorders=[self], session=session, ask=ask)


def tried(records: list[CallRecord], effects: list[str]) -> Runtime:
    """A tool that is tried first, as a shell command is, and asks about what it would change: the next of `effects`."""

    @tool(kind="execute", describe=lambda params, session: CallInfo(tentative=True))
    async def run_command(context: ToolContext) -> str:
        """Run a command."""
        name = effects.pop(0)
        approval = await context.approve(Effects((FileEffect("create", f"/notes/{name}", name),), f"+++ {name}\n"))
        if not approval.approved:
            raise ToolError(f"It was not kept: {approval.reason}.", kind=ErrorKind.PERMISSION)
        return f"created {name}"

    class Recorder:
        def record(self, record: CallRecord) -> None:
            records.append(record)

    return Runtime([run_command], recorders=[Recorder()])


ADMIN = Session(caller=Caller(user="ann", role="admin"))
NESTED_REFUSED = (
    "Error (permission_error): `delete_note` was not run: a tool that writes asks first, and approval isn't available "
    "here."
)


def strange_name() -> Any:
    """A tool whose name no provider takes, and whose schema refers to another part of itself."""
    schema = {
        "type": "object",
        "properties": {"of": {"$ref": "#/$defs/unit"}},
        "required": ["of"],
        "$defs": {"unit": {"enum": ["km", "mi"]}},
    }
    return raw_tool("查询.distance", schema, lambda given: f"1 {given['of']}", kind="readonly")
