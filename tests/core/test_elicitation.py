"""Whoever can reach the person is found by the call that runs, and by no other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ferrule import Runtime, tool
from ferrule.core.elicitation import Elicited, current_elicitor, set_elicitor


class Person:
    def __init__(self, name: str) -> None:
        self.name = name

    async def elicit(self, message: str, schema: Mapping[str, Any], *, server: str = "", url: str = "") -> Elicited:
        return Elicited("accept", {"said": f"{self.name} to {message}"})


@tool(kind="readonly")
async def ask_person() -> str:
    """Ask."""
    elicitor = current_elicitor()
    return str((await elicitor.elicit("hello", {})).content["said"]) if elicitor else "nobody"


async def test_each_task_has_its_own_person() -> None:
    runtime = Runtime([ask_person])

    async def call(person: Person | None) -> str:
        set_elicitor(person)
        return (await runtime.run("ask_person", {})).llm_content

    said = await asyncio.gather(*(asyncio.create_task(call(one)) for one in (Person("Ann"), None, Person("Bob"))))
    assert said == ["Ann to hello", "nobody", "Bob to hello"]
    assert current_elicitor() is None
