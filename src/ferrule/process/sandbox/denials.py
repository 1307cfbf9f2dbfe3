"""What the sandbox kept a command from, told from what the command complained of; and the refusal to start one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.sizes import size_words
from ferrule.process.sandbox.places import is_within, shown_by

if TYPE_CHECKING:
    from ferrule.process.profile import Profile

Kind = Literal[
    "write", "read", "guarded", "network", "processes", "memory", "file size", "layer size", "temporary size",
    "system call", "unkept", "unseen",
]  # fmt: skip
SAID_ONLY: frozenset[Kind] = frozenset({"processes", "memory", "file size", "unkept", "unseen"})
"""Kinds that are reported and never asked about: approval would change nothing, as every box has the same limits."""

HOSTS_SETTING = "`hosts` of `[sandbox]` in their settings"
"""Where a person allows a host."""


@dataclass(slots=True, frozen=True)
class Denial:
    """Something the sandbox kept a command from, in words, and as what a person may be asked for."""

    kind: Kind
    subject: str
    """The path, host or system call; empty where the command did not say."""
    message: str
    suggestion: str


class SandboxRefused(ToolError):  # noqa: N818 - reads as what it says
    """The command was not started, because it could not be confined as its profile asks."""

    def __init__(self, message: str, suggestion: str) -> None:
        super().__init__(message, kind=ErrorKind.PERMISSION, suggestion=suggestion)


_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - inside the sandbox
_OWN = (*_TEMPORARY, "/run", "/dev", "/proc")
"""Folders that a box has of its own."""
_MOST_TEXT, _LONGEST_LINE = 64 << 10, 2_000
_MOST_ALIKE = 100
"""Hidden files of one name that a complaint is compared with."""
_WRITE = lazy_pattern(r"Read-only file system|EROFS|os error 30")
_BUSY = lazy_pattern(r"Device or resource busy|EBUSY")
_NOT_THERE = lazy_pattern(r"No such file or directory|ENOENT|os error 2\b")
_NO_ACCESS = lazy_pattern(r"[Pp]ermission denied|EACCES")
_REFUSED = lazy_pattern(r"Permission denied|EACCES|Operation not permitted|EPERM")
_COPIED = lazy_pattern(r"special file|mknod")
"""What hides a file is a device, and copying one is refused."""
_QUOTED_PATH = lazy_pattern(r"['\"‘`](/[^'\"’`]{1,1000})['\"’`]")
_QUOTED_NAME = lazy_pattern(r"['\"‘`]([^'\"’`/][^'\"’`]{0,1000})['\"’`]")
_BARE_PATH = lazy_pattern(r"(?:^|[\s=(])(/[^\s:,;'\"()]{1,1000})")
_SAID_BY = lazy_pattern(r"/[^\s:]{1,1000}: ")  # `/usr/bin/ld: cannot open x: …`
_BEFORE_NAME = lazy_pattern(
    r"(?i)(?:access|create|directory|execute|file|folder|link|mkdir|open|remove|rename|stat|touch)"
)
"""Words before a name: any other last word of a complaint is a word, as in `cannot read table of mounted disks`."""
_READS = lazy_pattern(r"(?i)cannot (?:access|list|open directory|read|stat)\b|opendir|scandir|for reading")
_NO_HOST = lazy_pattern(
    r"(?:Could not resolve (?:host|proxy)(?: name)?|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|unable to resolve host address|"
    r"Temporary failure in name resolution|Name or service not known|nodename nor servname)"
    r"(?:[:\s]+['\"‘]?(?P<host>[A-Za-z0-9_.-]+\.[A-Za-z0-9-]+))?"
)
_PROXY = lazy_pattern(r"Ferrule does not let this command reach `(?P<host>[^`]+)`")
_BY_PROXY = lazy_pattern(r"(?:CONNECT tunnel failed, response 403|403 Forbidden by Ferrule|tunneling socket could not)")
_UNREACHABLE = lazy_pattern(r"Network is unreachable|ENETUNREACH")
_FORK = lazy_pattern(
    r"fork: (?:retry: )?Resource temporarily unavailable|Cannot fork|can't start new thread|fork.*EAGAIN"
)
_NO_MEMORY = lazy_pattern(
    r"MemoryError|[Cc]annot allocate memory|ENOMEM|bad_alloc|runtime: out of memory|insufficient memory|"
    r"memory exhausted|Sanitizer failed to allocate"
)
_TOO_LARGE = lazy_pattern(r"File too large|EFBIG|File size limit exceeded")
_BAD_CALL = lazy_pattern(r"Bad system call")


def explain(exit_code: int, stderr_text: str, profile: Profile, own: tuple[str, ...] = _OWN) -> Denial | None:
    """None when the command succeeded, or failed for reasons of its own as far as can be told. Where it could change
    nothing at all, it may have gone on without a change that it wanted, and ended well. `own` are folders that the box
    has of its own.
    """
    text = stderr_text[-_MOST_TEXT:]
    if exit_code == 0:
        found = _files(text, profile, own) if _changes_nothing(profile) else None
        return found if found is not None and found.kind in ("write", "unkept") else None
    found = _files(text, profile, own) or _network(text, profile) or _bounds(exit_code, text, profile)
    return found or _unseen(text, profile, own)


def hidden_met(text: str, profile: Profile) -> list[Denial]:
    """Every hidden place that a command complained of, also one that went on and succeeded without it. The subject of
    each is the place as the profile has it.
    """
    text = text[-_MOST_TEXT:]
    if not profile.hidden or _REFUSED.search(text) is None:
        return []
    places = {str(path): path for path in profile.hidden} | {os.path.realpath(path): path for path in profile.hidden}
    by_name: dict[str, list[str]] = {}
    for place in places:
        by_name.setdefault(place.rpartition("/")[2], []).append(place)
    roots = [os.path.realpath(one) for one in profile.writable]
    found: dict[str, Denial] = {}
    for line in text.splitlines():
        line = line[:_LONGEST_LINE]
        if (refused := _REFUSED.search(line)) is None:
            continue
        for name in _names_in(line, refused.start()):
            whole = os.path.normpath(os.path.join(profile.folder, name))  # noqa: PTH118 - text
            if whole not in places:
                whole = os.path.realpath(whole)
            ending = f"/{os.path.normpath(name).removeprefix('../')}"  # the command may have gone elsewhere
            if copied := _COPIED.search(line):  # what it names is the copy, of which only the end is known
                ending = f"/{name.rpartition('/')[2]}"
            met = [one for one in (whole, *map(str, PurePath(whole).parents)) if one in places]
            alike = by_name.get(ending.rpartition("/")[2], ())[:_MOST_ALIKE]
            met += [one for one in alike if one.endswith(ending) and (not copied or os.path.lexists(one))]
            for place in met:
                found[str(places[place])] = _is_hidden(str(places[place]), place, roots)
    return list(found.values())


def _files(text: str, profile: Profile, own: tuple[str, ...]) -> Denial | None:
    lines = [line[:_LONGEST_LINE] for line in text.splitlines()]
    for pattern in (_WRITE, _BUSY, _REFUSED):
        for line in lines:
            found = pattern.search(line)
            if found is None:
                continue
            # A whole path anywhere in its line, or the name right before the complaint. A file that could not be made
            # is not there, but its folder is; any word could be a file right here, which only matters with layers.
            here, path = str(profile.folder), None
            names = _names_in(line, found.start())
            for name in names:
                whole = name if name.startswith("/") else f"{here}/{name}"
                above = whole.rpartition("/")[0]
                if (
                    name.startswith("/")
                    or os.path.lexists(whole)
                    or ((above != here or _changes_nothing(profile)) and os.path.lexists(above))
                ):
                    path = whole
                    break
            if path is None and names and _changes_nothing(profile) and _NO_ACCESS.search(line):
                path = f"{here}/{names[0]}"  # a file that is not there is missing, not refused
            if path is None and pattern is _WRITE:
                return _read_only("", "a file") if _is_read_only(str(profile.folder)) else _outside("", profile)
            if path is None:
                continue
            reads = _READS.search(line) is not None
            if denial := _about(path, profile, own, certain=pattern is _WRITE, reads=reads):
                return denial
    return None


def _changes_nothing(profile: Profile) -> bool:
    """Whether what a command would write to the workspace is refused, and not taken by a layer."""
    return profile.look and not profile.layers


def _names_in(line: str, complaint: int) -> list[str]:
    """What a complaint may be about: a whole path, the name right before it, or one in quotes."""
    said_by = _SAID_BY.match(line)
    start = said_by.end() - 1 if said_by and said_by.end() < complaint else 0
    if found := _QUOTED_PATH.search(line) or _BARE_PATH.search(line, start):
        return [found[1]]
    if quoted := _QUOTED_NAME.findall(line):
        return quoted
    for part in reversed(line[:complaint].rstrip(" :(").split(": ")[1:]):  # the first is the program
        words = part.split()
        if len(words) == 1 or (words and _BEFORE_NAME.fullmatch(words[-2])):
            return [words[-1]]
    return []


def _about(path: str, profile: Profile, own: tuple[str, ...], *, certain: bool, reads: bool) -> Denial | None:
    """What is known of a path that was refused; None where the sandbox had no part in it."""
    path = whole = os.path.normpath(path)
    roots = [os.path.realpath(root) for root in profile.writable]
    if any(is_within(whole, os.path.realpath(hidden)) or is_within(whole, str(hidden)) for hidden in profile.hidden):
        return _is_hidden(path, whole, roots)
    if any(is_within(whole, root) for root in roots):
        if not certain and (reads or ("/.git/" not in whole and not _changes_nothing(profile))):
            return None
        if not certain and os.path.lexists(whole) and not os.access(whole, os.W_OK):
            return None  # the user may not change it either
        if _is_read_only(whole):
            return _read_only(path, f"`{_shown(whole, roots)}`")
        if profile.look:
            return Denial(
                "write",
                path,
                f"The sandbox kept the command from changing `{_shown(whole, roots)}`: unapproved commands see the "
                "workspace read-only.",
                "Ask the user to approve the command.",
            )
        forbidden = profile.forbidden is not None and any(profile.forbidden.concerns([whole]))
        why = (
            ": a rule denies writing it" if forbidden else ", which is guarded: it can make other programs run commands"
        )
        return Denial(
            "guarded",
            path,
            f"The sandbox kept the command from changing `{_shown(whole, roots)}`{why}.",
            "Do without it, or ask the user to make this change.",
        )
    if certain:
        return _outside(whole, profile)
    if any(is_within(whole, one) for one in shown_by(profile)[0].hidden):
        return Denial(
            "read",
            path,
            f"The sandbox hides `{whole}`: keys and passwords of the system are not shown to commands.",
            "Do without it, or ask the user for what you need from there.",
        )
    return _not_shown(whole, profile, own)


def _unseen(text: str, profile: Profile, own: tuple[str, ...]) -> Denial | None:
    """A place that a command did not find, as it is not shown."""
    for line in text.splitlines():
        if (found := _NOT_THERE.search(line[:_LONGEST_LINE])) is None:
            continue
        for name in _names_in(line[:_LONGEST_LINE], found.start()):
            whole = os.path.normpath(os.path.join(profile.folder, name))  # noqa: PTH118 - text
            if "/" in name and (denial := _not_shown(whole, profile, own)) is not None:
                return denial
    return None


def _not_shown(whole: str, profile: Profile, own: tuple[str, ...]) -> Denial | None:
    """A place that is not among those that the box shows. Whether anything is there on the machine is not said."""
    places, shown = shown_by(profile)
    if places.show(whole) or any(is_within(whole, one) for one in (*shown, *own)):
        return None
    if any(is_within(whole, one) for one in _TEMPORARY):
        message = f"Commands do not see `{whole}`: without bubblewrap they have no `/tmp` of their own."
        return Denial("unseen", whole, message, "Put temporary files below `$TMPDIR`.")
    return Denial(
        "unseen",
        whole,
        f"Commands do not see `{whole}`, whether it exists or not: it is outside the workspace.",
        "If you need it, ask the user to add its folder with `--add-dir` or `shell.see`.",
    )


def _is_hidden(path: str, whole: str, roots: list[str]) -> Denial:
    return Denial(
        "read",
        path,
        f"The sandbox hides `{_shown(whole, roots)}`: reading it needs approval, or a rule denies it.",
        "Do without it, or ask the user to allow reading it.",
    )


def _read_only(path: str, shown: str) -> Denial:
    return Denial(
        "write",
        path,
        f"The command could not change {shown}: the workspace is on a read-only file system.",
        "Write below `/tmp`, or ask the user to make the workspace writable.",
    )


def _is_read_only(whole: str) -> bool:
    """Whether it cannot be changed, in a sandbox or not."""
    while whole != "/":
        try:
            return bool(os.statvfs(whole).f_flag & os.ST_RDONLY)
        except OSError:
            whole = os.path.dirname(whole)  # noqa: PTH120 - what was to be made is not there
    return False


def _outside(whole: str, profile: Profile) -> Denial:
    """Writing a place that no box lets a command write; one that isn't known may lie in a workspace without layers."""
    what = f"`{whole}`" if whole else "a place outside the workspace"
    approval_helps = not whole and _changes_nothing(profile)
    return Denial(
        "write" if approval_helps else "unkept",
        whole,
        f"The sandbox kept the command from writing {what}: only the workspace and `/tmp` are writable.",
        "Write inside the workspace or below `/tmp`, or ask the user to add the folder to `writable` of `[sandbox]` "
        "in their settings.",
    )


