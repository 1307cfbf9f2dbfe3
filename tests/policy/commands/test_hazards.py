"""Names that matter wherever they turn up."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.hazards import danger_of_writing, is_raw_device, is_secret, loads_code


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "LD_PRELOAD",
        "LD_ANYTHING",
        "BASH_ENV",
        "IFS",
        "GIT_SSH_COMMAND",
        "PYTHONPATH",
        "PAGER",
        "BASH_FUNC_ls%%",
        "NODE_OPTIONS",
    ],
)
def test_these_variables_make_programs_run_code(name: str):
    assert loads_code(name)


@pytest.mark.parametrize("name", ["FOO", "LANG", "LC_ALL", "TZ", "DEBUG", "COLUMNS", "CI"])
def test_these_variables_do_not(name: str):
    assert not loads_code(name)


@pytest.mark.parametrize(
    "path",
    [
        "/dev/sda",
        "/etc/passwd",
        "~/.bashrc",
        "/home/me/.ssh/authorized_keys",
        ".git/hooks/pre-commit",
        "a/.git/config",
        "/proc/sysrq-trigger",
        "~/.config/autostart/x",
        "/usr/bin/ls",
        "/",
        ".vscode/tasks.json",
        "/var/spool/cron/root",
    ],
)
def test_these_places_are_never_written_without_asking(path: str):
    assert danger_of_writing(path)


@pytest.mark.parametrize(
    "path",
    ["a.txt", "/tmp/x", "/dev/null", ".github/workflows/x.yml", "src/etc/a", "notes.ssh", "a/.gitignore", "/dev/shm/x"],
)
def test_ordinary_places_are_no_danger(path: str):
    assert danger_of_writing(path) == ""


def test_secrets_and_raw_devices_are_known():
    assert all(map(is_secret, ["~/.ssh/id_rsa", ".env", ".env.local", "/etc/shadow", "key.pem", "/proc/1/environ"]))
    assert not any(map(is_secret, ["README.md", "environment.py", "a.env.md"]))
    assert is_raw_device("/dev/nvme0n1")
    assert not is_raw_device("/dev/null")
