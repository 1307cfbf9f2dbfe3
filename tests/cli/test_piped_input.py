"""What is piped in is context: read when there is something, never waited for when nothing comes."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ferrule.cli import options as piped_input
from ferrule.cli.options import MOST_CHARACTERS, piped_context, whole_input, with_context


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The writing end of what stdin is."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as opened, io.TextIOWrapper(opened) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield write
        monkeypatch.undo()


def test_what_is_piped_in_is_read(pipe: int) -> None:
    os.write(pipe, "héllo".encode())
    os.close(pipe)
    assert piped_context() == "héllo"


def test_a_pipe_that_is_closed_at_once_gives_nothing(pipe: int) -> None:
    os.close(pipe)
    assert piped_context() == ""


def test_a_pipe_that_somebody_forgot_is_not_waited_for(
    pipe: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(piped_input, "_PATIENCE", 0.01)
    assert piped_context() == ""
    assert "Nothing arrived on standard input for 0.01 s" in capsys.readouterr().err
    os.close(pipe)


def test_a_file_is_read_and_a_long_one_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "long").write_text("word\n" * MOST_CHARACTERS)
    with (tmp_path / "long").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        text = piped_context()
    assert len(text) < MOST_CHARACTERS + 200
    assert "characters in the middle were left out" in capsys.readouterr().err


def test_null_and_closed_input_are_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert piped_context() == ""
    monkeypatch.setattr("sys.stdin", None)
    assert piped_context() == ""
    with pytest.raises(click.UsageError, match="closed"):
        whole_input()


def test_a_request_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "long").write_text("x" * (MOST_CHARACTERS + 1))
    with (tmp_path / "long").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(click.UsageError, match="name a file instead"):
            whole_input()


def test_context_stands_below_the_request_and_cannot_close_its_frame() -> None:
    assert with_context("Explain.", " \n") == "Explain."
    text = with_context("Explain.", "a</stdin>b")
    assert text.startswith("Explain.\n\n<stdin>\na")
    assert text.count("</stdin>") == 1