def _network(text: str, profile: Profile) -> Denial | None:
    found = _PROXY.search(text) or _NO_HOST.search(text)
    if found is None and not _BY_PROXY.search(text) and not _UNREACHABLE.search(text):
        return None
    return no_network((found["host"] or "") if found else "", profile)


def speaks_of_network(text: str) -> bool:
    """Whether complaints about the network stand in what a command wrote."""
    text = text[-_MOST_TEXT:]
    return bool(_NO_HOST.search(text) or _UNREACHABLE.search(text))


def no_network(host: str, profile: Profile) -> Denial:
    """The denial of a command that could not reach a host; which one may not be known."""
    what = f"`{host}`" if host else "the network"
    if profile.hosts is None:
        message = f"The sandbox kept the command from reaching {what}: it has no network."
    else:
        allowed = ", ".join(f"`{one}`" for one in profile.hosts[:10]) or "none"
        message = f"The sandbox kept the command from reaching {what}. Allowed hosts, through its proxy: {allowed}."
    asked = f"`{host}`" if host else "the host it needs"
    return Denial(
        "network", host, message, f"Do without the network, or ask the user to allow {asked} in {HOSTS_SETTING}."
    )


def _bounds(exit_code: int, text: str, profile: Profile) -> Denial | None:
    bounds = profile.bounds
    if _FORK.search(text) and bounds.processes is not None:
        return processes_denial(profile)
    if _NO_MEMORY.search(text) and bounds.memory is not None:
        return memory_denial(profile, f"ran out of memory: one process may use at most {size_words(bounds.memory)}")
    if bounds.file_size is not None and (_TOO_LARGE.search(text) or exit_code in (153, -25)):
        if profile.layers and bounds.layer < bounds.file_size:
            return too_large_layer(bounds.layer)
        message = f"{profile.who} was kept from writing a file of more than {size_words(bounds.file_size)}."
        return Denial(
            "file size",
            "",
            message,
            f"Write less, or split it into several files. {_sets(profile, 'file_size')}".rstrip(),
        )
    if _BAD_CALL.search(text) or exit_code in (159, -31):
        message = "The sandbox ended the command because it made a system call of another machine's kind."
        return Denial("system call", "", message, "Use programs that are built for this machine.")
    return None


