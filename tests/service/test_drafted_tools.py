"""Tools that a model drafts in the service (M4): by role, as an approval, for one tenant, and never in its process."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.client import AsyncClient, ServiceError
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.service.messages import ApprovalRecord, StoredCall
from tests.needs import needs
from tests.service.serving import Running, running

CODE = '''\
import os

from ferrule import ToolError, tool


@tool(kind="readonly")
def count_words(text: str) -> int:
    """Count the words of a text. Use this for questions about its length.

    Args:
        text: Any text.
    """
    if text == "fail":
        raise ToolError("There is nothing to count.", suggestion="Give a text.")
    if text == "die":
        os._exit(7)
    return len(text.split())
'''
EXAMPLES: list[dict[str, Any]] = [{"arguments": {"text": "one two"}, "gives": 2}]


def handed_in(code: str = CODE, examples: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"description": "Counts words.", "code": code, "examples": examples or EXAMPLES}


def tool_code(body: str, *, kind: str, imports: str = "import os") -> str:
    return f'''\
{imports}

from ferrule import tool


@tool(kind="{kind}")
def try_it(name: str) -> str:
    """Try something with a name. Use this to see what happens.

    Args:
        name: Any name.
    """
    {body}
'''


@pytest.fixture(autouse=True)
def sandboxed() -> None:
    needs(best_sandbox().has_layers, "a sandbox with layers")


async def drafter(service: Running, name: str = "ann") -> AsyncClient:
    admin = await service.client()
    await admin.put_role("drafter", ask=["draft_tool"])
    return await service.user(name, "drafter")


async def proposed(client: AsyncClient, draft: dict[str, Any]) -> tuple[StoredCall, ApprovalRecord]:
    call = await client.call("draft_tool", draft, wait=0)
    call = await waiting(client, call)
    assert call.status == "awaiting_approval", call.result
    assert call.approval is not None
    return call, await client.approval(call.approval)


async def waiting(client: AsyncClient, call: StoredCall) -> StoredCall:
    """The call once it was tried: it waits for an approval, or has failed."""
    async with asyncio.timeout(60):
        while call.status in ("queued", "running") or (call.status == "awaiting_approval" and not await listed(client)):
            await asyncio.sleep(0.05)
            call = await client.get_call(call.id)
    return call


async def listed(client: AsyncClient) -> bool:
    """Whether an approval is stored: a call says a moment earlier that it waits."""
    return bool(await client.approvals())


async def accepted(admin: AsyncClient, client: AsyncClient, draft: dict[str, Any]) -> StoredCall:
    call, approval = await proposed(client, draft)
    await admin.approve(approval)
    done = await client.get_call(call.id, wait=55)
    assert done.status == "succeeded", done.result
    return done


async def test_a_draft_is_tried_approved_and_a_tool_of_its_tenant_alone(store: str, tmp_path: Path) -> None:
    """M4."""
    async with running(store, tmp_path) as service:
        admin = await service.client()
        ann = await drafter(service)
        call, approval = await proposed(ann, handed_in())
        assert approval.summary == "draft_tool count_words: Counts words."
        assert approval.preview.partition("\n\n")[0] == snapshot("""\
count_words 1.0.0 (readonly) → intent__count_words, for everyone in the tenant
What a model reads of it:
- count_words: Count the words of a text. Use this for questions about its length.
- input (object)
- input.text (string): Any text.
- input.required: text
- output (integer)
Its run, in a box without network:
- {"text": "one two"} → 2
What its box permits, on every call:
- read the workspace and the system's programs, but no secret files
- change nothing
- reach no host\
""")
        assert "return len(text.split())" in approval.preview
        assert "intent__count_words" not in [tool.name for tool in await admin.tools()]
        await admin.approve(approval)
        done = await ann.get_call(call.id, wait=55)
        assert done.result is not None
        assert done.result.llm_content == snapshot(
            "Accepted: version 1 of `intent__count_words` (readonly) can be called now."
        )

        bob = await service.user("bob")  # a member, who may not draft and may use what was accepted
        counted = await bob.call("intent__count_words", {"text": "a b c"})
        assert counted.result is not None
        assert counted.result.data == 3
        wrong = await bob.call("intent__count_words", {"word": "a"})
        assert wrong.result is not None
        assert wrong.result.error is not None
        assert wrong.result.error.type == "validation_error"
        failed = await bob.call("intent__count_words", {"text": "fail"})
        assert failed.result is not None
        assert failed.result.llm_content == snapshot("""\
Error (execution_error): There is nothing to count.

