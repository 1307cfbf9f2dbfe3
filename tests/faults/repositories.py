"""Repositories of many kinds in a workspace, and all that git knows of them at one moment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath

from tests.faults.bench import Tree, tree

_CLOCK = count(1_700_000_000)
_IDENTITY = ("AUTHOR_NAME", "COMMITTER_NAME", "AUTHOR_EMAIL", "COMMITTER_EMAIL")
_UNUSABLE = "not a repository"
_REMADE = frozenset({"refs", "packs", "commit-graph", "multi-pack-index", "gc.pid", "gc.log", "COMMIT_EDITMSG"})
"""Files that git writes again by itself."""


@dataclass(frozen=True)
class Target:
    """Where a command works: how git is called there, its git directory, and where its working files begin."""

    git: str = "git"
    folder: str = ".git"
    files: str = ""


@dataclass(frozen=True)
class Kind:
    """One way to have a repository in a workspace."""

    script: str = ""
    """Runs in the workspace after the repository was made."""
    target: Target = Target()
    others: tuple[Target, ...] = ()
    form: str = "sha1"
    commands: tuple[str, ...] = ()
    """What is worth doing in this kind alone."""
    deletions: tuple[str, ...] = ()


_BEGIN = """
{git} init -q -b main --object-format={form}
for pair in user.name=User user.email=user@example.com gc.auto=0 maintenance.auto=false protocol.file.allow=always; do
  {git} config "${{pair%%=*}}" "${{pair#*=}}"
