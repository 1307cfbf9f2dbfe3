"""getGitInfo: the state of the git repository, without running anything it names."""

from __future__ import annotations

from typing import TypedDict

from ferrule.core.access import READS_ANYTHING
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.workspace.files import paths_of
from ferrule.workspace.git import look_at_repository

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
    notes: list[str]


def _show(info: GitInfo) -> str:
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
    doing="looking at git",
    timeout=60,
    touches=READS_ANYTHING,
    display=_show,
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
        return {"isRepo": False, "branch": None, "commit": None, "remote": None, "status": nothing, "notes": []}
    lists = {"modified": found.modified, "added": found.added, "deleted": found.deleted}
    return {
        "isRepo": True,
        "branch": found.branch,
        "commit": found.commit,
        "remote": found.remote,
        "status": {
            "modified": found.modified[:_MOST],
            "added": found.added[:_MOST],
            "deleted": found.deleted[:_MOST],
        },
        "notes": [
            f"Only the first {_MOST} of {len(names):,} files in `{kind}`."
            for kind, names in lists.items()
            if len(names) > _MOST
        ],
    }
