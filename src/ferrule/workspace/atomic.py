"""Whole or not at all, one writer at a time: a kill leaves the old file or the new one, never a mixture."""

from __future__ import annotations

import json
import os
import stat
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ferrule.core.errors import ErrorKind
from ferrule.core.files import (
    NOT_ALLOWED,
    Attributes,
    discard,
    extended_attributes,
    take_place,
    unfinished_name,
    write_new,
)
from ferrule.core.guarded_names import CONFIGS
from ferrule.core.phrases import advice, phrase
from ferrule.pipeline.threads import seen_through
from ferrule.workspace.confined import LeadsOut, open_beneath
from ferrule.workspace.problems import PathError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import BinaryIO

    from ferrule.workspace.paths import Paths, Place


_SECONDS_FOR_LOCK = 1.0
_guard = threading.Lock()
_locks: WeakValueDictionary[Path, _FileLock] = WeakValueDictionary()


class _FileLock:
    """A lock that can be kept in a table that forgets what nobody uses."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()


@contextmanager
def writing(*paths: Path) -> Generator[None]:
    """Be the only writer of these files in this process. Always taken in one order, so that nobody waits in a ring."""
    with seen_through(), ExitStack() as taken:
        with _guard:
            held = [_locks.setdefault(path, _FileLock()) for path in sorted(set(paths))]
        for one in held:
            taken.enter_context(one.lock)
        yield


_together = threading.local()


@contextmanager
def synced_together() -> Generator[None]:
    """Wait for the disk once, before and after, and not for each of many files in between.

    A kill still leaves every file old or new. After a power cut some may be lost that were being put back, so this is
    only for what can be done again from the store.
    """
    os.sync()
    _together.on = True
    try:
        yield
    finally:
        _together.on = False
        os.sync()


def sync(opened: int) -> None:
    """Wait until a file or folder is on the disk, unless that is done for many at once."""
    if _syncs():
        os.fsync(opened)


def _syncs() -> bool:
    return not getattr(_together, "on", False)


def write_whole(
    paths: Paths,
    place: Place,
    data: bytes | BinaryIO,
    *,
    mode: int | None = None,
    through_hard_links: bool = False,
    over_link: bool = False,
    check: Callable[[], bool] | None = None,
) -> bool:
    """Put `data` at a place; True when the file is new. Folders on the way are made.

    Of git's settings, `check` says whether they are still what shall be replaced, once nobody else can write them.

    The mode, owner and extended attributes of an existing file stay, unless `mode` says otherwise. An open file is
    copied with the time of its last change. `over_link` takes the place of a link that stands there.
    """
    with _folder_of(paths, place) as folder:
        temporary, is_new = _write_beside(place, folder, data, mode, through_hard_links, over_link)
        _take_place(place, temporary, folder, check)
    return is_new


def stage_whole(paths: Paths, place: Place, data: bytes, *, mode: int | None, through_hard_links: bool) -> str:
    """Write what a place shall hold beside it; gives the name, for `put_staged` or `drop_staged`."""
    with _folder_of(paths, place) as folder:
        return _write_beside(place, folder, data, mode, through_hard_links, over_link=False)[0]


def put_staged(paths: Paths, place: Place, temporary: str) -> None:
    """Let what was staged take its place."""
    with _folder_of(paths, place, make=False) as folder:
        _take_place(place, temporary, folder)


def drop_staged(paths: Paths, place: Place, temporary: str) -> None:
    """Forget what was staged; it may be gone."""
    with suppress(PathError), _folder_of(paths, place, make=False) as folder:
        discard(temporary, folder)


def _write_beside(
    place: Place, folder: int, data: bytes | BinaryIO, mode: int | None, through_hard_links: bool, over_link: bool
) -> tuple[str, bool]:
    """A file beside a place with its attributes, by its name; and whether there is nothing at the place yet."""
    before = _attributes(place, folder, through_hard_links=through_hard_links, over_link=over_link)

    def finish(opened: int) -> None:
        if before is not None:
            try:
                before.give(opened, mode)
            except PermissionError:
                raise PathError(
                    "owner",
                    phrase("The file belongs to another user, and its owner would change."),
                    kind=ErrorKind.PERMISSION,
                ) from None
        elif mode is not None:
            os.fchmod(opened, mode)
        if not isinstance(data, bytes):
            found = os.fstat(data.fileno())
            os.utime(opened, ns=(found.st_atime_ns, found.st_mtime_ns))

    temporary = unfinished_name()
    # A new file gets its mode from the person's umask, which only the kernel knows for sure.
    private = 0o666 if before is None and mode is None else 0o600
    write_new(temporary, data, private, folder=folder, finish=finish, durable=_syncs())
    return temporary, before is None


def _take_place(place: Place, temporary: str, folder: int, check: Callable[[], bool] | None = None) -> None:
    name = place.path.name
    try:
        if name not in CONFIGS or not os.path.exists(f"{place.path.parent}/HEAD"):  # noqa: PTH110 - of every file
            take_place(temporary, name, folder=folder, durable=_syncs())
            return
        # As git does it: the new settings are the lock, and replacing the old ones lets go of it. A kill in between
        # leaves two names of what was written, by which `drop_lock` knows a lock that nobody holds.
        lock, end = f"{name}.lock", monotonic() + _SECONDS_FOR_LOCK
        while not _linked(temporary, lock, folder):
            if monotonic() > end:
                raise PathError(
                    "locked",
                    phrase("git is changing `{place}`, or was stopped while it did: `{lock}` is there.",
                           place=place, lock=lock),
                    suggestion=advice("Try again. If git is not running, ask the user to remove that file.",
                                      "Try again. If git is not running, remove that file."),
                )  # fmt: skip
            sleep(0.02)
        try:
            if check is not None and not check():
                raise PathError("changed", phrase("`{place}` was changed meanwhile, and was not written.", place=place))
        except BaseException:
            discard(lock, folder)
            raise
        take_place(lock, name, folder=folder, durable=_syncs())
    finally:
        discard(temporary, folder)


def _linked(temporary: str, lock: str, folder: int) -> bool:
    try:
        os.link(temporary, lock, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        try:
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder))
        except FileExistsError:
            return False
        take_place(temporary, lock, folder=folder, durable=False)
    return True


def drop_lock(unfinished: str, folder: int) -> None:
    """Remove the lock of git's settings that is the same file as what a killed write left."""
    number = os.stat(unfinished, dir_fd=folder, follow_symlinks=False).st_ino
    for name in CONFIGS:
        with suppress(FileNotFoundError):
            if os.stat(f"{name}.lock", dir_fd=folder, follow_symlinks=False).st_ino == number:
                os.unlink(f"{name}.lock", dir_fd=folder)