done
mkdir -p dir
printf 'build/\\n{hidden}' > .gitignore
echo one > f.txt; echo a > a.txt; echo b > dir/b.txt
{git} add -A; {git} commit -qm first
echo two >> f.txt; {git} commit -qam second
{git} checkout -qb old HEAD~1; echo old > old.txt; {git} add old.txt; {git} commit -qm 'on old'
{git} checkout -qb topic/one; echo topic > topic.txt; {git} add topic.txt; {git} commit -qm 'on a topic'
{git} checkout -q main
{git} tag -am 'a version' v1 old; {git} tag light
echo stashed >> a.txt; {git} stash -q
echo stashed >> dir/b.txt; {git} stash -q
"""
_WORKTREE, _SUBMODULE = (
    Target("git -C wt", ".git/worktrees/wt", "wt/"),
    Target("git -C sub", ".git/modules/sub", "sub/"),
)
_SHARED = Target("git -C shared", "shared/.git", "shared/")
_HOOK = """
cat > .git/hooks/{name} <<'EOF'
#!/bin/sh
{body}
EOF
chmod +x .git/hooks/{name}
"""
_USER_CONFIG = "git -C {0} config user.name User; git -C {0} config user.email user@example.com"

KINDS: dict[str, Kind] = {
    "plain": Kind(),
    "packed refs": Kind("git pack-refs --all; git repack -adq", deletions=("rm .git/packed-refs",)),
    "a detached HEAD": Kind("git checkout -q --detach; echo detached >> f.txt; git commit -qam detached"),
    "sha256": Kind(form="sha256"),
    "hooks": Kind(
        _HOOK.format(name="pre-commit", body="echo formatted >> formatted.txt; git add formatted.txt")
        + _HOOK.format(name="post-commit", body="git rev-parse HEAD >> hooked.log; git tag -f hooked")
        + _HOOK.format(name="post-checkout", body="mkdir -p checked; echo checkout >> checked/log.txt"),
        deletions=("rm -rf .git/hooks",),
    ),
    "large files": Kind(
        "mkdir -p .git/lfs/objects/aa/bb; echo large > .git/lfs/objects/aa/bb/aabb; echo 'oid sha256:aabb' > f.bin; "
        "git add f.bin; git commit -qm 'a large file'",
        commands=(
            "mkdir -p .git/lfs/objects/cc; head -c 70000 /dev/zero > .git/lfs/objects/cc/{n}",
            "echo {n} > .git/lfs/objects/aa/bb/{n}; echo 'oid sha256:{n}' > f.bin; git commit -qam 'large {n}'",
        ),
        deletions=("rm -rf .git/lfs", "rm .git/lfs/objects/aa/bb/aabb"),
    ),
    "a sparse checkout": Kind(
        "git sparse-checkout set dir",
        commands=("git sparse-checkout set dir src", "git sparse-checkout disable", "git sparse-checkout set src"),
    ),
    "worktrees": Kind(
        "git worktree add -q wt old; git worktree add -q --detach far/wt2 topic/one",
        others=(_WORKTREE,),
        commands=("git worktree add -q -b w{n} wt-{n}", "git -C wt checkout -q --detach; git -C wt commit -qm {n}"),
        deletions=("git worktree remove --force wt", "rm -rf .git/worktrees", "rm -rf wt; git worktree prune"),
    ),
    "submodules": Kind(
        "git init -q -b main lib; " + _USER_CONFIG.format("lib") + "; echo lib > lib/lib.txt; git -C lib add -A; "
        "git -C lib commit -qm lib; git -c protocol.file.allow=always submodule --quiet add ./lib sub; "
        "git add -A . 2>/dev/null; git commit -qm 'with a submodule'; git -C sub branch kept; "
        + _USER_CONFIG.format("sub"),
        others=(_SUBMODULE, Target("git -C lib", "lib/.git", "lib/")),
        deletions=(
            "git submodule --quiet deinit -f sub; rm -rf .git/modules/sub", "rm -rf lib/.git",
            "git -C sub branch -D kept",
        ),
    ),
    "a bare repository": Kind(
        "git clone -q --bare . origin.git; git remote add origin ./origin.git; git fetch -q origin",
        commands=("git push -q origin HEAD:refs/heads/p{n}", "git push -qf origin old:main", "git fetch -q origin"),
        deletions=(
            "rm -rf origin.git", "git push -q origin :old :v1", "git -C origin.git branch -D topic/one",
            "git -C origin.git update-ref -d refs/heads/old; git -C origin.git gc -q --prune=now",
            "git remote remove origin",
        ),
    ),
    "a git directory elsewhere": Kind(
        target=Target("git --git-dir=meta --work-tree=.", "meta"),
        deletions=("rm -rf meta", "find meta -delete"),
    ),
    "alternates": Kind(
        "git clone -q --shared . shared; " + _USER_CONFIG.format("shared"),
        others=(_SHARED,),
        deletions=("rm -rf shared/.git", "rm shared/.git/objects/info/alternates"),
    ),
}  # fmt: skip


def make(workspace: Path, kind: Kind) -> None:
    """Make a repository of this kind from the files of a workspace."""
    target = kind.target
    hidden = "" if target.folder == ".git" else f"{target.folder}/\\n"
    begin = _BEGIN.format(git=target.git, form=kind.form, hidden=hidden)
    done = run(workspace, f"set -e\n{begin}\n{kind.script}\n")
    assert done.returncode == 0, done.stderr


def run(workspace: Path, script: str) -> subprocess.CompletedProcess[str]:
    """What a user types, with no box around it."""
    seconds = f"{next(_CLOCK)} +0000"
    environment = {
        **os.environ, **{f"GIT_{one}": "user@example.com" for one in _IDENTITY},
        "GIT_AUTHOR_DATE": seconds, "GIT_COMMITTER_DATE": seconds, "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": "true", "LC_ALL": "C",
    }  # fmt: skip
    return subprocess.run(
        ["bash", "-c", script], cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace", timeout=120,
    )  # fmt: skip


@dataclass(frozen=True)
class Repository:
    """What git says of one git directory."""

    refs: Mapping[str, str]
    """HEAD too; only those that resolve."""
    named: frozenset[str]
    """The names of all refs, also of those whose object is missing."""
    logged: Mapping[str, frozenset[str]]
    """For each reflog the commits that it names and that are there."""
    objects: frozenset[str]
    """Names, kinds and sizes."""
    faults: frozenset[str]

    @property
    def usable(self) -> bool:
        return _UNUSABLE not in self.faults


@dataclass(frozen=True)
class State:
    """A workspace at one moment: its working files, all files of git directories, and what git says of each of them."""

    files: Tree
    git: Tree
    repositories: Mapping[str, Repository]

    @classmethod
    def of(cls, workspace: Path, known: Collection[str] = ()) -> State:
        """`known` are folders that were git directories before, however little of them is left."""
        inside = {f".git/{path}": entry for path, entry in tree(workspace / ".git").items()}
        everything = {**tree(workspace), **inside}
        if (workspace / ".git").is_dir():
            everything[".git"] = ("folder", 0, b"")
        repositories = {path for path in everything if _is_repository(path, everything)}
        roots = repositories | {path for path in known if everything.get(path, ("",))[0] == "folder"}
        files: Tree = {}
        git: Tree = {}
        for path, entry in everything.items():
            in_git = any(str(one) in roots for one in (PurePosixPath(path), *PurePosixPath(path).parents))
            (git if in_git else files)[path] = entry
        found = {path: _repository(workspace, path, git) for path in sorted(repositories)}
        return cls(files, git, {**dict.fromkeys(roots - repositories, _NOTHING), **found})

    def deleted_until(self, later: State) -> dict[str, tuple[str, int, bytes]]:
        """Files in git directories that are not there later."""
        return {path: entry for path, entry in self.git.items() if path not in later.git and entry[0] != "folder"}


_NOTHING = Repository({}, frozenset(), {}, frozenset(), frozenset({_UNUSABLE}))


def _is_repository(path: str, everything: Tree) -> bool:
    if f"{path}/HEAD" not in everything:
        return False
    return f"{path}/commondir" in everything or (f"{path}/objects" in everything and f"{path}/refs" in everything)


def _repository(workspace: Path, folder: str, git: Tree) -> Repository:
    mark = "=-=-="
    call = f"git --git-dir='{folder}'"
    done = run(
        workspace,
        f"{call} for-each-ref --format='%(refname) %(objectname)'; echo {mark}; {call} rev-parse -q --verify HEAD; "
        f"echo {mark}; {call} cat-file --batch-all-objects --batch-check --unordered; echo {mark}; "
        f"({call} fsck --strict --no-dangling --no-progress; {call} fsck --connectivity-only --no-dangling "
        f"--no-progress) 2>&1",
    )
    refs, head, objects, faults = (part.splitlines() for part in done.stdout.split(f"{mark}\n"))
    if any("not a git repository" in line for line in faults):
        return _NOTHING
    there = {line.split()[0] for line in objects}
    values = {name: value for name, value in (line.split() for line in refs) if value in there}
    if head and head[0] in there:
        values["HEAD"] = head[0]
    start = f"{folder}/logs/"
    logged = {
        path.removeprefix(start): frozenset(
            line.split()[1] for line in entry[2].decode(errors="replace").splitlines() if line.split()[1] in there
        )
        for path, entry in git.items()
        if path.startswith(start) and entry[0] == "file"
    }
    told = {line for line in faults if not line.startswith(("notice:", "Checking ", "dangling "))}
    named = frozenset(line.split()[0] for line in refs) | {"HEAD"}
    return Repository(values, named, logged, frozenset(objects), frozenset(told))


def remains(path: str) -> bool:
    """Whether a file of a git directory holds something that git would not write again, and no ref or object."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    if "objects" in parts and "lfs" not in parts:
        return name == "alternates"
    in_progress = name.startswith(("MERGE_", "AUTO_MERGE", "BISECT_", "CHERRY_PICK", "REVERT_")) or any(
        one in ("rebase-merge", "rebase-apply", "sequencer") for one in parts
    )
    of_refs = "refs" in parts or name in ("packed-refs", "logs") or (name == "HEAD" and "logs" in parts)
    return not (in_progress or of_refs or name in _REMADE or name.endswith(("_HEAD", ".lock", ".new")))
