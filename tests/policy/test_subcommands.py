"""Which words of a command say what it does."""

from __future__ import annotations

import pytest

from ferrule.policy.always import neighbour_of, prefix_of


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("git commit -m x", "git commit"),
        ("npm run test -- --watch", "npm run test"),
        ("npm install left-pad", "npm install"),
        ("cargo build --release", "cargo build"),
        ("docker compose up -d", "docker compose up"),
        ("uv pip install x", "uv pip install"),
        ("gh pr view 3", "gh pr view"),
        ("make test", "make test"),
        ("pytest -q tests", "pytest"),
        ("mkdir a", "mkdir"),
        ("./build.sh all", "./build.sh"),
        ("/usr/bin/git add .", "/usr/bin/git add"),
    ],
)
def test_the_words_that_a_rule_may_go_by(command: str, prefix: str):
    assert prefix_of(command.split()) == tuple(prefix.split())


@pytest.mark.parametrize(
    "command",
    [
        "python x.py", "python3.12 x.py", "/usr/bin/python3 -m x", "bash -c ls", "sh x", "sudo ls",
        "npx cowsay", "env X=1 ls", "node x.js", "find . -delete", "xargs rm", "ssh host ls", "rm x",
        "chmod 777 x", "curl example.org", "docker run x", "docker exec a b", "uv run x", "git -c a=b log",
        "git", "npm", "git push", "git config a b", "npm exec x", "sed -i x", "kubectl exec a",
        "docker compose exec a b", "bundle exec x", "make -f x", "eval ls", "source x", "tar xf y", "cp a b",
    ],
)  # fmt: skip
def test_an_interpreter_or_a_wrapper_is_never_granted_by_its_name(command: str):
    assert prefix_of(command.split()) is None


@pytest.mark.parametrize(
    ("prefix", "near"),
    [
        ("git commit", "git push"),
        ("git push", "git commit"),
        ("npm run test", "npm run build"),
        ("mkdir", "mkdir-other"),
    ],
)
def test_a_neighbour_is_not_covered(prefix: str, near: str):
    assert neighbour_of(prefix.split()) == near