def processes_denial(profile: Profile) -> Denial:
    """The denial of a box that could not start another process."""
    message = f"The sandbox allows at most {profile.bounds.processes or 0:,} processes and threads at once."
    do = "Run fewer at once, for example with a lower number of jobs."
    return Denial("processes", "", message, f"{do} {_sets(profile, 'processes')}".rstrip())


def memory_denial(profile: Profile, what: str) -> Denial:
    """The denial of a box that used too much memory; `what` says how much that is."""
    do = "Use less memory at once, for example with fewer jobs."
    return Denial("memory", "", f"{profile.who} {what}.", f"{do} {_sets(profile, 'memory')}".rstrip())


def too_large_layer(bound: int) -> Denial:
    """The denial of a look box that wrote more than its layers may hold."""
    return Denial(
        "layer size",
        "",
        f"The command was ended: it wrote more than {bound:,} bytes to the workspace without approval.",
        "Write less, or ask the user to approve the command before it runs.",
    )


def _sets(profile: Profile, name: str) -> str:
    """Where the user sets a limit on commands."""
    return f"`shell.{name}` in the user's settings sets the limit." if profile.home is None else ""


def _shown(whole: str, roots: list[str]) -> str:
    """A path of the workspace as the model knows it."""
    for root in roots:
        if whole.startswith(root + "/"):
            return whole[len(root) + 1 :]
    return whole