def remove_file(paths: Paths, place: Place) -> None:
    """Delete a file, inside its root and nowhere else."""
    with _folder_of(paths, place, make=False) as folder:
        os.unlink(place.path.name, dir_fd=folder)
        sync(folder)


@contextmanager
def _folder_of(paths: Paths, place: Place, *, make: bool = True) -> Generator[int]:
    """The folder a file lies in, open for the length of a block whose failures are told as the file's."""
    folder = _open_folder(paths, place, make=make)
    try:
        yield folder
    except OSError as error:
        raise _failed(place, error) from None
    finally:
        os.close(folder)


def _open_folder(paths: Paths, place: Place, *, make: bool = True) -> int:
    """The folder a file lies in, open and confined; made part by part where it is missing."""
    here = os.dup(place.root.descriptor)
    try:
        for part in Path(place.inner).parts[:-1]:
            try:
                inner = open_beneath(here, part, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                if not make:
                    raise
                # Someone else may be quicker, or a link to nowhere stand there: opening it tells.
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
                inner = open_beneath(here, part, os.O_RDONLY | os.O_DIRECTORY)
            os.close(here)
            here = inner
    except LeadsOut:
        os.close(here)
        raise paths.outside(place.name) from None
    except NotADirectoryError:
        os.close(here)
        raise PathError(
            "folder", phrase("`{place}` cannot be written: a file is where a folder is needed.", place=place)
        ) from None
    except OSError as error:
        os.close(here)
        raise _failed(place, error) from None
    return here


def _attributes(place: Place, folder: int, *, through_hard_links: bool, over_link: bool) -> Attributes | None:
    try:
        found = os.stat(place.path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode) and over_link:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise PathError("changed", phrase("`{place}` has become a link, and was not written.", place=place))
    if not stat.S_ISREG(found.st_mode):
        raise PathError("special", phrase("`{place}` is not a regular file, and was not written.", place=place))
    if found.st_nlink > 1 and not through_hard_links:
        raise has_other_names(str(place), found.st_nlink)
    return Attributes.of(place.path.name, found, folder)


def has_other_names(place: str, count: int) -> PathError:
    """A file with hard links is not changed."""
    return PathError(
        "hard_link",
        phrase(
            "`{place}` has {count} names (hard links), and the others may lie outside the workspace.",
            place=place,
            count=count,
        ),
        kind=ErrorKind.PERMISSION,
        suggestion=advice(
            "Change a copy of it, or ask the user to allow it (setting `files.hard_links`).",
            "Change a copy of it, or allow it (setting `files.hard_links`).",
        ),
    )


def attributes_of(opened: int) -> str:
    """The owner and the extended attributes of an open file, in a form that can be kept."""
    found = os.fstat(opened)
    extended = {key: value.hex() for key, value in extended_attributes(opened)}
    return json.dumps([found.st_uid, found.st_gid, extended], sort_keys=True)


def set_attributes(opened: int, kept: str) -> None:
    """Give an open file the owner and the extended attributes it had, as far as this user may."""
    owner, group, extended = json.loads(kept)
    found = os.fstat(opened)
    with suppress(PermissionError):
        if (found.st_uid, found.st_gid) != (owner, group):
            os.fchown(opened, owner, group)  # which takes rights away from a program, so it comes first
    now = dict(extended_attributes(opened))
    wanted = {key: bytes.fromhex(value) for key, value in extended.items()}
    for key in {**now, **wanted}:
        try:
            if key not in wanted:
                os.removexattr(opened, key)
            elif now.get(key) != wanted[key]:
                os.setxattr(opened, key, wanted[key])
        except OSError as error:
            if error.errno not in NOT_ALLOWED:
                raise


def _failed(place: Place, error: OSError) -> PathError:
    why = (error.strerror or type(error).__name__).lower()
    kind = ErrorKind.PERMISSION if isinstance(error, PermissionError) else ErrorKind.EXECUTION
    return PathError(
        "failed",
        phrase("`{place}` could not be written: {why}. It is as it was before.", place=place, why=why),
        kind=kind,
    )
