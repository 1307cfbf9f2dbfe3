"""Dangers beyond this machine's files: what others hold in repositories, clouds, clusters and databases, and code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase

from .parts import Guess, names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERPRETERS = names(
    """
        python pypy ipython perl ruby irb node nodejs deno bun php lua luajit tclsh wish expect Rscript R
        julia ghc runghc ghci scala groovy kotlin clojure erl elixir iex racket guile sbcl ocaml swift java
        jshell osascript pwsh powershell gdb lldb ts-node tsx coffee octave bpython nu xonsh m4 gnuplot
    """
)
_INLINE = re.compile(r"-\w*[ceEpr]\w*|--(eval|print|execute|run)\b.*|-exec")
_DESTROYS_FILES = re.compile(
    r"rmtree|unlink|os\.remove|removedirs|rmdir|shutil\.move|\brm['\",\s]+-\w*[rf]|rmSync|rimraf|fs\.rm|FileUtils\.rm"
    r"|remove_dir_all|File\.delete|Remove-Item|mkfs|/dev/sd|shutdown|fork\s*\(?\)?\s*while"
    r"|while\s*\(?\s*(1|True|true)\)?\s*:?\s*(os\.)?fork"
)
_REACHES = re.compile(r"socket|urllib|requests\.|http\.|https?://|/dev/tcp|fetch\(|Net::HTTP|IO::Socket")
_DESTROYS_DATA = re.compile(
    r"\b(drop\s+\w+|truncate\s+|delete\s+from|dropdatabase|\.drop\(|alter\s+table\s+\S+\s+drop|flushall|flushdb"
    r"|copy\s.{1,200}\bprogram\b|load_file|into\s+outfile|deletemany|remove\(\{\}\)|shutdown|config\s+set)",
    re.IGNORECASE,
)
_REMOVES = re.compile(
    r"destroy|delete|delete-.*|terminate.*|rb|rm|purge.*|remove.*|drop|uninstall|rmi|prune|cancel.*|deregister.*"
    r"|detach.*|revoke.*|reset"
)
_LOSES = re.compile(r"rm|rmi|prune|kill|down|remove")
_HOST_ACCESS = re.compile(
    r"--privileged|--pid=host|--net(work)?=host|--ipc=host|--userns=host|--cap-add.*|--device.*"
    r"|--security-opt.*unconfined.*"
)
_WIDE_MOUNT = re.compile(
    r"(?:.*(?:source|src)=)?(/|/(etc|root|home|var|usr|boot|proc|sys|dev|var/run/docker\.sock|run/docker\.sock)[^:,]*|~"
    r"|\$HOME)([:,].*)?"
)
_STARTS_PROGRAM = re.compile(
    r"(alias|filter|credential|protocol|diff|merge|difftool|mergetool|gpg|pager|uploadpack)\..*|include.*|url\..*"
    r"|core\.(hookspath|sshcommand|fsmonitor|editor|pager|gitproxy|askpass|attributesfile|worktree)|sequence\.editor",
    re.IGNORECASE,
)

_SETS_PROGRAM = re.compile(r"alias\..*=\s*!|core\.(sshcommand|fsmonitor|hookspath|pager|editor)", re.IGNORECASE)


def code_dangers(arguments: list[str]) -> Iterator[str]:
    """What in the code that an interpreter is given destroys, takes rights or hands a shell to others."""
    code = " ".join(arguments)
    if not any(_INLINE.fullmatch(word) for word in arguments):
        return
    if any(isinstance(word, Guess) and word.startswith(("$(", "`")) for word in arguments):
        yield phrase("it runs text that is only known at run time")
    if _DESTROYS_FILES.search(code):
        yield phrase("the code that it is given removes or destroys things")
    elif re.search(r"\bset[ug]id\b", code):
        yield phrase("the code that it is given takes other rights")
    elif re.search(r"dup2|pty\.spawn|/bin/(ba)?sh", code) and _REACHES.search(code):
        yield phrase("the code that it is given hands a shell to another machine")


def _git(arguments: list[str]) -> Iterator[str]:
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env") else 1
        if arguments[at - 2] == "-c" and _SETS_PROGRAM.match("".join(arguments[at - 1 : at])):
            yield phrase("it sets a program that git starts by itself")
    verb, rest = (arguments[at], arguments[at + 1 :]) if at < len(arguments) else ("", [])
    letters = {letter for word in rest if re.match(r"-[^-]", word) for letter in word[1:]}
    words = set(rest)

    def given(*options: str) -> bool:
        names = [word.partition("=")[0] for word in rest if word.startswith("--")]
        return any(one in options or (len(one) > 4 and any(o.startswith(one) for o in options)) for one in names)

    if verb == "push":
        if (
            letters & {"f", "d"}
            or given("--force", "--force-with-lease", "--force-if-includes", "--mirror", "--delete", "--prune")
            or any(word.startswith(("+", ":")) for word in rest)
        ):
            yield phrase("it overwrites or removes what others have on the other side")
    elif verb == "reset" and given("--hard", "--merge", "--keep"):
        yield phrase("it throws away changes that are not committed")
    elif verb == "clean" and ("f" in letters or given("--force")) and not ("n" in letters or given("--dry-run")):
        yield phrase("it removes files that git does not know, beyond recovery")
    elif verb in ("checkout", "switch", "restore"):
        discards = "f" in letters or given("--force", "--discard-changes") or words & {".", "--", ":/"}
        if discards or (verb == "restore" and not given("--staged")):
            yield phrase("it throws away changes that are not committed")
    elif verb == "branch" and ("D" in letters or (given("--delete") and given("--force"))):
        yield phrase("it removes a branch even when nothing else holds its commits")
    elif (verb == "stash" and words & {"drop", "clear"}) or (verb == "reflog" and words & {"expire", "delete"}):
        yield phrase("it removes work that nothing else holds")
    elif verb in ("filter-branch", "filter-repo"):
        yield phrase("it rewrites the whole history")
    elif (verb == "gc" and given("--prune")) or verb == "prune":
        yield phrase("it removes objects beyond recovery")
    elif verb == "update-ref" and ("d" in letters or given("--delete")):
        yield phrase("it removes a branch or tag")
    elif verb == "config" and not given("--get", "--get-all", "--get-regexp", "--list", "--unset"):
        names = [word for word in rest if not word.startswith("-") and word not in ("set", "get", "list")]
        if len(names) > 1 and _STARTS_PROGRAM.fullmatch(names[0]):
            yield phrase("it sets a program that git starts by itself")
    if any(word.startswith("ext::") for word in rest):
        yield phrase("an `ext::` address runs a command")
    if given("--upload-pack", "--receive-pack") or (verb in ("clone", "ls-remote") and "u" in letters):
        yield phrase("it names the program to run on the other side")


def _docker(arguments: list[str]) -> Iterator[str]:
    joined = [f"{one}={two}" for one, two in zip(arguments, [*arguments[1:], ""], strict=True)]
    for word, both in zip(arguments, joined, strict=True):
        mount = both.partition("=")[2] if re.match(r"(-v|--volume|--mount)(=|$)", word) else word[2:]
        mount = word.partition("=")[2] if re.match(r"(-v|--volume|--mount)=", word) else mount
        if _HOST_ACCESS.fullmatch(word) or _HOST_ACCESS.fullmatch(both):
            yield phrase("it gives the container the rights of the whole machine")
        elif re.match(r"-v|--volume|--mount", word) and _WIDE_MOUNT.fullmatch(mount):
            yield phrase("it gives the container folders of the whole machine")
    verbs = [word for word in arguments if not word.startswith("-")]
    if any(_LOSES.fullmatch(verb) for verb in verbs[: 2 if verbs[:1] != ["compose"] else 4]) and "run" not in verbs[:1]:
        yield phrase("it removes containers, images or what they hold")


def _kubectl(arguments: list[str]) -> Iterator[str]:
    operands = [word for word in arguments if not word.startswith("-")]
    verbs = set(operands[:3])
    secret = any(re.match(r"secrets?\b", one, re.IGNORECASE) for word in operands[1:] for one in word.split(","))
    if verbs & {"delete", "drain", "replace", "scale", "cordon", "taint", "evict"}:
        yield phrase("it removes or stops what runs in the cluster")
    elif verbs & {"exec", "run", "debug", "attach", "cp"}:
        yield phrase("it runs commands in the cluster")
    elif secret:
        yield phrase("it shows secrets of the cluster")


def _cloud(arguments: list[str]) -> Iterator[str]:
    verbs = [word for word in arguments if not word.startswith("-")][:4]
    flags = ("-destroy", "--delete", "--destroy", "-auto-approve", "--auto-approve")
    if any(_REMOVES.fullmatch(verb.rpartition(":")[2]) for verb in verbs) or any(word in flags for word in arguments):
        yield phrase("it removes or changes what runs in the cloud, without a way back")


def _database(arguments: list[str]) -> Iterator[str]:
    if _DESTROYS_DATA.search(" ".join(arguments)):
        yield phrase("it destroys data in a database")


def _drops(arguments: list[str]) -> Iterator[str]:
    yield phrase("it destroys data in a database")


def _packages(arguments: list[str]) -> Iterator[str]:
    """Package managers of the system: all but looking changes the machine."""
    verbs = [word for word in arguments if not word.startswith("-")]
    looks = names(
        """
            list show search policy depends rdepends showpkg info leaves deps outdated help doctor config
        """
    )
    if arguments and (
        not verbs or verbs[0] not in looks or any(re.match(r"-[oc]\b|--(option|config)", one) for one in arguments)
    ):
        yield phrase("it changes what is installed on the machine")


def _dpkg(arguments: list[str]) -> Iterator[str]:
    looks = (
        r"-[lLsSpWf].*|-q[ailfcdRp]*|--(list|listfiles|status|search|get-selections|print-.*|show.*|verify|last|info)"
    )
    if not arguments or not re.fullmatch(looks, arguments[0]):
        yield phrase("it changes what is installed on the machine")


def _uninstalls(arguments: list[str]) -> Iterator[str]:
    if "uninstall" in [word for word in arguments if not word.startswith("-")][:2]:
        yield phrase("it removes packages")


def _publishes(arguments: list[str]) -> Iterator[str]:
    verbs = [word for word in arguments if not word.startswith("-")][:1]
    if verbs and verbs[0] in ("publish", "unpublish", "deprecate", "yank", "push", "upload"):
        yield phrase("it publishes or removes a package for all the world")


def _netcat(arguments: list[str]) -> Iterator[str]:
    letters = {letter for word in arguments if re.match(r"-[^-]", word) for letter in word[1:]}
    if letters & {"e", "c"} or any(
        re.search(r"(?i)^(--(sh-)?)?(exec|system)|(exec|system):", word) for word in arguments
    ):
        yield phrase("it hands a shell to another machine")
    if "l" in letters or "--listen" in arguments:
        yield phrase("it opens a door for other machines")


def _ssh(arguments: list[str]) -> Iterator[str]:
    if any(re.match(r"(?i)(-o\s*)?\w*command\b", word) for word in arguments):
        yield phrase("it names a command for ssh to run here")


def _gh(arguments: list[str]) -> Iterator[str]:
    verbs = [word for word in arguments if not word.startswith("-")][:3]
    deletes = any(re.fullmatch(r"(?i)(-X|--method)?=?delete", word) for word in arguments)
    if deletes or {"delete", "archive", "remove", "transfer"} & set(verbs):
        yield phrase("it removes what others have on the other side")


ELSEWHERE: dict[str, Callable[[list[str]], Iterator[str]]] = {
    "git": _git,
    **dict.fromkeys(
        names(
            """
                docker podman nerdctl docker-compose podman-compose lxc lxd virsh multipass ctr crictl
                runc
            """
        ),
        _docker,
    ),
    **dict.fromkeys(["kubectl", "oc", "k3s"], _kubectl),
    **dict.fromkeys(
        names(
            """
                terraform tofu pulumi aws gcloud gsutil az doctl heroku fly flyctl vercel netlify
                eksctl ansible vagrant packer serverless sls cdk linode-cli ibmcloud oci s3cmd
                firebase wrangler supabase railway helm
            """
        ),
        _cloud,
    ),
    **dict.fromkeys(
        names(
            """
                psql mysql mariadb sqlite3 mongo mongosh redis-cli cqlsh sqlcmd clickhouse-client
                clickhouse influx duckdb mysqladmin etcdctl
            """
        ),
        _database,
    ),
    **dict.fromkeys(("dropdb", "dropuser"), _drops),
    **dict.fromkeys(
        names(
            """
                apt apt-get aptitude yum dnf zypper pacman apk brew port snap flatpak emerge choco
                winget scoop
            """
        ),
        _packages,
    ),
    **dict.fromkeys(("dpkg", "rpm"), _dpkg),
    **dict.fromkeys(("pip", "pip3", "conda", "mamba"), _uninstalls),
    **dict.fromkeys(("npm", "pnpm", "yarn", "cargo", "gem", "poetry", "uv", "twine"), _publishes),
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional", "socat"), _netcat),
    **dict.fromkeys(("ssh", "autossh", "scp", "sftp", "slogin"), _ssh),
    **dict.fromkeys(("gh", "glab", "hub"), _gh),
}
