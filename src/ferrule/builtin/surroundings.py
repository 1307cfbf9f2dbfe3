"""getCurrentDateTime, getCurrentDirectory and getGitInfo: when and where a session is."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired, TypedDict

from ferrule.core.access import NOTHING, READS_ANYTHING
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.result import noted
from ferrule.workspace.files import paths_of
from ferrule.workspace.git import look_at_repository


class FormattedDateTime(TypedDict):
    date: str
    time: str
    full: str


class CurrentDateTime(TypedDict):
    datetime: str
    timestamp: int
    timezone: str
    weekday: str
    formatted: FormattedDateTime


@tool(
    name="getCurrentDateTime",
    display_name="Current date and time",
    kind="readonly",
    may_block=False,
    category="system",
    tags=("assistant", "time"),
    doing="checking the time",
    touches=NOTHING,
    display=lambda now: now["formatted"]["full"],
)
async def get_current_date_time() -> CurrentDateTime:
    """Get the current date and time of this machine.

    Use this whenever the answer depends on today's date or the time of day, instead of guessing.

    Usage notes:
        - `datetime` is ISO 8601 with the offset from UTC; `timestamp` is in seconds since 1970-01-01 UTC.

    Examples:
        - what time is it, and what day is today: {}
    """
    now = datetime.now().astimezone()
    date, time = now.strftime("%Y-%m-%d"), now.strftime("%H:%M:%S")
    zone = now.tzname() or "UTC"
    return {
        "datetime": now.isoformat(timespec="seconds"),
        "timestamp": int(now.timestamp()),
        "timezone": zone,
        "weekday": now.strftime("%A"),
        "formatted": {"date": date, "time": time, "full": f"{date} {time}"},
    }


# getCurrentDirectory: where relative paths start.


class CurrentDirectory(TypedDict):
    path: str
    basename: str


@tool(
    name="getCurrentDirectory",
    display_name="Current directory",
    kind="readonly",
    may_block=False,
    category="files",
    tags=("assistant", "files"),
    doing="checking the current folder",
    touches=NOTHING,
    display=lambda here: here["path"],
)
async def get_current_directory(context: ToolContext) -> CurrentDirectory:
    """Get the directory that relative paths start from.

    Use this to learn where you are before naming files by relative paths.

    Examples:
        - which directory is this: {}
    """
    directory = context.working_directory
    return {"path": str(directory), "basename": directory.name}


# getGitInfo: the state of the git repository, without running anything it names.


_MOST = 500


class GitStatus(TypedDict):
    modified: list[str]
    added: list[str]
    deleted: list[str]


class GitInfo(TypedDict):
    isRepo: bool
    branch: str | None
    commit: str | None
    remote: str | None
    status: GitStatus
    notes: NotRequired[list[str]]


def _summary(info: GitInfo) -> str:
    if not info["isRepo"]:
        return "not a git repository"
    changes = sum(len(info["status"][kind]) for kind in ("modified", "added", "deleted"))
    where = info["branch"] or f"detached at {(info['commit'] or '')[:10]}"
    return f"{where}, {changes:,} {'change' if changes == 1 else 'changes'}"


@tool(
    name="getGitInfo",
    display_name="Git state",
    kind="readonly",
    may_block=False,
    category="git",
    tags=("assistant", "git"),
    doing="checking git",
    timeout=60,
    touches=READS_ANYTHING,
    display=_summary,
)
async def get_git_info(context: ToolContext) -> GitInfo:
    """Get the branch, commit, remote and changed files of the git repository you are in.

    Use this before you speak of the state of a repository. It never changes anything, and runs no hook, filter or
    other program that the repository names.

    Usage notes:
        - `branch` is null when HEAD is detached, `commit` is null before the first one. `added` holds new files, also
          those git does not track yet; a folder of only such files is named once, with `/`.
        - Each list holds at most 500 names; `notes` says what is left out. A repository that begins above the
          workspace does not count.

    Examples:
        - which git branch is this, and what has changed: {}
    """
    found = await look_at_repository(paths_of(context.session))
    if found is None:
        nothing: GitStatus = {"modified": [], "added": [], "deleted": []}
        return {"isRepo": False, "branch": None, "commit": None, "remote": None, "status": nothing}
    lists = {"modified": found.modified, "added": found.added, "deleted": found.deleted}
    long = {kind: len(names) for kind, names in lists.items() if len(names) > _MOST}
    modified, added, deleted = (names[:_MOST] for names in lists.values())
    info: GitInfo = {
        "isRepo": True,
        "branch": found.branch,
        "commit": found.commit,
        "remote": found.remote,
        "status": {"modified": modified, "added": added, "deleted": deleted},
    }
    return noted(info, [f"Only the first {_MOST} of {count:,} files in `{kind}`." for kind, count in long.items()])
