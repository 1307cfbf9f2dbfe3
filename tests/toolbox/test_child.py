"""Foreign data is read in a process that the kernel keeps small."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import Cancellation
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.process.landlock import kernel_version
from ferrule.toolbox.child import ChildBounds, in_child


def work(function: str, order: dict[str, Any], **more: Any) -> Any:
    bounds = ChildBounds(**more.pop("bounds", {}))
    return in_child(f"child_work:{function}", order, what="`a.pdf`", bounds=bounds, **more)


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.syspath_prepend(Path(__file__).parent)


def test_an_order_and_files_go_in_and_json_and_bytes_come_out(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("held")
    with file.open("rb") as opened:
        answer = work("echo", {"page": 3}, files={"file": opened.fileno()}, data=b"given")
    assert answer.value == {"order": {"page": 3}, "files": {"file": "held", "data": "given"}}
    assert answer.data == b"made\nof bytes"


def test_an_error_of_the_work_arrives_as_it_is() -> None:
    with pytest.raises(ToolError) as caught:
        work("refuse", {})
    error = caught.value
    assert (error.message, error.kind, error.suggestion, error.details) == (
        "No such page.", ErrorKind.NOT_FOUND, "Ask for page 1.", {"pages": 1},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("abort", "`a.pdf` cannot be read: it is damaged"),
        ("flood", "`a.pdf` cannot be read: it is damaged"),
        ("fail", "`a.pdf` cannot be read: it is damaged"),
        ("fill", "`a.pdf` needs more than 1,024 MB of memory"),
    ],
)
def test_a_child_that_breaks_is_an_error_and_harms_nobody(how: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        work("misbehave", {"how": how})


@pytest.mark.parametrize("how", ["hang", "spin"])
def test_a_child_that_never_ends_is_given_up(how: str) -> None:
    with pytest.raises(ToolError, match=r"took longer than 0\.5 s") as caught:
        work("misbehave", {"how": how}, bounds={"seconds": 0.5})
    assert caught.value.kind == ErrorKind.TIMEOUT


def test_a_cancelled_call_ends_its_child_at_once() -> None:
    cancellation = Cancellation()
    timer = threading.Timer(0.3, cancellation.request)
    timer.start()
    began = time.monotonic()
    with pytest.raises(ToolError) as caught:
        work("misbehave", {"how": "hang"}, cancellation=cancellation)
    assert caught.value.kind == ErrorKind.CANCELLED
    assert time.monotonic() - began < 30


@pytest.mark.slow
def test_a_child_may_have_time_to_stop_by_itself_and_no_more(tmp_path: Path) -> None:
    note = tmp_path / "note"
    order, bounds = {"how": "stop", "path": str(note)}, {"writable": (tmp_path,), "stop_seconds": 20}
    with pytest.raises(ToolError, match="took longer"):
        work("misbehave", order, bounds={**bounds, "seconds": 3})
    assert note.read_text() == "stopped"
    note.unlink()
    cancellation = Cancellation()

    def cancel() -> None:
        while not note.exists():
            time.sleep(0.05)
        cancellation.request()

    threading.Thread(target=cancel).start()
    with pytest.raises(ToolError) as caught:
        work("misbehave", order, bounds=bounds, cancellation=cancellation)
    assert caught.value.kind == ErrorKind.CANCELLED
    assert note.read_text() == "stopped"
    began = time.monotonic()
    with pytest.raises(ToolError, match="took longer"):
        work("misbehave", {"how": "ignore"}, bounds={"seconds": 2, "stop_seconds": 0.5})
    assert time.monotonic() - began < 30


def test_nothing_that_a_child_started_goes_on() -> None:
    pid = work("misbehave", {"how": "leave"}).value
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process of the child still runs")


@pytest.mark.skipif(kernel_version() < 1, reason="needs a kernel with Landlock")
def test_it_may_neither_read_nor_write_what_it_was_not_given(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    with pytest.raises(ToolError, match="cannot be read"):
        work("misbehave", {"how": "read", "path": str(secret)})
    with pytest.raises(ToolError, match="cannot be read"):
        work("misbehave", {"how": "write", "path": str(secret)})
    assert secret.read_text() == "hunter2"
    assert work("misbehave", {"how": "read", "path": str(secret)}, bounds={"folders": (tmp_path,)}).value == "hunter2"


@pytest.mark.skipif(kernel_version() < 4, reason="needs a kernel with Landlock's rules for the network")
def test_it_reaches_the_network_only_where_it_may() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        order = {"how": "connect", "port": server.getsockname()[1]}
        with pytest.raises(ToolError, match="cannot be read"):
            work("misbehave", order)
        assert work("misbehave", order, bounds={"network": True}).value == "connected"