Suggestion: Give a text.\
""")
        died = await bob.call("intent__count_words", {"text": "die"})
        assert died.result is not None
        assert died.result.llm_content == snapshot(
            "Error (execution_error): `count_words` gave no answer that could be read; its process ended with code 7."
        )

        other, _ = await service.tenant("other")
        assert "intent__count_words" not in [tool.name for tool in await other.tools()]
        nothing = await other.call("intent__count_words", {"text": "a"})
        assert nothing.result is not None
        assert nothing.result.error is not None
        assert nothing.result.error.type == "not_found_error"
        assert (await other.intents()) == []


async def test_who_drafts_and_who_accepts_is_by_rules(store: str, tmp_path: Path) -> None:
    """M4: two rights, and nobody has either without a rule."""
    async with running(store, tmp_path) as service:
        admin = await service.client()
        for client in (admin, await service.user("bob")):
            assert "draft_tool" not in [tool.name for tool in await client.tools()]
            refused = await client.call("draft_tool", handed_in())
            assert refused.result is not None
            assert refused.result.error is not None
            assert refused.result.error.type == "not_found_error"
        await admin.put_role("approver", allow=["Admin(approve *)"])
        await admin.put_role("accepter", allow=["Admin(approve others)", "Admin(drafts)"])
        await admin.put_role("both", allow=["Admin(approve own)", "draft_tool"])
        ann = await service.user("ann", "both")
        _, approval = await proposed(ann, handed_in())  # a rule that allows it asks all the same
        for client in (ann, await service.user("cyd", "approver")):
            with pytest.raises(ServiceError) as refused_decision:
                await client.approve(approval)
            assert refused_decision.value.status == 403
            assert "`Admin(drafts)`" in str(refused_decision.value)
        await (await service.user("dan", "accepter")).deny(approval, reason="we have one")
        call = await ann.get_call(approval.call, wait=30)
        assert call.result is not None
        assert "we have one" in call.result.llm_content
        assert await admin.intents() == []


@pytest.mark.slow
async def test_an_approval_outlives_the_instance_that_tried_the_draft(store: str, tmp_path: Path) -> None:
    """M4: another instance tries it again, and takes the decision for the same bytes."""
    async with running(store, tmp_path, drain_seconds=10) as service:
        key, ann = service.key, await drafter(service)
        call, approval = await proposed(ann, handed_in())
    async with running(store, tmp_path, key=key) as service:
        admin = await service.client()
        assert (await admin.approval(approval.id)).preview == approval.preview
        await admin.approve(approval)
        assert (await admin.get_call(call.id, wait=55)).status == "succeeded"
        counted = await admin.call("intent__count_words", {"text": "a b"})
        assert counted.result is not None
        assert counted.result.data == 2


@pytest.mark.slow
async def test_a_bad_draft_fails_with_all_that_is_wrong_and_asks_nobody(store: str, tmp_path: Path) -> None:
    """M4."""
    async with running(store, tmp_path) as service:
        ann = await drafter(service)
        code = CODE.replace("return len(text.split())", "return text").replace("-> int", "-> float")
        failed = await waiting(ann, await ann.call("draft_tool", handed_in(code), wait=0))
        assert failed.status == "failed"
        assert failed.result is not None
        assert failed.result.llm_content == snapshot("""\
Error (execution_error): The draft `count_words` was not accepted:
- Line 17: Return type does not match returned value: expected `float`, found `str & ~Literal["fail"] & ~Literal["die"]`.
- Example 1, {"text": "one two"}: it failed: `count_words` ran, but what it returned does not fit its declared type: expected number, got string "one two".

