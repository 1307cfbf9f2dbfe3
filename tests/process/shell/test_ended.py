"""The result of a command has all that a tool needs to tell."""

from __future__ import annotations

from inline_snapshot import snapshot
from tests.process.shell.shell_room import Room

from ferrule.process.output import LeftOut, Piece


def test_what_a_plain_command_gives(room: Room) -> None:
    ended = room.run("echo out; echo err >&2; cd /; exit 2")[0]
    assert (ended.exit_code, ended.stdout, ended.stderr, ended.cwd) == (2, "out\n", "err\n", "/")
    assert sorted(ended.pieces, key=lambda piece: piece.text) == snapshot(
        [Piece(stream="stderr", text="err\n"), Piece(stream="stdout", text="out\n")]
    )
    assert (ended.left_out, ended.spill, ended.timed_out) == (LeftOut(), None, False)
    assert (ended.moved_to_background, ended.waiting_for_input, ended.still_running) == (None, None, ())
    assert (ended.denials, ended.notes) == ((), ())
    assert ended.duration > 0


def test_much_output_of_a_failed_command_is_in_a_file(room: Room) -> None:
    ended = room.run("seq 200000; exit 9")[0]
    assert ended.exit_code == 9
    assert ended.spill is not None
    assert ended.spill.read_text() == "".join(f"{number}\n" for number in range(1, 200001))
    assert ended.stdout.startswith("1\n2\n3\n")
    assert ended.stdout.endswith("\n199999\n200000\n")
    assert f"left out; the whole output is in `{ended.spill}` …]" in ended.stdout
    assert ended.left_out.lines + sum(piece.text.count("\n") for piece in ended.pieces if piece.stream) == 200_000


def test_bytes_that_are_no_text(room: Room) -> None:
    ended = room.run("head -c 300000 /dev/urandom; printf '\\377\\n'")[0]
    assert ended.exit_code == 0
    assert ended.spill is not None
    assert ended.spill.stat().st_size == 300_002


def test_a_hundred_megabytes_are_counted_to_the_byte(plain: Room) -> None:
    ended = plain.run("yes 0123456789 | head -c 110000000")[0]
    assert ended.left_out.bytes + sum(len(piece.text) for piece in ended.pieces if piece.stream) == 110_000_000
    assert ended.left_out.lines + sum(piece.text.count("\n") for piece in ended.pieces if piece.stream) == 10_000_000
    assert ended.spill is not None
    assert ended.spill.stat().st_size == 110_000_000
