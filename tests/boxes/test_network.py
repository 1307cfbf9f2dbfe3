"""What a command may reach once the user has approved that it needs the network, and what it reaches before that."""

from __future__ import annotations

import http.server
import shutil
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.boxes.test_trial import desk
from tests.needs import needs

_SERVER = (
    "import http.server, os\n"
    "made = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
    "open('.port.new', 'w').write(str(made.server_port)); os.rename('.port.new', '.port')\n"
    "made.serve_forever()\n"
)


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"here")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def port() -> Generator[int]:
    """A server of this machine, outside of every box, that answers `here`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def curl() -> None:
    needs(shutil.which("curl"), "`curl` on PATH")


async def test_p4_the_host_of_an_approved_question_is_reached(tmp_path: Path, port: int) -> None:
    """Approval opens what the question names, for that command alone."""
    async with desk(tmp_path, "yn") as at:
        reached = await at.bash(f"curl -sS http://127.0.0.1:{port}/")
        denied = await at.bash(f"curl -sS http://127.0.0.1:{port}/")
    assert [one.reason for one in at.asked] == [
        f"`curl -sS http://127.0.0.1:{port}/` needs the network (127.0.0.1)"
    ] * 2
    assert reached.data["stdout"] == "here"
    assert denied.error is not None


async def test_an_allow_rule_opens_no_host(tmp_path: Path, port: int) -> None:
    async with desk(tmp_path, allow=["Bash(curl *)"]) as at:
        result = await at.bash(f"curl -sS http://127.0.0.1:{port}/")
    assert result.data["exit_code"] == 7


async def test_a_server_that_a_command_starts_itself_is_talked_to_without_a_question(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(_SERVER)
    wait = "until [ -e .port ]; do sleep 0.05; done"
    async with desk(tmp_path) as at:
        result = await at.bash(
            f"cd /tmp; python3 {tmp_path}/serve.py 2>/dev/null & cd /tmp; {wait}; curl -sS localhost:$(<.port)"
        )
    assert "Directory listing" in result.data["stdout"]


@pytest.mark.parametrize("command", ["curl -sS file:///etc/passwd", "curl -sS file:///etc/passwd | head -n 1"])
async def test_a_file_that_is_named_as_a_url_needs_no_network(tmp_path: Path, command: str) -> None:
    async with desk(tmp_path) as at:
        assert (await at.bash(command)).data["stdout"].startswith("root:")


async def test_package_managers_give_up_soon_where_no_network_is_and_only_there(tmp_path: Path) -> None:
    """npm waits a minute otherwise before a command says that it needs the network."""
    names = "npm_config_fetch_retries PIP_RETRIES UV_HTTP_RETRIES"
    async with desk(tmp_path, allow=["Bash(printenv *)"]) as at:
        tried, allowed = await at.bash(f"env printenv {names}"), await at.bash(f"printenv {names}")
    assert (tried.metadata["box"], tried.data["stdout"]) == ("look", "0\n0\n0\n")
    assert (allowed.metadata["box"], allowed.data["stdout"]) == ("work", "")
