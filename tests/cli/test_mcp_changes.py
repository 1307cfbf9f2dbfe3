"""What changed of a workspace's server since it was trusted is shown, as it was and as it is, with no secret."""

from __future__ import annotations

import json

from .conftest import Command
from .mcp_peer import started, write_json


def bring(ferrule: Command, **table: object) -> None:
    """A workspace's server, described anew."""
    (ferrule.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": table}}))


def test_one_that_is_new_and_one_that_is_as_it_was_are_told_apart(ferrule: Command) -> None:
    write_json(ferrule)
    first, second = ferrule("mcp", "trust", "theirs").out.splitlines()[0], ferrule("mcp", "trust", "theirs").out
    assert first == "theirs is new here: you have not trusted it before."
    assert second.splitlines()[0].startswith("theirs is as it was when you trusted it on 20")


def test_what_changed_is_shown_before_it_is_trusted_and_when_it_is(ferrule: Command) -> None:
    bring(
        ferrule, command="./serve", args=["--verbose"], cwd="a", env={"LEVEL": "1", "TOKEN": "${MY_TOKEN}", "OLD": "x"}
    )
    ferrule("mcp", "trust", "theirs")
    bring(
        ferrule,
        command="./serve",
        args=["--verbose", "--upload"],
        cwd="b",
        env={"LEVEL": "2", "TOKEN": "${AWS_SECRET}", "LD_PRELOAD": "./x.so"},
    )
    listed, tested, trusted = (ferrule("mcp", *words) for words in (["list"], ["test", "theirs"], ["trust", "theirs"]))
    assert "changed, not trusted yet" in listed.out
    assert tested.code == 2
    wanted = [
        "  - command: ./serve --verbose",
        "  + command: ./serve --verbose --upload",
        "  - folder: a",
        "  + folder: b",
        "  + variable: LD_PRELOAD",
        "  ~ variable: LEVEL (a part that is not shown changed)",
        "  - variable: OLD",
        "  ~ variable: TOKEN (a part that is not shown changed)",
        "  + your values: ${AWS_SECRET}",
        "  - your values: ${MY_TOKEN}",
    ]
    lines = trusted.out.splitlines()
    assert lines[0].startswith("theirs has changed since you trusted it on 20")
    assert lines[1:11] == wanted
    assert lines[11] == "theirs may be started: ./serve --verbose --upload"
    assert "\n".join(wanted) in listed.out
    assert "\n".join(wanted) in tested.err
    assert ferrule("mcp", "trust", "theirs").out.startswith("theirs is as it was")


def test_from_a_program_to_an_address(ferrule: Command) -> None:
    bring(ferrule, command="serve")
    ferrule("mcp", "trust", "theirs")
    bring(ferrule, url="https://example.org/mcp", headers={"X-Key": "${KEY}"})
    assert ferrule("mcp", "trust", "theirs").out.splitlines()[1:5] == [
        "  - command: serve",
        "  + address: https://example.org/mcp",
        "  + header: X-Key",
        "  + your values: ${KEY}",
    ]


def test_no_secret_is_kept_or_shown_of_what_was_before(ferrule: Command) -> None:
    secret = "sk-ant-api03-hunter2hunter2hunter2"
    table = {"args": ["--token", secret], "env": {"KEY": secret, "NAME": f"${{NAME:-{secret}}}"}}
    bring(ferrule, command="serve", **table)
    ferrule("mcp", "trust", "theirs")
    kept = ferrule.folder / "data" / "mcp" / "trusted.json"
    assert "hunter2" not in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    bring(ferrule, command="serve", args=["--token", "sk-ant-api03-another2another2another2"])
    head, *changes = ferrule("mcp", "trust", "theirs").out.splitlines()
    assert "has changed" in head
    assert changes[0] == "  ~ command: serve --token [redacted] (a part that is not shown changed)"
    assert "hunter2" not in "".join(changes)


def test_what_would_steer_the_terminal_or_pass_for_a_line_of_ours_is_spelled_out(ferrule: Command) -> None:
    bring(ferrule, command="serve")
    ferrule("mcp", "trust", "theirs")
    name = "X\ntheirs is as it was when you trusted it."
    bring(ferrule, command="serve", args=["\x1b[2J\u202eb", "a\n+ command: harmless"], env={name: "1"})
    said = ferrule("mcp", "trust", "theirs").out
    assert said.splitlines()[1:4] == [
        "  - command: serve",
        "  + command: serve '\\x1b[2J\\u{202e}b' 'a⏎+ command: harmless'",
        "  + variable: X⏎theirs is as it was when you trusted it.",
    ]
    assert said.splitlines()[4] == "theirs may be started: serve '\\x1b[2J\\u{202e}b' 'a⏎+ command: harmless'"
    assert said.splitlines()[5] == "It receives: X⏎theirs is as it was when you trusted it."


def test_one_that_was_trusted_before_there_were_records_is_not_called_new(ferrule: Command) -> None:
    write_json(ferrule)
    ferrule("mcp", "trust", "theirs")
    kept = ferrule.folder / "data" / "mcp" / "trusted.json"
    kept.unlink()
    assert ferrule("mcp", "trust", "theirs").out.splitlines()[0] == "theirs is as it was when you trusted it."
    assert kept.exists(), "from now on there is something to compare it with"
    kept.write_text('{"odd": 3}')
    bring(ferrule, command="serve")
    first = ferrule("mcp", "trust", "theirs").out.splitlines()[0]
    assert first == "theirs is new here, or was trusted before there was a record to compare it with."


def test_one_that_the_person_added_to_the_project_is_compared_with_what_they_added(ferrule: Command) -> None:
    ferrule("mcp", "add", "--project", "theirs", "serve", "--once")
    bring(ferrule, command="serve", args=["--always"])
    assert ferrule("mcp", "trust", "theirs").out.splitlines()[1:3] == [
        "  - command: serve --once",
        "  + command: serve --always",
    ]


def test_a_record_gives_no_leave(ferrule: Command) -> None:
    write_json(ferrule)
    ferrule("mcp", "trust", "theirs")
    settings = ferrule.settings.read_text()
    ferrule.settings.write_text("\n".join(line for line in settings.splitlines() if "trusted_mcp" not in line))
    assert ferrule("mcp", "test", "theirs").code == 2
    assert started(ferrule) == 0


def test_the_changes_are_told_in_chinese_too(ferrule: Command) -> None:
    bring(ferrule, command="serve")
    ferrule("mcp", "trust", "theirs")
    bring(ferrule, command="other")
    assert ferrule("--lang", "zh", "mcp", "trust", "theirs").out.splitlines()[1:3] == [
        "  - 命令: serve",
        "  + 命令: other",
    ]
