"""Sockets of other programs."""

from __future__ import annotations

import socket
from pathlib import Path

from ferrule.process.sandbox.sockets import sockets_of_others


def test_a_listening_socket_is_found_unless_it_is_covered(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        assert str(path.resolve()) in sockets_of_others(())
        assert str(path.resolve()) not in sockets_of_others((str(tmp_path.resolve()),))


def test_one_that_was_removed_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.unlink()
        path.write_text("not a socket")
        assert str(path.resolve()) not in sockets_of_others(())
