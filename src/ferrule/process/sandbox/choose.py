"""Finds the strongest sandbox that works here, by trying each for real. Never falls back to none without saying so."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.process.box import open_box
from ferrule.process.owned_folders import OwnedFolder
from ferrule.process.profile import LayerMount, Profile
from ferrule.process.sandbox.bubblewrap import Bubblewrap
from ferrule.process.sandbox.denials import SandboxRefused
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.process.sandbox.limits import can_group
from ferrule.process.sandbox.places import find_program
from ferrule.process.sandbox.sandbox import NoSandbox
from ferrule.process.sandbox.seatbelt import Seatbelt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.process.sandbox.sandbox import Sandbox

_SECONDS = 60
_DESCRIPTORS = 24
"""That trying a sandbox needs at once, and some to spare."""
# Proves what matters: the workspace can be written and nothing beside it, no capability is left, calls are filtered.
_PROOF_OF_FILES = ": >mine && ! (: >../outside/made) 2>/dev/null"
_PROOF = (
    "while read -r name value rest; do case $name in CapEff:) caps=$value ;; Seccomp:) filter=$value ;; esac; "
    f"done </proc/self/status; {_PROOF_OF_FILES} && [ ! -w /usr ] && "
    '[ "$filter" = 2 ] && [ "${caps#*[1-9a-f]}" = "$caps" ] && echo confined'
)
_PROOF_WITHOUT_PROC = f"{_PROOF_OF_FILES} && echo confined"


@dataclass(slots=True, frozen=True)
class Tried:
    """One sandbox, and how trying it went."""

    name: str
    works: bool
    message: str
    """What it gives, or why it does not work and what would help."""
    notes: tuple[str, ...] = ()


_lock = threading.Lock()
_found: dict[tuple[str, ...], tuple[Sandbox, tuple[Tried, ...]]] = {}
_MOST_FOUND = 64


def best_sandbox(inside: Sequence[Path] = (), layers: Path | None = None) -> Sandbox:
    """The strongest that works, tried once in a process for each workspace. Programs that lie `inside` a workspace are
    never taken. `layers` is the folder that look boxes would have their layers in.
    """
    return _best(inside, layers)[0]


def probe_report(inside: Sequence[Path] = (), layers: Path | None = None) -> tuple[Tried, ...]:
    """What was tried, strongest first, for `ferrule doctor`."""
    return _best(inside, layers)[1]


def _best(inside: Sequence[Path], layers: Path | None) -> tuple[Sandbox, tuple[Tried, ...]]:
    key = (str(layers or ""), *map(str, inside))
    with _lock:
        if key not in _found:
            while len(_found) >= _MOST_FOUND:
                _found.pop(next(iter(_found)))
            _found[key] = _try_all(inside, layers)
        return _found[key]


def _try_all(inside: Sequence[Path], layers: Path | None) -> tuple[Sandbox, tuple[Tried, ...]]:
    tried: list[Tried] = []
    for attempt in {"darwin": (_try_seatbelt,)}.get(sys.platform, (_try_bubblewrap, _try_landlock)):
        sandbox, outcome = attempt(inside, layers)
        tried.append(outcome)
        if sandbox is not None:
            return sandbox, tuple(tried)
    reasons = tuple(f"{outcome.name}: {outcome.message}." for outcome in tried)
    return NoSandbox(reasons=reasons), tuple(tried)


def _try_bubblewrap(inside: Sequence[Path], layers: Path | None) -> tuple[Sandbox | None, Tried]:
    program = find_program("bwrap", inside)
    if program is None:
        return None, Tried(
            "bubblewrap",
            False,
            "there is no `bwrap` program; install it with the system's package manager "
            "(`apt-get install bubblewrap`, `dnf install bubblewrap`, `pacman -S bubblewrap`)",
        )
    by_descriptor = _binds_descriptors(program)
    for nests in (True, False):
        sandbox = Bubblewrap(program, by_descriptor=by_descriptor, nests=nests)
        complaint = _prove(sandbox, _PROOF)
        if complaint is None:
            break
    else:
        return None, Tried("bubblewrap", False, f"{program} does not work here ({complaint}); {_advice(complaint)}")
    if os.geteuid() == 0 and "pids" not in can_group():
        sandbox.notes += (
            "the number of processes is not bounded: Ferrule runs as root and may not make control groups",
        )
    why_not = _prove_layers(sandbox, inside, layers) if nests else "user namespaces of one's own are not allowed"
    gives = "confines commands"
    if why_not is None:
        sandbox.has_layers = True
        gives += "; unapproved ones write to a layer over the workspace"
    else:
        sandbox.notes += (f"unapproved commands see the workspace read-only: no layer can be put over it ({why_not})",)
    return sandbox, Tried("bubblewrap", True, f"{program} {gives}", sandbox.notes)


def _try_landlock(inside: Sequence[Path], layers: Path | None) -> tuple[Sandbox | None, Tried]:
    sandbox = LandlockSandbox()
    complaint = sandbox.missing() or _prove(sandbox, _PROOF_WITHOUT_PROC)
    if complaint is None:
        return sandbox, Tried(
            "landlock", True, "the kernel confines commands, with less than bubblewrap would", sandbox.notes
        )
    return None, Tried("landlock", False, f"{complaint}; a kernel from 5.13 on with Landlock turned on has it")


def _try_seatbelt(inside: Sequence[Path], layers: Path | None) -> tuple[Sandbox | None, Tried]:
    sandbox = Seatbelt()
    complaint = _prove(sandbox, _PROOF_WITHOUT_PROC)
    if complaint is None:
        return sandbox, Tried("seatbelt", True, "macOS confines commands", sandbox.notes)
    return None, Tried("seatbelt", False, f"`sandbox-exec` does not work here ({complaint})")


def _prove(sandbox: Sandbox, proof: str) -> str | None:
    """Run a command that finds out how far it can go; None when it was confined, else what went wrong."""
    with OwnedFolder(prefix="ferrule-probe-") as folder:
        workspace, outside = folder.path / "workspace", folder.path / "outside"
        workspace.mkdir()
        outside.mkdir()
        ran = _run(sandbox, Profile((workspace,), workspace), proof)
    if isinstance(ran, str):
        return ran
    if ran.code == 0 and ran.out.strip() == b"confined":
        return None
    complaints = ran.err.decode(errors="replace").strip().splitlines()
    return complaints[-1][:300] if complaints else f"it ran, but did not confine; exit code {ran.code}"


def _prove_layers(sandbox: Sandbox, inside: Sequence[Path], layers: Path | None) -> str | None:
    """Make a file in a layer over the workspace itself, which must not get it; None when that went well."""
    name = f".ferrule-probe-{os.urandom(6).hex()}"
    with ExitStack() as made:
        try:
            folder = made.enter_context(OwnedFolder(layers, prefix="ferrule-probe-")).path
            upper, work, workspace = folder / "upper", folder / "work", folder / "workspace"
            for one in (upper, work, workspace):
                one.mkdir()
        except OSError as error:
            return str(error)
        root = Path(os.path.realpath(inside[0] if inside else workspace))
        profile = Profile((root,), root, look=True, layers=(LayerMount(root, upper, work),))
        ran = _run(sandbox, profile, f"echo new >{name} && cat {name}")
        if isinstance(ran, str):
            return ran
        if not ran.layered:
            return "the kernel or the file system does not allow the mount"
        if ran.code != 0 or ran.out != b"new\n" or not (upper / name).is_file() or (root / name).exists():
            return ran.err.decode(errors="replace").strip()[:300] or "what was written did not come out of it"
    return None


@dataclass(slots=True, frozen=True)
class _Ran:
    code: int
    out: bytes
    err: bytes
    layered: bool


def _run(sandbox: Sandbox, profile: Profile, script: str) -> _Ran | str:
    """What a script did in a box, or why it could not be run. In a thread: there may be an event loop in this one."""
    answers: list[_Ran | str] = []

    def work() -> None:
        try:
            # Fail before an event loop is half made, which Python would complain about long after.
            opened: list[int] = []
            try:
                while len(opened) < _DESCRIPTORS:
                    opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            finally:
                for one in opened:
                    os.close(one)
            answers.append(asyncio.run(_run_in_box(sandbox, profile, script)))
        except (SandboxRefused, OSError) as error:
            answers.append(str(error))

    thread = threading.Thread(target=work, name="ferrule-probe")
    thread.start()
    thread.join()
    return answers[0]


async def _run_in_box(sandbox: Sandbox, profile: Profile, script: str) -> _Ran | str:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123
        box = await open_box(
            sandbox,
            profile,
            ("/bin/sh", "-c", script),
            stdin=nothing.fileno(),
            stdout=out.fileno(),
            stderr=err.fileno(),
        )
        try:
            done, _ = await asyncio.wait({box.ended}, timeout=_SECONDS)
            await box.end(patience=0)
        finally:
            box.close()
        if not done:
            return f"it did not finish within {_SECONDS} s"
        return _Ran(box.ended.result(), os.pread(out.fileno(), 4096, 0), os.pread(err.fileno(), 4096, 0), box.layered)


def _binds_descriptors(program: str) -> bool:
    """Whether it can be handed open folders instead of names, which others may change meanwhile."""
    try:
        done = subprocess.run([program, "--help"], capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"--ro-bind-fd" in done.stdout + done.stderr


def _advice(complaint: str) -> str:
    if "uid map" in complaint or "namespace" in complaint or "Operation not permitted" in complaint:
        return (
            "user namespaces are not allowed: see `sysctl kernel.apparmor_restrict_unprivileged_userns` and "
            "`user.max_user_namespaces`, and in a container start it with `--security-opt seccomp=unconfined`"
        )
    if "loopback" in complaint or "RTM_NEWADDR" in complaint:
        return "the system does not allow a network namespace of one's own, for example inside a container"
    return "run `bwrap --unshare-all --ro-bind / / true` to see the same"
