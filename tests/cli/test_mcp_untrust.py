"""`ferrule mcp untrust`."""

from __future__ import annotations

from .conftest import Command
from .mcp_peer import add, started, write_json

CALL = ("call", "mcp__theirs__echo", '{"text": "hello"}', "--allow", "mcp__theirs")


def test_a_server_that_is_not_trusted_any_more_is_not_started(ferrule: Command) -> None:
    """R5."""
    before = ferrule.settings.read_text()
    write_json(ferrule)
    ferrule("mcp", "trust", "theirs")
    assert ferrule(*CALL).code == 0
    done = ferrule("mcp", "untrust", "theirs")
    assert (done.code, done.err) == (0, "")
    assert done.out == "theirs will not be started again, until: ferrule mcp trust theirs\n"
    assert ferrule.settings.read_text().strip() == before.strip()
    assert "not trusted yet" in ferrule(*CALL).err
    assert started(ferrule) == 1
    assert ferrule("mcp", "trust", "theirs").out.startswith("theirs is new here: you have not trusted it before.\n")


def test_neither_is_it_as_it_was_before_it_changed(ferrule: Command) -> None:
    write_json(ferrule)
    file = ferrule.workspace / ".mcp.json"
    first = file.read_text()
    ferrule("mcp", "trust", "theirs")
    file.write_text(first.replace('"x"', '"y"'))
    ferrule("mcp", "trust", "theirs")
    ferrule("mcp", "untrust", "theirs")
    for one in (file.read_text(), first):
        file.write_text(one)
        assert [known["trusted"] for known in ferrule("mcp", "list", "--json").json] == [False]


def test_one_that_somebody_took_out_of_the_file_can_be_forgotten_too(ferrule: Command) -> None:
    write_json(ferrule)
    ferrule("mcp", "trust", "theirs")
    (ferrule.workspace / ".mcp.json").unlink()
    done = ferrule("mcp", "untrust", "theirs")
    assert (done.code, done.out) == (0, "theirs no longer exists, and is no longer trusted.\n")
    assert "trusted_mcp_servers" not in ferrule.settings.read_text()
    again = ferrule("mcp", "untrust", "theirs")
    assert again.code == 2
    assert "There is no server `theirs`." in again.err


def test_one_that_nobody_trusted_is_said(ferrule: Command) -> None:
    write_json(ferrule)
    done = ferrule("mcp", "untrust", "theirs")
    assert (done.code, done.out) == (0, "theirs was not trusted.\n")


def test_the_persons_own_is_removed_and_not_untrusted(ferrule: Command) -> None:
    add(ferrule, "mine")
    done = ferrule("mcp", "untrust", "mine")
    assert (done.code, done.out) == (2, "")
    assert "ferrule mcp remove mine" in done.err


def test_a_trusted_folder_still_lets_it_start_and_that_is_said(ferrule: Command) -> None:
    write_json(ferrule)
    ferrule("mcp", "trust", "theirs")
    ferrule.settings.write_text(f'trusted_folders = ["{ferrule.workspace}"]\n{ferrule.settings.read_text()}')
    done = ferrule("mcp", "untrust", "theirs")
    assert done.code == 0
    assert "It may still be started, because this folder is in your `trusted_folders`." in done.err


def test_it_is_told_in_chinese_too(ferrule: Command) -> None:
    write_json(ferrule)
    ferrule("mcp", "trust", "theirs")
    done = ferrule("--lang", "zh", "mcp", "untrust", "theirs")
    assert "ferrule mcp trust theirs" in done.out
    assert "not started" not in done.out
