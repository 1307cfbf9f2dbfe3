"""TodoWrite: the list of steps that a model keeps of a longer task, and that the user sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ferrule.agent.agent_events import TODO
from ferrule.core.access import NOTHING
from ferrule.core.model import AssistantMessage
from ferrule.core.phrases import phrase
from ferrule.core.tool import Kind, Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.context import Session, ToolContext
    from ferrule.core.model import Message

Status = Literal["pending", "in_progress", "completed"]


class Todo(BaseModel):
    """One step."""

    model_config = ConfigDict(extra="ignore")  # models that know other lists send more

    content: str = Field(min_length=1, max_length=500, description="What is to be done, in one line.")
    status: Status = "pending"


class TodoParams(BaseModel):
    """The whole list, as it is now."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    todos: list[Todo] = Field(max_length=100, description="Every step in order, also those that are done.")


class TodoList:
    """The list of a session, as it was last written."""

    def __init__(self) -> None:
        self.todos: list[Todo] = []


def todos_of(session: Session) -> TodoList:
    return session.part(TodoList, TodoList)


def todos_in(messages: Sequence[Message]) -> list[Todo]:
    """The list that a conversation last wrote, for one that goes on."""
    for message in reversed(messages):
        for call in reversed(message.calls) if isinstance(message, AssistantMessage) else ():
            if call.name == TODO:
                try:
                    given = call.arguments
                    if isinstance(given, str | bytes):
                        return TodoParams.model_validate_json(given).todos
                    return TodoParams.model_validate(given).todos
                except ValueError:
                    continue  # it was refused then, too
    return []


_MARKS = {"completed": "x", "in_progress": "~", "pending": " "}


class TodoTool(Tool[TodoParams]):
    """Write down the steps of a task, and how far you are.

    Use this for tasks of three steps or more: write the list before you begin, and again whenever a step begins or
    ends. The user sees it. Leave it out for what takes one or two steps.

    Usage notes:
        - Give the whole list each time; it takes the place of the one before.
        - At most one step is `in_progress`. Mark a step `completed` only once it really is.
    """

    name = TODO
    category = "agent"
    tags = frozenset({"agent"})
    kind = Kind.READONLY  # it changes nothing but this list
    touches = NOTHING
    summary = "Write the list of steps"
    doing = "writing the list of steps"

    async def run(self, params: TodoParams, context: ToolContext) -> dict[str, Any]:
        todos_of(context.session).todos = params.todos
        return params.model_dump()

    def render(self, value: dict[str, Any]) -> str:
        return (
            "\n".join(f"[{_MARKS[one['status']]}] {one['content']}" for one in value["todos"]) or "The list is empty."
        )

    def display(self, value: dict[str, Any]) -> str:
        todos = value["todos"]
        done = sum(one["status"] == "completed" for one in todos)
        return phrase("{done} of {n} steps done", done=done, n=len(todos))
