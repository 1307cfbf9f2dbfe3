"""What becomes of calls when an instance is killed, restarted, or told to stop."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ferrule import Output, tool
from ferrule.client import Client, ServiceError, UnreachableError
from tests.service.instances import Instance, marks_of
from tests.service.postgres import Cluster
from tests.service.serving import running


def until(instance: Instance, *marks: str) -> None:
    deadline = time.monotonic() + 60
    while not set(marks) <= set(marks_of(instance.marks)):
        assert time.monotonic() < deadline, marks_of(instance.marks)
        time.sleep(0.05)


@pytest.mark.slow
def test_a_call_that_ran_when_its_instance_was_killed_is_lost_once_and_a_repeatable_one_runs_again(
    store: str, tmp_path: Path
) -> None:
    with Instance(tmp_path, store) as first:
        key = first.key
        with Client(first.url, key) as client:
            strike = client.call("strike", {"text": "a", "seconds": 300}, wait=0)
            look = client.call("look", {"text": "b", "seconds": 3}, wait=0)
            done = client.call("strike", {"text": "c"})
            asked = client.call("ask", {"text": "d"}, wait=0)
            until(first, "strike a", "look b")
        first.kill()
    with Instance(tmp_path, store) as second, Client(second.url, key) as client:
        ended = _ended(client, strike.id)
        assert ended.status == "lost"
        assert ended.result is not None
        assert ended.result.llm_content == (
            "Error (unknown_error): The service stopped while `strike` ran, so it is not known how far it came. "
            "It was not run again.\n\nSuggestion: Look at what it may have changed before you call it again."
        )
        again = _ended(client, look.id)
        assert (again.status, again.result and again.result.data) == ("succeeded", "saw b")
        assert client.get_call(done.id) == done
        (approval,) = client.approvals()
        assert approval.call == asked.id
        client.approve(approval)
        assert _ended(client, asked.id).status == "succeeded"
        counts = Counter(marks_of(second.marks))
        assert (counts["strike a"], counts["look b"], counts["ask d"]) == (1, 2, 1)
        rows = [row for row in client.audit().rows if row["call_id"] == strike.id]
        assert [row["outcome"] for row in rows] == ["unknown_error"]
        assert client.verify_audit().ok


def _ended(client: Client, call: str):
    deadline = time.monotonic() + 90
    while not (found := client.get_call(call, wait=20)).finished:
        assert time.monotonic() < deadline, found
    return found


@pytest.mark.slow
def test_sigterm_lets_running_calls_end_and_refuses_new_ones(tmp_path: Path) -> None:
    with Instance(tmp_path, f"sqlite:///{tmp_path / 's.db'}") as instance, ThreadPoolExecutor() as threads:
        with Client(instance.url, instance.key, tries=1) as client:
            waiting = threads.submit(client.call, "strike", {"text": "a", "seconds": 3})
            until(instance, "strike a")
            instance.process.terminate()
            deadline = time.monotonic() + 30
            refused = None
            while refused is None and time.monotonic() < deadline:
                try:
                    client.call("look", {"text": "late"})
                except (ServiceError, UnreachableError) as error:
                    refused = error
            assert isinstance(refused, ServiceError)
            assert (refused.status, refused.code) == (503, "draining")
            assert waiting.result(60).status == "succeeded"
        assert instance.process.wait(60) == 0
        assert instance.log.rstrip().endswith("Stopped.")


def test_one_sqlite_file_has_one_instance(tmp_path: Path) -> None:
    with Instance(tmp_path, f"sqlite:///{tmp_path / 's.db'}") as first:
        with pytest.raises(AssertionError, match="Another `ferrule serve` uses this database"):
            Instance(tmp_path, f"sqlite:///{tmp_path / 's.db'}", "two")
        assert first.process.poll() is None


def counts() -> tuple[int, int]:
    return (500, 200) if os.environ.get("CI") else (60, 20)


@pytest.mark.slow
def test_instances_killed_at_random_end_every_call_once(postgres_url: str, tmp_path: Path) -> None:
    """Three instances on one database, killed with -9 while calls and approvals are under way."""
    chance = random.Random(7)
    calls, approvals = counts()
    instances = [Instance(tmp_path, postgres_url, f"i{number}") for number in range(3)]
    try:
        key = next(found for one in instances if "shown this once" in one.log for found in [one.key])

        def client() -> Client:
            return Client(chance.choice(instances).url, key)

        made: dict[str, str] = {}

        def make(number: int) -> None:
            tool = "ask" if number < approvals else chance.choice(("strike", "look"))
            text = f"{tool}-{number}"
            for attempt in range(40):
                with client() as one:
                    try:
                        found = one.call(tool, {"text": text, "seconds": 0.05}, wait=0, key=text)
                    except (ServiceError, UnreachableError):
                        time.sleep(0.1 * min(attempt, 10))
                        continue
                    made[found.id] = text
                    return
            raise AssertionError(f"{text} could not be made")

        def decide() -> None:
            with client() as one:
                for approval in one.approvals():
                    with suppress(ServiceError):  # somebody decided it already
                        one.approve(approval)

        with ThreadPoolExecutor(8) as threads:
            making = [threads.submit(make, number) for number in range(calls)]
            deadline = time.monotonic() + 300
            killed = 0
            while not all(one.done() for one in making) or killed < 3:
                assert time.monotonic() < deadline
                at = chance.randrange(3)
                instances[at].kill()
                killed += 1
                instances[at] = Instance(tmp_path, postgres_url, f"i{at}")
                try:
                    decide()
                except (UnreachableError, ServiceError):
                    continue
            for one in making:
                one.result()
        statuses: Counter[str] = Counter()
        with Client(instances[0].url, key) as one:
            deadline = time.monotonic() + 120
            for call in made:
                while not (found := one.get_call(call, wait=5)).finished:
                    decide()
                    assert time.monotonic() < deadline, found
                statuses[f"{found.tool} {found.status}"] += 1
            assert len(made) == calls
            assert one.approvals() == []
            assert one.verify_audit().ok
            listed: list[str] = []
            after = 0
            while True:
                page = one.audit(after=after, limit=1000)
                listed += [row["call_id"] for row in page.rows]
                if page.next is None:
                    break
                after = page.next
            assert set(made) <= set(listed)
        starts = Counter(marks_of(instances[0].marks))
        assert [mark for mark, count in starts.items() if count > 1 and mark.startswith(("strike", "ask"))] == []
        assert statuses["look succeeded"] == sum(text.startswith("look") for text in made.values())
        assert set(statuses) <= {
            "look succeeded", "strike succeeded", "strike lost", "ask succeeded", "ask lost",
        }  # fmt: skip
        # What was approved was begun, once, or was under way when its instance was killed.
        assert statuses["ask succeeded"] + statuses["ask lost"] == approvals
    finally:
        for one in instances:
            if one.process.poll() is None:
                one.kill()


async def test_what_is_old_is_removed_and_the_audit_log_stays(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, keep_days=1e-6) as service:
        client = await service.client()
        call = await client.call("count", {"to": 1}, key="k")
        await asyncio.sleep(0.2)
        await service.service.upkeep.clean()
        with pytest.raises(ServiceError) as gone:
            await client.get_call(call.id)
        assert gone.value.status == 404
        assert (await client.audit()).rows[0]["call_id"] == call.id


async def test_a_call_that_cannot_be_taken_over_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule.service import upkeep

    monkeypatch.setattr(upkeep, "_AGAIN_SECONDS", 0.1)
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service:
        client = await service.client()
        resume, failures = service.service.calls.resume, [RuntimeError("not now"), RuntimeError("nor now")]

        async def flaky(*given: Any, **named: Any) -> None:
            if failures:
                raise failures.pop()
            await resume(*given, **named)

        monkeypatch.setattr(service.service.calls, "resume", flaky)
        call = await client.call("note", {"text": "x"}, wait=0)
        await client.approve((await client.approvals())[0])
        assert (await client.get_call(call.id, wait=30)).status == "succeeded"
        assert failures == []


async def test_a_result_that_cannot_be_stored_fails_its_call(tmp_path: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no words for it")

    @tool(kind="readonly")
    def odd() -> Output[Any]:
        """Give something that has no form."""
        return Output(data=Odd(), llm_content="said", display_content="said")

    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, tools=(odd,)) as service:
        client = await service.client()
        for call in (await client.call("odd"), (await client.batch([{"tool": "odd"}])).calls[0]):
            assert call.status == "failed"
            assert call.result is not None
            assert "no words for it" not in call.result.llm_content


async def test_calls_go_on_when_the_databases_connections_break(
    postgres_url: str, cluster: Cluster, tmp_path: Path
) -> None:
    """As when PostgreSQL is restarted, or a proxy in front of it hangs up."""
    name = postgres_url.split("?")[0].rpartition("/")[2]
    broken = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'"
    async with running(postgres_url, tmp_path) as service:
        client = await service.client()
        statuses: list[str] = []
        for number in range(40):
            if number % 10 == 5:
                assert int(await asyncio.to_thread(cluster.sql, broken)) > 0
            statuses.append((await client.call("add", {"a": number, "b": 0})).status)
        assert statuses == ["succeeded"] * 40
        assert (await client.verify_audit()).ok
        key = await client.create_key("admin")
        await asyncio.to_thread(cluster.sql, broken)
        await client.revoke_key(key.id)
        assert (await (await service.http(key.secret)).get("/v1/me")).status_code == 401


@pytest.mark.slow
def test_an_instance_that_was_away_for_too_long_does_not_overrule_the_others(postgres_url: str, tmp_path: Path) -> None:
    """One that stood still, as a machine does that was suspended: its call was judged meanwhile, and stays so."""
    with Instance(tmp_path, postgres_url, "one") as one, Instance(tmp_path, postgres_url, "two") as two:
        key = next(found.key for found in (one, two) if "shown this once" in found.log)
        with Client(one.url, key) as here, Client(two.url, key) as there:
            call = here.call("strike", {"text": "a", "seconds": 1}, wait=0)
            until(one, "strike a")
            one.process.send_signal(signal.SIGSTOP)
            try:
                assert _ended(there, call.id).status == "lost"
            finally:
                one.process.send_signal(signal.SIGCONT)
            until(one, "struck a")
            deadline = time.monotonic() + 60
            while "its result is dropped" not in one.log:
                assert time.monotonic() < deadline, one.log
                time.sleep(0.1)
            assert here.get_call(call.id).status == there.get_call(call.id).status == "lost"
            assert there.verify_audit().ok
