"""The keeper: everything below it ends with it, and it ends with whoever holds its socket."""

from __future__ import annotations

import io
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.process.shell.shell_room import alive, becomes, gone, new_mark

from ferrule.process.shell import keeper


class Kept:
    """A keeper of a plain shell script."""

    def __init__(self, script: str, **changes: object) -> None:
        self.port, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen([sys.executable, "-I", "-S", keeper.__file__], stdin=far.fileno(), env={})
        far.close()
        self.port.settimeout(20)
        order = {
            "arguments": ["/bin/sh", "-c", script],
            "environment": {"PATH": os.defpath, "ONLY": "this"},
            "folder": "/",
            "inherited": [],
            "given": [],
            "kept": [],
            "terminal": -1,
        }
        self.port.send(marshal.dumps(order | changes))
        self.news = marshal.loads(self.port.recv(1 << 16))

    def close(self) -> None:
        self.port.close()
        self.process.wait(20)


@pytest.fixture
def mark() -> Iterator[str]:
    mark = new_mark()
    yield mark
    assert gone(mark)


def test_a_number_given_to_another_while_the_list_is_read_makes_nobody_a_descendant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P6: 30 was read as a child of 20; then 20 ended, and a child of 10 got its number. 30 is a stranger's."""
    read = {10: (1, 500), 30: (20, 600), 20: (10, 700), 40: (20, 700)}

    def of(path: str, mode: str) -> io.BytesIO:
        parent, started = read[int(path.split("/")[2])]
        return io.BytesIO(f"0 (a b) S {parent} {'0 ' * 17}{started} 0".encode())

    monkeypatch.setattr(keeper.os, "listdir", lambda folder: [*map(str, read), "self"])
    monkeypatch.setattr(keeper, "open", of, raising=False)
    assert keeper.descendants(10) == [20, 40]


def test_its_socket_closed_everything_ends(mark: str) -> None:
    kept = Kept(
        f"trap '' TERM HUP; setsid sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &) ; sleep {mark}"
    )
    assert kept.news[0] == "started"
    assert becomes(lambda: len(alive(f"sleep {mark}")) >= 4)
    kept.close()
    assert alive(mark) == []


def test_it_tells_how_its_program_ended(mark: str) -> None:
    kept = Kept(f"setsid sleep {mark} & exit 7")
    assert marshal.loads(kept.port.recv(100)) == ("ended", 7)
    assert alive(mark), "what the program left still lives until the socket is closed"
    kept.close()
    assert alive(mark) == []


def test_a_program_that_cannot_be_started_is_told() -> None:
    kept = Kept("", arguments=["/no/such/program"])
    assert kept.news == ("failed", "/no/such/program: No such file or directory")
    kept.close()


def test_signals_do_not_end_it(mark: str) -> None:
    kept = Kept(f"sleep {mark}")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        kept.process.send_signal(number)
    kept.port.send(marshal.dumps([]))
    assert marshal.loads(kept.port.recv(100)) == ("taken",)
    kept.close()


def test_killed_itself_its_program_goes_too(mark: str) -> None:
    kept = Kept(f"exec sleep {mark}")
    assert becomes(lambda: alive(mark))
    kept.process.kill()
    kept.process.wait()
    assert gone(mark)
    kept.port.close()


def test_it_hands_over_descriptors() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    ours, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", keeper.__file__], stdin=far.fileno(), env={}, pass_fds=[reading]
    )
    far.close()
    order = {
        "arguments": ["/bin/sleep", "60"],
        "environment": {},
        "folder": "/",
        "inherited": [],
        "given": [reading],
        "kept": [reading],
        "terminal": -1,
    }
    ours.send(marshal.dumps(order))
    ours.recv(1 << 16)
    ours.send(marshal.dumps([reading]))
    _, given, _, _ = socket.recv_fds(ours, 100, 4)
    os.close(reading)
    os.write(writing, b"through")
    os.close(writing)
    assert os.read(given[0], 100) == b"through"
    os.close(given[0])
    ours.close()
    process.wait(20)


def test_descendants_past_some_and_without_others(mark: str) -> None:
    script = f"sh -c 'sleep {mark}; :' & sh -c 'sleep {mark}; :' & wait"
    process = subprocess.Popen(["/bin/sh", "-c", script])
    try:
        assert becomes(lambda: len(keeper.descendants(process.pid)) == 4)
        first, second, *_ = keeper.descendants(process.pid)
        assert len(keeper.descendants(process.pid, past=frozenset({first}))) == 3
        left = keeper.descendants(process.pid, without=frozenset({first}))
        assert len(left) == 2
        assert second in left
        assert len(keeper.stop_and_kill(process.pid, without=frozenset({first}))) == 2
        assert becomes(lambda: len(keeper.descendants(process.pid)) == 2)
    finally:
        keeper.stop_and_kill(process.pid)
        process.kill()
        process.wait()


def test_it_needs_only_the_standard_library() -> None:
    assert "ferrule." not in Path(keeper.__file__).read_text()
