"""What a command cannot do in bubblewrap's sandbox, as root and as an ordinary user (S1, S2, P10)."""

# ruff: noqa: E501 - a text that is pinned stands on one line
from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.needs import needs
from tests.process.sandbox.box import Box, python_for_all

from ferrule.process.profile import Bounds, Profile
from ferrule.process.sandbox.bubblewrap import Bubblewrap
from ferrule.process.sandbox.denials import SandboxRefused


def test_the_workspace_is_writable_at_its_real_path(box: Box) -> None:
    done = box.run("pwd && mkdir -p a/b && echo hello >a/b/c")
    assert (done.code, done.out) == (0, f"{box.workspace}\n")
    assert (box.workspace / "a/b/c").read_text() == "hello\n"
    assert (box.workspace / "a/b/c").stat().st_uid == box.uid


def test_nothing_else_is(box: Box) -> None:
    done = box.run(
        f"for place in /usr /etc /var /opt {box.outside}; do : >$place/ferrule-made && echo $place; done; "
        "rm -f /etc/hostname; echo x >>/etc/passwd"
    )
    assert done.out == ""
    assert not (box.outside / "ferrule-made").exists()
    assert Path("/etc/hostname").exists()


def test_a_link_out_of_the_workspace_leads_to_what_is_read_only(box: Box) -> None:
    (box.outside / "file").write_text("before")
    (box.workspace / "link").symlink_to(box.outside)
    box.own()
    done = box.run("echo after >link/file")
    assert done.code != 0
    assert (box.outside / "file").read_text() == "before"


def test_the_home_and_its_secrets_are_not_there(box: Box) -> None:
    (box.home / ".ssh").mkdir()
    (box.home / ".ssh/id_ed25519").write_text("PRIVATE")
    (box.home / ".netrc").write_text("PRIVATE")
    box.own()
    done = box.run(f"cat ~/.ssh/id_ed25519 ~/.netrc; find {box.home} -type f; grep -r PRIVATE {box.home}; ls -A /root")
    assert "PRIVATE" not in done.out + done.err
    assert ".ssh" not in done.out


def test_the_home_can_be_used_and_forgets(box: Box) -> None:
    assert box.run("mkdir -p ~/.cache/x && echo 1 >~/.cache/x/y && cat ~/.cache/x/y").out == "1\n"
    assert not (box.home / ".cache").exists()


def test_in_a_workspace_that_is_the_home_secrets_are_covered(box: Box) -> None:
    (box.home / ".ssh").mkdir()
    (box.home / ".ssh/id_ed25519").write_text("PRIVATE")
    (box.home / ".netrc").write_text("PRIVATE")
    (box.home / "notes").write_text("mine")
    box.own()
    done = box.run("cat ~/.ssh/id_ed25519; ls ~/.ssh; cat ~/.netrc; cat ~/notes", writable=(box.home,), folder=box.home)
    assert done.out == "mine"


def test_tools_of_the_home_can_be_used_and_not_changed(box: Box) -> None:
    programs = box.home / ".local/bin"
    programs.mkdir(parents=True)
    (programs / "greet").write_text("#!/bin/sh\necho hello\n")
    (programs / "greet").chmod(0o755)
    box.own()
    done = box.run("greet; echo evil >>~/.local/bin/greet", variables={"PATH": f"{programs}:{box.path}"})
    assert done.out == "hello\n"
    assert "Read-only" in done.err


def test_git_knows_who_commits_and_no_token(box: Box) -> None:
    settings = '[user]\n\tname = Ada\n\temail = ada@example.org\n[url "https://token@host/"]\n\tinsteadOf = x\n'
    (box.home / ".gitconfig").write_text(settings)
    box.repository()
    done = box.run("git commit -q --allow-empty -m first && git log --format=%an%ae; cat ~/.gitconfig")
    assert done.out.startswith("Adaada@example.org\n")
    assert "token" not in done.out


def test_temporary_files_are_private(box: Box) -> None:
    beside = box.folder.parent / "beside"
    beside.write_text("x")
    done = box.run("ls -A /tmp /var/tmp; echo 1 >/tmp/mine && cat /tmp/mine")
    assert done.out == f"/tmp:\n{box.folder.parts[2]}\n\n/var/tmp:\n1\n"
    assert not Path("/tmp/mine").exists()


