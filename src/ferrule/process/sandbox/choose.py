"""Finds the strongest sandbox that works here, by trying each for real. Never falls back to none without saying so."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.process.child import find_program
from ferrule.process.profile import Profile
from ferrule.process.sandbox.bubblewrap import Bubblewrap
from ferrule.process.sandbox.control_group import can_count_processes
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.process.sandbox.no_sandbox import NoSandbox
from ferrule.process.sandbox.sandbox import SandboxRefused
from ferrule.process.sandbox.seatbelt import Seatbelt
from ferrule.process.sandbox.spawner import spawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.process.sandbox.sandbox import Sandbox

_SECONDS = 20
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
_best: Sandbox | None = None
_tried: tuple[Tried, ...] = ()


def best_sandbox(inside: Sequence[Path] = ()) -> Sandbox:
    """The strongest that works, tried once in a process. Programs that lie `inside` a workspace are never taken."""
    global _best, _tried
    with _lock:
        if _best is None:
            _best, _tried = _try_all(inside)
        return _best


def probe_report(inside: Sequence[Path] = ()) -> tuple[Tried, ...]:
    """What was tried, strongest first, for `ferrule doctor`."""
    best_sandbox(inside)
    return _tried


def _try_all(inside: Sequence[Path]) -> tuple[Sandbox, tuple[Tried, ...]]:
    tried: list[Tried] = []
    for attempt in {"darwin": (_try_seatbelt,)}.get(sys.platform, (_try_bubblewrap, _try_landlock)):
        sandbox, outcome = attempt(inside)
        tried.append(outcome)
        if sandbox is not None:
            return sandbox, tuple(tried)
    reasons = tuple(f"{outcome.name}: {outcome.message}." for outcome in tried)
    return NoSandbox(reasons=reasons), tuple(tried)


def _try_bubblewrap(inside: Sequence[Path]) -> tuple[Sandbox | None, Tried]:
    program = find_program("bwrap", inside)
    if program is None:
        return None, Tried(
            "bubblewrap",
            False,
            "there is no `bwrap` program; install it with the system's package manager "
            "(`apt-get install bubblewrap`, `dnf install bubblewrap`, `pacman -S bubblewrap`)",
        )
    sandbox = Bubblewrap(program, by_descriptor=_binds_descriptors(program), notes=_notes())
    complaint = _prove(sandbox, _PROOF)
    if complaint is None:
        return sandbox, Tried("bubblewrap", True, f"{program} confines commands", sandbox.notes)
    return None, Tried("bubblewrap", False, f"{program} does not work here ({complaint}); {_advice(complaint)}")


def _notes() -> tuple[str, ...]:
    if os.geteuid() == 0 and not can_count_processes():
        return ("the number of processes is not bounded: Ferrule runs as root and may not make control groups",)
    return ()


def _try_landlock(inside: Sequence[Path]) -> tuple[Sandbox | None, Tried]:
    sandbox = LandlockSandbox()
    complaint = sandbox.missing() or _prove(sandbox, _PROOF_WITHOUT_PROC)
    if complaint is None:
        return sandbox, Tried(
            "landlock", True, "the kernel confines commands, with less than bubblewrap would", sandbox.notes
        )
    return None, Tried("landlock", False, f"{complaint}; a kernel from 5.13 on with Landlock turned on has it")


def _try_seatbelt(inside: Sequence[Path]) -> tuple[Sandbox | None, Tried]:
    sandbox = Seatbelt()
    complaint = _prove(sandbox, _PROOF_WITHOUT_PROC)
    if complaint is None:
        return sandbox, Tried("seatbelt", True, "macOS confines commands", sandbox.notes)
    return None, Tried("seatbelt", False, f"`sandbox-exec` does not work here ({complaint})")


def _prove(sandbox: Sandbox, proof: str) -> str | None:
    """Run a command that finds out how far it can go; None when it was confined, else what went wrong."""
    with tempfile.TemporaryDirectory(prefix="ferrule-probe-") as folder:
        workspace, outside = Path(folder, "workspace"), Path(folder, "outside")
        workspace.mkdir()
        outside.mkdir()
        try:
            prepared = sandbox.prepare(Profile((workspace,), workspace), ("/bin/sh", "-c", proof))
        except (SandboxRefused, OSError) as error:
            return str(error)
        with prepared:
            process = spawn(prepared.launch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                out, err = process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return f"it did not finish within {_SECONDS} s"
    if process.returncode == 0 and out.strip() == b"confined":
        return None
    complaints = err.decode(errors="replace").strip().splitlines()
    return complaints[-1][:300] if complaints else f"it ran, but did not confine; exit code {process.returncode}"


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
