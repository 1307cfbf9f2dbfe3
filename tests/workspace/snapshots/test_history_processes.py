"""Killed at any moment, and several at once: no file is torn, no change is lost, the store stays usable."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.workspace.history_room import Room

ROOT = Path(__file__).parents[3]
PREAMBLE = """
import sys
from pathlib import Path
from tests.workspace.history_room import Room
from ferrule.workspace.snapshots.changes import Origin, Write
room = Room(Path(sys.argv[1]))
"""
BATCHES = """
n = 0
while True:
    n += 1
    room.batch(a=b"%d " % n * 3000, b=b"%d " % n * 3000, **{"new/c": b"%d " % n * 3000})
    print(n, flush=True)
"""
UNDOS = """
while True:
    room.history.undo(to=2)
    room.history.redo(to=1000)
    print("round", flush=True)
"""
APPENDS = """
name = sys.argv[2]
for n in range(20):
    room.edit("shared", lambda now: now + f"{name}{n}\\n".encode())
    room.write(f"own-{name}", b"%d" % n)
"""


def start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-c", PREAMBLE + script, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


def kill_in_the_middle(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(random.uniform(0, 0.03))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_a_batch_that_is_killed_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    for _ in range(4):
        kill_in_the_middle(start(BATCHES, str(tmp_path)))
        for name in ("a", "b", "new/c"):
            data = (tmp_path / "tree" / name).read_bytes()
            assert len(data) % 3000 == 0, "torn"
            assert len(set(data.split())) == 1, "torn"
        room = Room(tmp_path)
        newest = room.history.recent(1)[0]
        assert room.history.notes == ()
        contents = {room.read(name) for name in ("a", "b", "new/c")}
        assert len(contents) == 1
        assert newest.phase == "done"
        assert set(room.look()) == {"a", "b", "new", "new/c"}
        room.history.close()
    room = Room(tmp_path)
    assert room.history.undo(to=0).refused is None
    assert room.look() == {}


def test_an_undo_that_is_killed_is_finished_at_the_next_start(tmp_path: Path) -> None:
    room = Room(tmp_path)
    for n in range(8):
        room.batch(a=b"%d " % n * 3000, b=b"%d " % n * 3000)
    room.history.close()
    for _ in range(3):
        kill_in_the_middle(start(UNDOS, str(tmp_path)))
        room = Room(tmp_path)
        room.history.recent(1)
        assert room.read("a") == room.read("b")
        assert set(room.look()) == {"a", "b"}
        assert {group.phase for group in room.history.recent(100)} <= {"done", "undone"}
        room.history.close()
    room = Room(tmp_path)
    assert room.history.redo(to=1000).refused is None
    assert room.read("a") == b"7 " * 3000
    assert room.history.undo(to=0).refused is None
    assert room.look() == {}
    assert room.history.notes == ()


def test_processes_share_a_store(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.write("shared", b"")
    workers = [start(APPENDS, str(tmp_path), name) for name in "xy"]
    for worker in workers:
        assert worker.wait() == 0
        assert worker.stdout is not None
        worker.stdout.close()
    assert sorted(room.read("shared").decode().split()) == sorted(f"{name}{n}" for name in "xy" for n in range(20))
    assert len(room.history.recent(1000)) == 81
    assert room.history.undo(to=1).refused is None
    assert {name: room.read(name) for name in room.look()} == {"shared": b""}
