"""`ferrule approvals`: decisions from the shell, on the database of a running service and over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.service.serving import Running, running, started
from tests.warm_start import USUAL, run_warm


async def ferrule(*arguments: str, key: str = "") -> tuple[int, str, str]:
    """Run the command as a shell does, beside the service."""
    command = ["-m", "ferrule", "approvals", *arguments]
    done = await asyncio.to_thread(run_warm, command, Path.cwd(), {**USUAL, "FERRULE_API_KEY": key})
    return done.code, done.out, done.err


async def waiting(service: Running, text: str) -> tuple[str, str]:
    """A call that waits, and its approval."""
    call = await (await service.client()).call("note", {"text": text}, wait=0)
    assert call.approval is not None
    return call.id, call.approval


@pytest.mark.parametrize("over_http", [False, True])
async def test_a_call_is_approved_or_denied_from_the_shell(store: str, tmp_path: Path, over_http: bool) -> None:
    started.clear()
    async with running(store, tmp_path) as service:
        client = await service.client()
        place = ("--url", service.url) if over_http else ("--database", store)
        (yes, allowed), (no, denied) = await waiting(service, "yes"), await waiting(service, "no")
        code, out, err = await ferrule("list", *place, key=service.key)
        assert (code, err) == (0, "Tenant: default\n")
        assert allowed in out
        code, out, _ = await ferrule("list", "--json", *place, key=service.key)
        assert code == 0
        assert [one["id"] for one in json.loads(out)["approvals"]] == [denied, allowed]
        code, out, _ = await ferrule("show", allowed, *place, key=service.key)
        assert 'arguments:\n{\n  "text": "yes"\n}\n' in out
        code, out, err = await ferrule("approve", allowed, "--reason", "fine", *place, key=service.key)
        assert (code, err) == (0, "")
        assert out.startswith("Approved: ")
        assert (await ferrule("deny", denied, "--reason", "not today", *place, key=service.key))[0] == 0
        assert (await client.get_call(yes, wait=50)).status == "succeeded"
        ended = await client.get_call(no, wait=50)
        assert "not today" in (ended.result.llm_content if ended.result else "")
        decided = await client.approval(allowed)
        assert (decided.decided_by, decided.decision_reason) == ("admin", "fine")
        code, _, err = await ferrule("approve", allowed, *place, key=service.key)
        assert (code, err) == (2, "Error: This was approved already, by admin.\n")
        code, _, err = await ferrule("list", *place, key=service.key)
        assert (code, err) == (0, "Tenant: default\nThere are no approvals with the status `pending`.\n")
    assert started == ["yes"]


async def test_the_database_does_not_widen_what_a_user_may_decide(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'a.db'}"
    async with running(store, tmp_path) as service:
        await service.user("ann")
        _, approval = await waiting(service, "x")
        code, _, err = await ferrule("approve", approval, "--as", "ann", "--database", store)
        assert (code, err) == (2, f"Error: There is no approval `{approval}`. `ferrule approvals list` lists them.\n")
        admin = await service.client()
        await admin.put_role("watcher", allow=["Admin(calls)"])
        await admin.change_user("ann", roles=["watcher"])
        code, _, err = await ferrule("approve", approval, "--as", "ann", "--database", store)
        said = "The roles of `ann` do not allow that decision. Name another user with --as."
        assert (code, err) == (2, f"Error: {said}\n")
        assert (await ferrule("approve", approval, "--as", "ghost", "--database", store))[2] == (
            "Error: There is no user `ghost`.\n"
        )


async def test_what_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    cases = [
        (
            ("list", "--url", "http://127.0.0.1:1"),
            "",
            "Error: --url needs an API key of the service in FERRULE_API_KEY.",
        ),
        (("list", "--url", "127.0.0.1"), "fk_x", "Error: `127.0.0.1` is not a URL of a service."),
        (("list", "--url", "http://127.0.0.1:1"), "fk_x", "Error: The service did not answer:"),
        (("show", "x", "--database", f"sqlite:///{tmp_path / 'no.db'}"), "", "Error: There is no current service"),
    ]
    for arguments, key, said in cases:
        code, _, err = await ferrule(*arguments, key=key)
        assert code == 2
        assert err.startswith(said), err
        assert err.count("\n") == 1
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path) as service:
        code, _, err = await ferrule("show", "x", "--url", service.url, key="fk_wrong")
        assert (code, err) == (2, "Error: This API key is unknown, expired or revoked.\n")
        code, _, err = await ferrule("show", "x", "--url", service.url, key=service.key)
        assert (code, err) == (2, "Error: There is no approval `x`.\n")
