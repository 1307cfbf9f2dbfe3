"""A sandbox to try things in, as root and as an ordinary user: real commands in a real workspace."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import encodings.idna
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ferrule.process.box import open_box
from ferrule.process.profile import LayerMount, Profile
from ferrule.process.sandbox.bubblewrap import Bubblewrap
from ferrule.process.sandbox.choose import _binds_descriptors
from ferrule.process.sandbox.denials import Denial
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.process.sandbox.sandbox import Sandbox

# Python's own files may lie where an ordinary user cannot read them, so what is imported late is imported now.
IMPORTED_LATE = (concurrent.futures.thread, encodings.idna)
NOBODY = 65534
SECONDS = 60


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str
    denials: tuple[Denial, ...]
    explained: Denial | None
    layered: bool


def as_user(uid: int, environment: dict[str, str], work: Callable[[], Any]) -> Any:
    """Do it in a child that has become this user, and give back what it gave."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads of the test runner hold nothing we need
        child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            if uid != os.geteuid():
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            os.environ.clear()
            os.environ.update(environment)
            tempfile.tempdir = environment.get("TMPDIR")
            sys.executable = python_for_all() or sys.executable
            try:
                answer = (True, work())
            except BaseException as error:
                answer = (False, f"{error!r}\n{traceback.format_exc()}")
            with os.fdopen(writing, "wb") as file:
                pickle.dump(answer, file)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        answered = file.read()
    os.waitpid(child, 0)
    fine, value = pickle.loads(answered)
    assert fine, value
    return value


def run(sandbox: Sandbox, profile: Profile, arguments: list[str]) -> Outcome:
    return asyncio.run(run_in_box(sandbox, profile, arguments))


async def run_in_box(sandbox: Sandbox, profile: Profile, arguments: list[str]) -> Outcome:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
        box = await open_box(
            sandbox, profile, arguments, stdin=nothing.fileno(), stdout=out.fileno(), stderr=err.fileno()
        )
        try:
            done, _ = await asyncio.wait({box.ended}, timeout=SECONDS)
            await box.end(patience=0)
            said, complaints = (os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace") for file in (out, err))
            assert done, f"it hangs: {said!r} {complaints!r}"
            code = box.ended.result()
            explained = sandbox.explain_denial(code, complaints, profile)
            return Outcome(code, said, complaints, box.denials(), explained, box.layered)
        finally:
            box.close()


@dataclass
class Box:
    """A workspace, a home and a place outside, all owned by one user, and a sandbox to run commands of theirs in."""

    folder: Path
    uid: int
    sandbox: Sandbox
    path: ClassVar[str] = "/usr/local/bin:/usr/bin:/bin"

    def __post_init__(self) -> None:
        for place in (self.folder, self.workspace, self.home, self.outside, self.temporary):
            place.mkdir(exist_ok=True)
        self.own()

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    @property
    def temporary(self) -> Path:
        return self.folder / "temporary"

    def own(self) -> None:
        """Give everything to the user."""
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, self.uid, self.uid, follow_symlinks=False)
        self.folder.chmod(0o755)

    def write(self, path: str, text: str = "") -> Path:
        """A file of the user's, by its path in the workspace."""
        whole = self.workspace / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(text)
        self.own()
        return whole

    def repository(self, path: str = ".", template: str | None = None) -> Path:
        options = [f"--template={template}"] if template is not None else []
        whole = self.workspace / path
        subprocess.run(["git", "init", "-q", *options, str(whole)], check=True, env={"PATH": os.environ["PATH"]})
        self.own()
        return whole

    def run(self, script: str, *, variables: dict[str, str] | None = None, **profile: Any) -> Outcome:
        """What a script of bash did, in the sandbox."""
        return self.run_program(["bash", "-c", script], variables=variables, **profile)

    def run_program(self, arguments: list[str], *, variables: dict[str, str] | None = None, **given: Any) -> Outcome:
        fields: dict[str, Any] = {"writable": (self.workspace,), "folder": self.workspace} | given
        profile = Profile(**fields)
        environment = self.environment | {"LANG": "C.UTF-8"} | (variables or {})
        return as_user(self.uid, environment, lambda: run(self.sandbox, profile, arguments))

    def look(self, script: str, *, below: tuple[Path, ...] = (), **given: Any) -> Outcome:
        """What a script did in a look box; what it wrote is in `upper`."""
        for place in (self.upper, self.folder / "work"):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            os.chown(place, self.uid, self.uid)
        layers = (LayerMount(self.workspace, self.upper, self.folder / "work", below),)
        fields: dict[str, Any] = {"look": True, "layers": layers} | given
        return self.run(script, **fields)

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    def do(self, work: Callable[[], Any]) -> Any:
        """Something as the user, outside the sandbox."""
        return as_user(self.uid, self.environment, work)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": self.path, "HOME": str(self.home), "TMPDIR": str(self.temporary)}


def bubblewrap() -> Bubblewrap | None:
    program = shutil.which("bwrap")
    return (
        Bubblewrap(program, by_descriptor=_binds_descriptors(program), nests=True, has_layers=True) if program else None
    )


def landlock() -> LandlockSandbox:
    return LandlockSandbox()


def python_for_all() -> str | None:
    """A Python that every user can run; ours may lie in root's home."""
    real = os.path.realpath(sys.executable)
    if not real.startswith("/root/"):
        return real
    return shutil.which("python3", path="/usr/bin:/usr/local/bin")