def test_a_place_for_temporary_files_that_is_not_shown_is_replaced(box: Box) -> None:
    elsewhere = box.outside / "scratch"
    elsewhere.mkdir()
    box.own()
    done = box.run('echo "$TMPDIR"; made=$(mktemp) && echo made', variables={"TMPDIR": str(elsewhere)})
    assert (done.code, done.out) == (0, "/tmp\nmade\n"), done.err
    inside = box.workspace / "scratch"
    inside.mkdir()
    box.own()
    assert box.run("mktemp", variables={"TMPDIR": str(inside)}).out.startswith(f"{inside}/")


def test_the_environment_holds_nothing_secret(box: Box) -> None:
    secrets = dict.fromkeys(
        ("OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "DB_PASS"), "hunter2"
    )
    done = box.run("env", variables=secrets | {"LC_TIME": "C", "TZ": "UTC"}, environment={"GIVEN": "on purpose"})
    assert "hunter2" not in done.out
    assert "LC_TIME=C" in done.out
    assert "GIVEN=on purpose" in done.out


def test_processes_outside_cannot_be_seen(box: Box) -> None:
    done = box.run("ls -d /proc/[0-9]* | wc -l; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; echo $PPID")
    assert int(done.out.splitlines()[0]) < 8
    assert str(os.getpid()) not in done.out.splitlines()
    assert "pytest" not in done.out


def test_no_capability_is_left(box: Box) -> None:
    done = box.run("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
    facts = dict(line.split(":\t") for line in done.out.splitlines())
    assert {facts[name] for name in facts if name.startswith("Cap")} == {"0" * 16}
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")


def test_there_is_no_network(box: Box) -> None:
    needs(python := python_for_all(), "a Python that every user can run")
    assert python
    here = socket.create_server(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0ferrule-test-{os.getpid()}")
    abstract.listen()
    code = f"""
import socket
def attempt(name, work):
    try: work(); print(name, "REACHED")
    except OSError as error: print(name, "refused")
attempt("tcp", lambda: socket.create_connection(("127.0.0.1", {here.getsockname()[1]}), 2))
attempt("outside", lambda: socket.create_connection(("1.1.1.1", 53), 2))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("1.1.1.1", 53)))
attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\\0ferrule-test-{os.getpid()}"))
attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
s = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname()); print("own loopback works")
"""
    with here, abstract:
        done = box.run_program([python, "-c", code])
    assert done.out.split("\n") == [
        *(f"{name} refused" for name in ("tcp", "outside", "udp", "abstract", "packet", "vsock")),
        "own loopback works",
        "",
    ]


def test_sockets_of_services_cannot_be_reached(box: Box) -> None:
    needs(python := python_for_all(), "a Python that every user can run")
    assert python
    service = socket.socket(socket.AF_UNIX)
    path = Path("/var/lib") / f"ferrule-test-{os.getpid()}.sock" if os.geteuid() == 0 else box.outside / "s.sock"
    service.bind(str(path))
    path.chmod(0o777)
    service.listen()
    try:
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        done = box.run_program([python, "-c", code])
    finally:
        service.close()
        path.unlink()
    assert done.code != 0
    assert "refused" in done.err or "denied" in done.err or "No such file" in done.err


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t tmpfs x /mnt", "mount --bind /tmp /mnt", "mount -o remount,rw /", "umount /tmp", "/usr/sbin/chroot /",
        "unshare -U", "unshare -m", "unshare -n", "unshare -Urm", "nsenter -t 1 -m",
    ],
)  # fmt: skip
def test_nothing_can_be_mounted_and_no_namespace_made(box: Box, attempt: str) -> None:
    assert box.run(f"{attempt} true 2>/dev/null && echo worked").out == ""


def test_hidden_places_cannot_be_read_or_uncovered(box: Box) -> None:
    secret = box.write(".env", "SECRET")
    box.write("private/deep/key", "SECRET")
    (box.workspace / "alias").symlink_to(".env")
    box.own()
    done = box.run(
        "cat .env alias private/deep/key; ls private; rm -rf private; rm -f .env; mv .env x; cp .env y; "
        "chmod 777 private .env; cat .env; cat private/deep/key; cat x y; git hash-object .env",
        hidden=(secret, box.workspace / "private"),
    )
    assert "SECRET" not in done.out + done.err
    assert secret.read_text() == "SECRET"
    assert (box.workspace / "private/deep/key").read_text() == "SECRET"


def test_a_hidden_place_that_does_not_exist_stays_so(box: Box) -> None:
    done = box.run("echo x >.env", hidden=(box.workspace / ".env",))
    assert not (box.workspace / ".env").exists()
    assert [denial.subject for denial in done.denials] == [".env"]


def test_only_devices_are_among_the_devices(box: Box) -> None:
    done = box.run(": >/dev/x; echo x >/dev/null && echo 1 >/dev/shm/y && cat /dev/shm/y; head -c1 /dev/zero | wc -c")
    assert done.out.split() == ["1", "1"]
    assert "/dev/x" in done.err


def test_a_fork_bomb_stays_inside(box: Box) -> None:
    mark = f"ferrule-bomb-{os.getpid()}-{box.uid}"
    script = "bomb() { bomb | bomb & }; bomb; exec sleep 1"  # which needs no room for another process
    done = box.run_program(["bash", "-c", f"exec -a {mark} bash -c '{script}'"], bounds=Bounds(processes=64))
    assert done.code == 0
    assert "Resource temporarily unavailable" in done.err
    assert _running(mark) == 0


def test_the_number_of_processes_is_that_of_the_sandbox_alone(box: Box) -> None:
    done = box.run(
        "for i in $(seq 40); do sleep 5 & done; jobs -p | wc -l; kill $(jobs -p)", bounds=Bounds(processes=60)
    )
    assert done.out == "40\n"


def test_a_file_cannot_grow_without_end(box: Box) -> None:
    done = box.run("head -c 10M /dev/zero >big", bounds=Bounds(file_size=1 << 20))
    assert done.code != 0
    assert (box.workspace / "big").stat().st_size == 1 << 20
    assert done.explained is not None
    assert done.explained.kind == "file size"


def test_open_files_are_bounded(box: Box) -> None:
    assert box.run("ulimit -n", bounds=Bounds(open_files=99)).out == "99\n"


def test_memory_is_bounded_when_asked_for(box: Box) -> None:
    needs(python := python_for_all(), "a Python that every user can run")
    done = box.run_program([str(python), "-c", "x = bytearray(500 << 20)"], bounds=Bounds(memory=100 << 20))
    assert "MemoryError" in done.err


EVERYDAY = [
    (
        "git",
        "git init -q r && cd r && git -c user.name=a -c user.email=b commit -q --allow-empty -m m && git log --format=%s",
        "m",
    ),
    ("python3", "python3 -m venv --without-pip v && v/bin/python -c 'import ssl, sqlite3; print(6 * 7)'", "42"),
    (
        "node",
        "node -e \"require('child_process').exec('echo child', (e, out) => console.log(out.trim()))\"",
        "child",
    ),
    ("npm", "npm init -y >/dev/null && npm run env 2>/dev/null | grep -c npm_package_name", "1"),
    (
        "gcc",
        "printf 'int main(void){return 0;}' >a.c && printf 'a: a.c\\n\\tgcc -o a a.c\\n' >Makefile && make -s && ./a && echo built",
        "built",
    ),
    (
        "sqlite3",
        "sqlite3 x.db 'pragma journal_mode=wal; create table a(b); insert into a values (7); select b from a'",
        "wal\n7",
    ),
    ("bash", "cat <(echo one) - <<<two; (sleep 0.01 & wait); ls /dev/fd >/dev/null && echo done", "one\ntwo\ndone"),
]


@pytest.mark.parametrize(
    ("script", "said"),
    [pytest.param(script, said, id=needed) for needed, script, said in EVERYDAY if shutil.which(needed, path=Box.path)],
)
def test_everyday_work_goes_on(box: Box, script: str, said: str) -> None:
    """With whatever of these programs this machine has."""
    done = box.run(script)
    assert (done.out.strip(), done.code) == (said, 0), done.err


def test_parallel_python_works(box: Box) -> None:
    needs(python := python_for_all(), "a Python that every user can run")
    code = (
        "from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\n"
        "with ProcessPoolExecutor(2) as p, ThreadPoolExecutor(2) as t:\n"
        "    print(list(p.map(abs, [-1, -2])), list(t.map(abs, [-3])))\n"
    )
    assert box.run_program([str(python), "-c", code]).out == "[1, 2] [3]\n"


def test_a_workspace_that_holds_the_system_is_refused(box: Box) -> None:
    def attempt() -> str:
        with pytest.raises(SandboxRefused) as refused:
            box.sandbox.prepare(Profile((Path("/"),), Path("/")), ["true"])
        return f"{refused.value.message} {refused.value.suggestion}"

    assert box.do(attempt) == snapshot(
        "The workspace contains the system itself, and the sandbox cannot make that writable. Ask the user to choose a folder of their own as the workspace."
    )


def test_a_bubblewrap_of_the_workspace_is_refused(box: Box) -> None:
    bwrap = box.write("bin/bwrap")
    with pytest.raises(SandboxRefused, match="is inside the workspace"):
        Bubblewrap(str(bwrap), by_descriptor=False).prepare(Profile((box.workspace,), box.workspace), ["true"])


def test_without_binding_by_descriptor_the_same_holds(box: Box) -> None:
    box.repository()
    box.sandbox = Bubblewrap("/usr/bin/bwrap", by_descriptor=False)
    done = box.run("echo x >.git/config || echo x >.git/hooks/pre-commit")
    assert done.err.count("Read-only file system") == 2


def test_descriptors_are_given_back(box: Box) -> None:
    box.repository()

    def count() -> tuple[int, int]:
        counts: list[int] = []
        for _ in range(2):  # what watches the folders stays open, once for the whole process
            for _ in range(5):
                box.sandbox.prepare(Profile((box.workspace,), box.workspace), ["true"]).close()
            counts.append(len(list(Path("/proc/self/fd").iterdir())))
        return counts[0], counts[1]

    before, after = box.do(count)
    assert before == after


def _until_killed(box: Box, work: object) -> None:
    import contextlib

    with contextlib.suppress(EOFError):  # it was killed, and gave no answer
        box.do(work)  # pyright: ignore[reportArgumentType]


def _running(mark: str) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                count += (entry / "cmdline").read_bytes().startswith(mark.encode())
            except OSError:
                continue
    return count


def _soon(fact: object, seconds: float = 20) -> bool:
    assert callable(fact)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if fact():
            return True
        time.sleep(0.01)
    return False


def test_no_descriptor_of_ours_is_open_inside(box: Box) -> None:
    """One to a guarded file would be a way around its lock."""
    box.repository()
    assert box.run("ls /proc/self/fd").out.split() == ["0", "1", "2", "3"]
    assert box.run("ls -l /proc/1/fd /proc/2/fd").out.count(str(box.workspace)) == 0


@pytest.mark.parametrize(
    "script",
    [
        "mkdir -p /tmp/d; i=0; while :; do i=$((i+1)); head -c 500000 /dev/zero >/tmp/d/f$i; sleep 0.01; done",
        "exec 3>/tmp/f; rm /tmp/f; head -c 9000000 /dev/zero >&3; sleep 60",
        "cd /tmp; for i in {1..50}; do n=$(printf %0200d 1); mkdir $n; cd $n; done; head -c 9m /dev/zero >f; sleep 60",
    ],
    ids=["many", "without a name", "deeper than a path is long"],
)
def test_temporary_files_that_grow_too_large_end_the_box_and_are_removed(box: Box, script: str) -> None:
    shared = box.folder / "shared"
    shared.mkdir(mode=0o777)
    box.own()
    done = box.run(script, temporary=shared, bounds=Bounds(temporary=5 << 20))
    assert done.code in (-9, 137)
    assert [(one.kind, one.message) for one in done.denials] == snapshot(
        [
            (
                "temporary size",
                "The command was ended and its temporary files were removed: they took more than 5,242,880 bytes.",
            )
        ]
    )
    assert list(shared.iterdir()) == []
    again = box.run("echo x >/tmp/x; cat /tmp/x", temporary=shared, bounds=Bounds(temporary=5 << 20))
    assert (again.out, again.denials) == ("x\n", ())
