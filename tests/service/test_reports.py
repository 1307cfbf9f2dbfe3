"""What people look at: the record of a call, figures, audit search, and what rules would do (O3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ferrule import ToolContext, tool
from ferrule.app.settings import PermissionSettings
from ferrule.panel.words import templates
from ferrule.tools import builtin_tools
from tests.service.serving import TOOLS, running, started


@tool(kind="readonly")
async def sum_of(context: ToolContext, numbers: list[int]) -> int:
    """Add numbers with another tool."""
    total = 0
    for number in numbers:
        total = (await context.call("add", {"a": total, "b": number})).data
    return total


async def test_the_record_of_a_call_has_its_decision_and_the_calls_that_it_made(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, tools=(*TOOLS, sum_of)) as service:
        admin, http = await service.client(), await service.http()
        for number in range(30):
            await admin.call("add", {"a": number, "b": 0})
        call = await admin.call("sum_of", {"numbers": [1, 2, 3]})
        await admin.call("add", {"a": 9, "b": 9})
        found = (await http.get(f"/v1/calls/{call.id}/record")).json()
        assert found["arguments"] == {"numbers": [1, 2, 3]}
        own = [row for row in found["rows"] if row["call_id"] == call.id]
        assert [row["verdict"] for row in own] == ["allow"]
        made = [row for row in found["rows"] if row["parent"] == call.id]
        assert [row["tool"] for row in made] == ["add"] * 3
        assert len(found["rows"]) == 4
        assert [event["type"] for event in found["events"]] == ["call.created", "call.started", "call.succeeded"]
        await admin.create_user("bob")
        other = await service.http((await admin.create_key("bob")).secret)
        assert (await other.get(f"/v1/calls/{call.id}/record")).status_code == 404


async def test_figures_count_what_happened_and_a_member_sees_their_own(store: str, tmp_path: Path) -> None:
    permissions = PermissionSettings(deny=["who"])
    async with running(store, tmp_path, permissions=permissions) as service:
        admin, http = await service.client(), await service.http()
        for _ in range(5):
            await admin.call("add", {"a": 1, "b": 2})
        await admin.call("refuse", {})
        await http.post("/v1/calls", json={"tool": "who"})
        await admin.create_user("bob")
        bob = await service.http((await admin.create_key("bob")).secret)
        await bob.post("/v1/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}})
        for period in ("hour", "day", "week", "month"):
            found = (await http.get("/v1/statistics", params={"period": period})).json()
            assert (found["total"]["calls"], found["total"]["failed"]) == (8, 2)
            assert sum(point["calls"] for point in found["points"]) == 8
        by_tool = {one["name"]: one for one in found["names"]}
        assert by_tool["add"]["calls"] == 6
        assert by_tool["add"]["p50"] <= by_tool["add"]["p95"] < 60
        assert by_tool["refuse"]["denied"] == 0
        users = (await http.get("/v1/statistics", params={"by": "user"})).json()["names"]
        assert {one["name"]: one["calls"] for one in users} == {"admin": 7, "bob": 1}
        assert (await bob.get("/v1/statistics")).json()["total"]["calls"] == 1
        assert (await bob.get("/v1/statistics", params={"by": "tenant"})).status_code == 403
        tenants = (await http.get("/v1/statistics", params={"by": "tenant"})).json()["names"]
        assert {one["name"]: one["calls"] for one in tenants} == {"default": 8}
        assert (await http.get("/v1/statistics", params={"period": "year"})).status_code == 400


async def test_the_audit_log_is_searched_newest_first(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin, http = await service.client(), await service.http()
        for number in range(5):
            await admin.call("add", {"a": number, "b": 400_000_000_000 + number})
        await admin.call("refuse", {})
        await admin.call("count", {"to": 1})

        async def found(**query: str) -> list[int]:
            return [row["seq"] for row in (await http.get("/v1/audit", params=query)).json()["rows"]]

        assert await found() == [1, 2, 3, 4, 5, 6, 7]
        assert await found(order="newest", limit="3") == [7, 6, 5]
        assert await found(before="5", limit="2") == [4, 3]
        assert await found(q="400000000003") == [4]
        assert await found(q="the SHOP is") == [6]
        assert await found(q="100%") == []
        assert await found(tool="add", before="3") == [2, 1]
        assert await found(tool="ad") == []
        assert await found(outcome="failure") == [6]
        assert await found(user="nobody") == []


async def test_rules_are_tried_on_a_call_and_nothing_runs(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin, http = await service.client(), await service.http()
        started.clear()
        await admin.put_role("writer", allow=["note"])

        async def verdict(**body: object) -> str:
            asked = {"tool": "note", "arguments": {"text": "tried"}, **body}
            return (await http.post("/v1/rules/test", json=asked)).json()["verdict"]

        assert await verdict() == "ask"
        assert await verdict(roles=["writer"]) == "allow"
        assert await verdict(roles=["writer"], deny=["note"]) == "deny"
        assert await verdict(mode="plan") == "deny"
        for body, status in (
            ({"tool": "nothing"}, 404),
            ({"tool": "note", "arguments": {}}, 422),
            ({"tool": "note", "allow": ["("]}, 422),
            ({"tool": "note", "deny": ["noet"]}, 422),
        ):
            assert (await http.post("/v1/rules/test", json=body)).status_code == status
        assert started == []
        assert (await admin.calls()).calls == []


@pytest.mark.slow
async def test_an_approval_names_every_file_that_a_command_changed(store: str, tmp_path: Path) -> None:
    """P4: the only deletion first, a list of approvals stays short, and one approval by itself has all."""
    tools = tuple(one for one in builtin_tools() if one.name in ("Write", "Bash"))
    async with running(store, tmp_path, tools=tools) as service:
        admin, http = await service.client(), await service.http()
        asked: dict[str, Any] = {"tool": "Write", "arguments": {"file_path": "zzz", "content": "precious"}}
        await http.post("/v1/calls", json=asked, headers={"Prefer": "respond-async"})
        (first,) = await admin.approvals()
        await admin.approve(first)
        many = "mkdir out; for i in $(seq -w 1 300); do echo > out/$i; done; rm zzz; : > 'p\u0430y'; chmod 600 out/007"
        while not [*(tmp_path / "workspaces").rglob("zzz")]:
            await asyncio.sleep(0.05)
        asked = {"tool": "Bash", "arguments": {"command": many}}
        await http.post("/v1/calls", json=asked, headers={"Prefer": "respond-async"})
        while not (found := [one for one in await admin.approvals() if one.tool == "Bash"]):
            await asyncio.sleep(0.05)
        listed, whole = found[0].effects, (await admin.approval(found[0].id)).effects
    summed = ["delete zzz (+0 -1)", "create p\\u{430}y", "create 300 files in out/: 001, 002, 003, …"]
    assert listed["lines"] == whole["lines"] == summed
    assert len(listed["files"]) + listed["more_files"] == len(whole["files"]) == 302
    assert [one["path"] for one in whole["files"]] == ["zzz", "p\\u{430}y", *(f"out/{at:03}" for at in range(1, 301))]
    assert listed["files"][0] == {"action": "delete", "path": "zzz", "node": "file"}
    for effects in (listed, whole):
        page = templates("en").from_string(
            "{% from 'parts.html' import effects_list %}{{ effects_list(effects, '/approvals/x') }}"
        )
        shown = page.render(effects=effects)
        assert "delete zzz" in shown
        assert "Every file: 302" in shown
        assert ("out/300" in shown) == ("more_files" not in effects)
        assert ('href="/approvals/x"' in shown) == ("more_files" in effects)


@pytest.mark.slow
async def test_an_approval_shows_what_the_call_would_change(store: str, tmp_path: Path) -> None:
    tools = tuple(one for one in builtin_tools() if one.name in ("Write", "Edit", "Read"))
    async with running(store, tmp_path, tools=tools) as service:
        admin, http = await service.client(), await service.http()
        asked = {"tool": "Write", "arguments": {"file_path": "a.txt", "content": "hello\n"}}
        await http.post("/v1/calls", json=asked, headers={"Prefer": "respond-async"})
        (waiting,) = await admin.approvals()
        assert "+hello" in waiting.preview
        assert "/dev/null" in waiting.preview
        assert str(tmp_path) not in waiting.preview
        # Whoever decides sees all of it: no line of a file cuts the rest off or is written in other words.
        lines = [
            "Traceback (most recent call last):",
            *(f"line number {number}" for number in range(300)),
            "#!/usr/bin/env x",
        ]
        asked = {"tool": "Write", "arguments": {"file_path": "b.txt", "content": "\n".join(lines)}}
        call = (await http.post("/v1/calls", json=asked, headers={"Prefer": "respond-async"})).json()["id"]
        (long,) = [one for one in await admin.approvals() if one.call == call]
        assert [line[1:] for line in long.preview.splitlines() if line.startswith("+")][1:] == lines
        # What must fail asks nobody.
        asked = {"tool": "Edit", "arguments": {"file_path": "none.txt", "old_string": "x", "new_string": "y"}}
        answer = (await http.post("/v1/calls", json=asked)).json()
        assert answer["status"] == "failed"
        assert len(await admin.approvals()) == 2
