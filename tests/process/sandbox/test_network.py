"""The way out of a sandbox, from a command's side."""

from __future__ import annotations

import shutil
import tempfile
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.needs import needs
from tests.process.sandbox.box import Box, python_for_all
from tests.process.sandbox.test_proxy import Answer

from ferrule.process.sandbox import proxy as module
from ferrule.process.sandbox.denials import SandboxRefused
from ferrule.process.sandbox.proxy import network


@pytest.fixture
def server() -> object:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.server_port
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    needs(found := python_for_all(), "a Python that every user can run")
    monkeypatch.setattr(module.sys, "executable", found)


def test_an_allowed_host_can_be_reached_and_no_other(box: Box, server: int) -> None:
    needs(shutil.which("curl", path=box.path), "`curl` on PATH")
    url = f"http://127.0.0.1:{server}/"
    done = box.run(f"curl -sS {url}", hosts=("127.0.0.1",))  # programs go around the proxy for this machine
    assert done.out.startswith("/ 127.0.0.1")
    done = box.run(f"curl -sS --noproxy '' {url}; curl -sS https://example.org", hosts=("example.com",))
    assert "Ferrule does not let this command reach `127.0.0.1`" in done.out
    assert [(one.kind, one.subject) for one in done.denials] == [("network", "127.0.0.1"), ("network", "example.org")]
    assert done.explained is not None
    assert done.explained.kind == "network"


def test_past_the_proxy_there_is_still_nothing(box: Box, server: int) -> None:
    code = f"import socket; socket.create_connection(('127.0.0.1', {server}), 2)"
    done = box.run_program([str(python_for_all()), "-c", code], hosts=("*", "127.0.0.1"))
    assert "refused" in done.err


def test_the_command_is_started_as_it_is(box: Box) -> None:
    done = box.run('echo $0 "$HTTPS_PROXY"; ls /proc/self/fd | wc -l; exit 5', hosts=("example.org",))
    assert done.out.split() == ["bash", "http://127.0.0.1:41280", "4"]
    assert done.code == 5


def test_a_program_that_is_not_there_is_said_so(box: Box) -> None:
    done = box.run_program(["no-such-program"], hosts=("example.org",))
    assert done.code == 1
    assert done.err == "no-such-program: No such file or directory\n"


def test_the_socket_is_gone_afterwards() -> None:
    with network(["example.org"], ["true"]) as way:
        assert (Path(way.folder) / "proxy").exists()
        assert Path(way.folder).stat().st_mode & 0o777 == 0o700
    assert not Path(way.folder).exists()


def test_what_a_killed_process_left_goes_with_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # the path of a socket must be short
        monkeypatch.setattr("tempfile.tempdir", made)
        left = Path(made) / "ferrule-net-left"
        left.mkdir()
        (left / "proxy").touch()
        with network(["example.org"], ["true"]) as one, network(["example.org"], ["true"]) as other:
            assert {path.name for path in Path(made).iterdir()} == {Path(one.folder).name, Path(other.folder).name}


def test_a_socket_far_down_would_have_too_long_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with network(["example.org"], ["true"]) as way:
        assert way.folder.startswith("/tmp/")


def test_a_pattern_that_means_nothing_is_refused() -> None:
    with pytest.raises(SandboxRefused, match="cannot be used"), network(["http://x"], ["true"]):
        pass
