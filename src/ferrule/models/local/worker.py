"""The process that holds a model: reads requests from its standard input, and writes what comes to its standard output.

It is a process of its own because llama.cpp holds the interpreter's lock while it loads, writes to standard error when
it pleases, ends the whole process when it meets weights it cannot bear, and reads a prompt to its end before it lets
go. Started by path, it imports nothing of Ferrule. It ends when its input does, so none is ever left behind.

The first line in is what to load; `{"loaded": …}` or `{"failed": …}` comes out. Then each line in is a request (`id`,
`body`) or `{"cancel": id}`; each line out is a `chunk` of a request, its `error`, or its `end`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from importlib import import_module
from typing import IO, Any

_Request = dict[str, Any]


class Worker:
    """One loaded model, and at most one request that it works at."""

    def __init__(self, out: IO[str], server: Any) -> None:
        self._out = out
        self._server = server
        self._cancelled: set[int] = set()
        self._writing = threading.Lock()

    def send(self, message: _Request) -> None:
        """Write one line."""
        with self._writing:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()

    def cancel(self, number: int) -> None:
        """Stop a request with its next token."""
        self._cancelled.add(number)

    def answer(self, request: _Request) -> None:
        """Work at one request until it is done, or cancelled."""
        number: int = request["id"]

        def take(piece: Any) -> bool:
            document = json.loads(piece) if isinstance(piece, str) else piece
            if number in self._cancelled:
                return True
            if "error" in document or ("code" in document and "message" in document):
                self.send({"id": number, "error": document.get("error", document)})
            else:
                self.send({"id": number, "chunk": document})
            return False

        try:
            self._server.handle_chat_completions(json.dumps(request["body"]), take)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other side must hear of it
            self.send({"id": number, "error": {"message": str(error)}})
        self._cancelled.discard(number)
        self.send({"id": number, "end": True})


def load(wanted: dict[str, Any]) -> Any:
    """The model itself, reachable from this process alone."""
    xllamacpp: Any = import_module("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = wanted["path"]
    parameters.n_ctx = wanted["context"]
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = wanted["threads"]
    parameters.n_batch = parameters.n_ubatch = 128  # between two of them a request can be cancelled
    parameters.verbosity = 1
    parameters.warmup = False
    parameters.fit_params = False
    parameters.cache_ram_mib = 256  # what was read before and may come again
    parameters.ui = parameters.endpoint_slots = False
    # The binding always listens. On a socket in a folder of ours, which is removed at once, nobody can reach it.
    with tempfile.TemporaryDirectory(prefix="ferrule-") as folder:
        parameters.hostnames = [os.path.join(folder, "model.sock")]  # noqa: PTH118 - the binding takes a text
        return xllamacpp.Server(parameters)


def what_it_said(complaints: IO[bytes]) -> str:
    """What llama.cpp wrote of its failure; a thread of its own writes that, a moment after the failure is known."""
    said = ""
    for _ in range(20):
        complaints.seek(0)
        said = complaints.read(20_000).decode(errors="replace")
        if "error loading" in said:
            break
        time.sleep(0.05)
    return said


def main() -> None:
    """Load, then answer until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the person stops the turn; the parent tells us what to do about it
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(complaints.fileno(), 2)
    wanted = json.loads(sys.stdin.readline())
    try:
        server = load(wanted)
    except Exception as error:  # noqa: BLE001 - the words go to the other side
        Worker(out, None).send({"failed": str(error), "said": what_it_said(complaints)})
        out.flush()
        os._exit(1)
    worker = Worker(out, server)
    worker.send({"loaded": True})
    for line in sys.stdin:
        request = json.loads(line)
        if "cancel" in request:
            worker.cancel(request["cancel"])
        else:
            threading.Thread(target=worker.answer, args=(request,), daemon=True).start()
    os._exit(0)  # a request may still be at work; nobody waits for it


if __name__ == "__main__":
    main()