Suggestion: Fix it and call draft_tool again with the whole code.\
""")
        assert await (await service.client()).approvals() == []


@pytest.mark.slow
async def test_nobody_makes_one_around_the_trial_and_the_approval(store: str, tmp_path: Path) -> None:
    """M4: not even who may administer intents."""
    async with running(store, tmp_path) as service:
        admin = await service.client()
        handler = {"type": "draft", "code": CODE, "examples": EXAMPLES}
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        for one in (handler, {"type": "form", "submit": handler}):
            with pytest.raises(ServiceError, match="made with `draft_tool`"):
                await admin.put_intent("count_words", description="Counts.", parameters=schema, handler=one)
        assert await admin.intents() == []


@pytest.mark.slow
async def test_a_draft_is_raised_to_a_new_version_switched_off_and_removed(store: str, tmp_path: Path) -> None:
    """M4: as every intent is."""
    async with running(store, tmp_path) as service:
        admin, ann = await service.client(), await drafter(service)
        await accepted(admin, ann, handed_in())
        await accepted(admin, ann, handed_in(CODE.replace("len(", "1 + len("), [{**EXAMPLES[0], "gives": 3}]))
        counted = await ann.call("intent__count_words", {"text": "a"})
        assert counted.result is not None
        assert counted.result.data == 2
        await admin.change_intent("count_words", version=1)
        counted = await ann.call("intent__count_words", {"text": "a"})
        assert counted.result is not None
        assert counted.result.data == 1
        await admin.put_intent("other", description="Another one.", handler={"type": "tool", "tool": "add"})
        taken = CODE.replace("count_words", "other")
        refused = await waiting(ann, await ann.call("draft_tool", handed_in(taken), wait=0))
        assert refused.result is not None
        assert "There is an intent `other` already" in refused.result.llm_content
        await admin.delete_intent("count_words")
        assert "intent__count_words" not in [tool.name for tool in await ann.tools()]


async def test_a_call_reaches_nothing_but_its_callers_folder(store: str, tmp_path: Path, monkeypatch: Any) -> None:
    """M4: not the network, another user's files, the service's own, its variables or its process."""
    monkeypatch.setenv("SERVICE_SECRET", "very secret")
    async with running(store, tmp_path) as service:
        admin, ann = await service.client(), await drafter(service)
        workspaces = tmp_path / "workspaces/default"
        (workspaces / "bob").mkdir(parents=True)
        (workspaces / "bob/diary.txt").write_text("very secret")
        body = f"""\
found = []
    for place in ({str(workspaces / "bob/diary.txt")!r}, {str(tmp_path / "service.db")!r}, "/proc/1/environ"):
        try:
            found.append(open(place, "rb").read().decode("latin-1"))
        except OSError as error:
            found.append(type(error).__name__)
    try:
        socket.create_connection(("127.0.0.1", {service.url.rpartition(":")[2]}), 2)
        found.append("connected")
    except OSError:
        found.append("no network")
    found.append(str(os.environ.get("SERVICE_SECRET")))
    with open("mine.txt", "a") as file:
        file.write(name)
    return " ".join(one for one in found if "secret" in one or len(one) < 30)"""
        code = tool_code(body, kind="write", imports="import os, socket")
        examples = [{"arguments": {"name": "x"}, "check": "'secret' not in result"}]
        await accepted(admin, ann, handed_in(code, examples))
        call = await ann.call("intent__try_it", {"name": "y"}, wait=0)  # it writes, so that each call asks
        await admin.approve((await admin.approvals())[0])
        done = await ann.get_call(call.id, wait=55)
        assert done.result is not None
        assert "secret" not in done.result.llm_content
        assert done.result.data.startswith("FileNotFoundError FileNotFoundError")
        assert "no network None" in done.result.data
        assert (workspaces / "ann/mine.txt").read_text() == "y"


@pytest.mark.slow
async def test_a_readonly_one_that_writes_after_all_is_held_by_its_box(store: str, tmp_path: Path) -> None:
    """M4: the examples did not show it, and the kernel refuses it."""
    async with running(store, tmp_path) as service:
        admin, ann = await service.client(), await drafter(service)
        body = "\n    if name == 'late': open('made.txt', 'w').write('x')\n    return name"
        await accepted(
            admin, ann, handed_in(tool_code(body, kind="readonly"), [{"arguments": {"name": "x"}, "gives": "x"}])
        )
        done = await ann.call("intent__try_it", {"name": "late"})
        assert done.result is not None
        assert "Read-only file system" in done.result.llm_content
        assert not (tmp_path / "workspaces/default/ann/made.txt").exists()


@pytest.mark.slow
async def test_a_call_that_never_ends_is_stopped_with_all_it_started(store: str, tmp_path: Path) -> None:
    """M4."""
    async with running(store, tmp_path) as service:
        admin, ann = await service.client(), await drafter(service)
        mark = f"9{os.getpid()}.5"
        body = f"""\
    if name == "late":
        subprocess.Popen(["sleep", "{mark}"])
        while True: pass
    return name"""
        code = tool_code(body.strip(), kind="readonly", imports="import subprocess")
        await accepted(admin, ann, handed_in(code, [{"arguments": {"name": "x"}, "gives": "x"}]))
        done = await ann.call("intent__try_it", {"name": "late"}, timeout=3, wait=55)
        assert done.result is not None
        assert done.result.error is not None
        assert done.result.error.type == "timeout_error"
        assert not any(mark in _command_line(one) for one in Path("/proc").iterdir() if one.name.isdigit())


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""
