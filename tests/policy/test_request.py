"""What a call asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.stand_in import bash, invoke

from ferrule import Environment, Session, Touch, tool
from ferrule.core.errors import ErrorKind, StoppedError
from ferrule.policy.commands.analyse import analyse
from ferrule.policy.commands.parts import Analysis
from ferrule.policy.findings import Requests, roots_of


def test_touches_are_sorted_and_paths_are_real(session: Session):
    (session.workspace / "link").symlink_to("real.txt")

    @tool(
        kind="write",
        touches=lambda params: [
            Touch(f"path:{session.workspace}/link"),
            Touch("path:out.txt", write=True),
            Touch("host:example.org"),
            Touch("store:notes", write=True),
        ],
    )
    def act() -> None: ...

    request = Requests().of(invoke(act, session), session)
    root = str(session.workspace.resolve())
    assert request.reads == (f"{root}/real.txt",)
    assert request.writes == (f"{root}/out.txt",)
    assert (request.hosts, request.writes_else) == (("example.org",), True)


def test_a_path_with_a_nul_byte_is_said_to_be_none(session: Session):
    @tool(kind="readonly", touches=lambda params: [Touch("path:a\0b")])
    def act() -> None: ...

    with pytest.raises(StoppedError) as stopped:
        Requests().of(invoke(act, session), session)
    assert (stopped.value.kind, stopped.value.message) == (ErrorKind.VALIDATION, "The path contains a NUL byte.")


def test_a_tool_that_says_nothing_may_write_anything(session: Session):
    @tool(kind="write")
    def act() -> None: ...

    @tool(kind="readonly")
    def look() -> None: ...

    assert Requests().of(invoke(act, session), session).writes_else
    assert not Requests().of(invoke(look, session), session).writes_else


def test_a_command_is_read_once(session: Session):
    asked: list[str] = []

    def counting(command: str) -> Analysis:
        asked.append(command)
        return analyse(command)

    requests = Requests(counting)
    found = [requests.of(invoke(bash, session, command="ls"), session) for _ in range(3)]
    assert [part.program for part in found[0].commands[0].parts] == ["ls"]
    assert asked == ["ls"]


def test_commands_that_were_read_are_not_kept_for_ever():
    requests = Requests(analyse)
    for number in range(600):
        requests.understood(f"ls {number}")
    assert len(requests._understood) < 300


def test_the_roots_are_the_workspace_first(tmp_path: Path):
    session = Session(workspace=tmp_path, environment=Environment(roots=(tmp_path / "x",)))
    assert roots_of(session) == (str(tmp_path.resolve()), f"{tmp_path.resolve()}/x")
