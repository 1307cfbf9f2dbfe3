"""Each mechanism has one home. A second copy fails here: use the first, or move what it lacks there."""

from __future__ import annotations

import re

from tests.structure.test_structure import MODULES, calls, name


def calling(pattern: str, *, with_one: bool = False) -> set[str]:
    """The modules in which something is called that matches; `with_one` argument alone."""
    called = re.compile(pattern, re.DOTALL)
    return {module for module, what, one in calls() if called.fullmatch(what) and (one or not with_one)}


MOVES = {
    "plugins/install.py": "folders of programs",
    "plugins/market.py": "folders of markets",
    "process/owned_folders.py": "folders that are removed",
    "process/sandbox/guarded.py": "what a command put where it may not",
    "process/sandbox/hiding.py": "a layer that is whole",
    "workspace/layers/session_layer.py": "a layer's files",
    "workspace/snapshots/file_states.py": "a file that a command moved",
    "workspace/snapshots/snapshot_store.py": "a history that cannot be read",
}
"""What is moved from one place to another, and not a new version of a file that takes the old one's place."""
NAMED_REPLACE = {"agent/compaction.py", "cli/chatting/chat_session.py"} | {
    f"models/{one}.py" for one in ("anthropic", "gemini", "openai")
}
"""Objects of ours with a method of that name."""


def test_a_file_is_replaced_whole_in_one_place() -> None:
    assert calling(r"os\.(replace|rename|renames)|shutil\.move") == {
        "core/files.py", "process/owned_folders.py", "process/sandbox/guarded.py",
        "workspace/snapshots/file_states.py",
    }  # fmt: skip
    moved = calling(r".*\.(replace|rename)", with_one=True) - NAMED_REPLACE
    assert moved <= MOVES.keys(), "use `write_atomically` or `take_place` of core/files.py"
    assert calling(r"(tempfile\.)?NamedTemporaryFile") == {"cli/chatting/prompt_input.py"}, "use core/files.py"
    assert calling(r"(tempfile\.)?mkstemp") == {"core/files.py", "plugins/install.py"}, "use core/files.py"


def test_a_file_is_locked_in_one_place() -> None:
    assert calling(r"fcntl\.(flock|lockf)|msvcrt\.locking") == {"core/files.py"}, "use `lock` or `locked` there"


def test_uvicorn_is_started_in_one_place() -> None:
    """With the same signals, limits and silence for every server."""
    assert calling(r"uvicorn\..*") == {"app/listening.py"}
    texts = {name(path): path.read_text(encoding="utf-8") for path in MODULES}
    importing = {one for one, text in texts.items() if re.search(r"^\s*(import|from) uvicorn\b", text, re.MULTILINE)}
    assert importing == {"app/listening.py", "service/serving.py"}, "use `serve_app` of app/listening.py"


SPLITS = {
    "agent/saved_sessions.py": "a file of ours, whose last line may be torn",
    "process/shell/background.py": "a line of a command's output that holds a text",
    "process/shell/state.py": "what the shell says of itself, all of which is there",
    "workspace/ignore_files.py": "patterns in a small file",
    "workspace/searching/search.py": "a hit of a search",
}
READS_A_LINE = {
    "agent/saved_sessions.py": "the head of a file",
    "mcp_client/http_transport.py": "the head of a request",
    "models/local/worker.py": "imports nothing of Ferrule",
    "plugins/plugin_documents.py": "the one order of our own parent",
    "process/sandbox/proxy.py": "the head of a request",
    "remote/server.py": "a greeting that is not JSON",
    "toolbox/child.py": "the one order of our own parent",
    "toolbox/mailbox.py": "lines of a mailbox",
}


def test_messages_in_lines_are_read_in_one_place() -> None:
    """With a bound on each line, and no end of all where one cannot be read."""
    texts = {name(path): path.read_text(encoding="utf-8") for path in MODULES}
    splitting = {one for one, text in texts.items() if re.search(r"""\.split\(b["']\\n["']""", text)}
    assert splitting == {"core/json_lines.py", *SPLITS}, "use `LineReader` or `LineSplitter` of core/json_lines.py"
    reading = calling(r".*\.(readline|readuntil)")
    assert reading == set(READS_A_LINE), "use `LineReader` of core/json_lines.py"


def test_standard_output_is_taken_in_one_place() -> None:
    """So that no print passes for a message, and a stream that is closed is nobody else's file."""
    assert calling(r"os\.dup2") == {
        "core/standard_streams.py",
        "models/local/worker.py",  # imports nothing of Ferrule
        "process/launcher.py",  # before a program of its own starts
        "process/sandbox/forwarder.py",
    }
    assert {
        one for one, text in ((name(path), path.read_text(encoding="utf-8")) for path in MODULES) if "F_DUPFD" in text
    } == {"core/standard_streams.py", "process/launcher.py", "process/sandbox/sandbox.py"}


def test_a_secret_is_named_in_one_way() -> None:
    """`${NAME}`, `${file:…}`, `${command:…}` and `${keyring:…}`, read in one place."""
    texts = {name(path): path.read_text(encoding="utf-8") for path in MODULES}
    written = re.compile(r"""["'](env|secret|keyring):""")
    assert {one for one, text in texts.items() if written.search(text)} == {"process/references.py"}
    assert {one for one, text in texts.items() if "get_password" in text} == {"process/references.py"}


def test_a_body_is_fetched_in_one_place() -> None:
    """With bounds on its bytes, packed and unpacked, on time and redirects."""
    assert calling(r".*\.(aiter_(bytes|raw|text|lines|stream)|iter_(bytes|raw|text))") == {
        "client.py",  # events of the user's own service
        "core/http_fetch.py",
        "models/http_model.py",  # a stream of events, whose silences are bounded
        "toolbox/http_client.py",  # gives it to `read_body`
    }, "use `fetch` or `read_body` of core/http_fetch.py"
    assert calling(r"(urllib\.request\.)?urlopen|httpx2\.(get|post|put|request|stream)") == set()
    assert calling(r".*\bclient(\(\))?\.get") == set(), "nothing bounds its body"
    texts = {name(path): path.read_text(encoding="utf-8") for path in MODULES}
    assert {one for one, text in texts.items() if ".is_loopback" in text} == {
        "core/http_fetch.py",
        "process/sandbox/proxy.py",  # where a name led to
    }, "`is_local` of core/http_fetch.py says whether a host is this machine"
