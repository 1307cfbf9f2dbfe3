"""What Ferrule looks after unasked."""
# ruff: noqa: E501 - lists of names

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.policy.stand_in import invoke, on_command, policy, verdict

from ferrule import Session
from ferrule.builtin.edit import edit, write
from ferrule.builtin.read import read
from ferrule.policy.findings import roots_of
from ferrule.policy.restrictions import RuleRestrictions
from ferrule.policy.sensitive import Guarded


@pytest.mark.parametrize(
    "path", ["~/.ssh/id_rsa", "~/.aws/credentials", "~/.netrc", ".env", "sub/.env.local", "/etc/shadow"]
)
def test_reading_a_secret_asks_and_a_box_hides_it(session: Session, path: str):
    assert verdict(policy(), session, read, file_path=path) == "ask"
    roots = roots_of(session)
    hidden = RuleRestrictions(policy())
    real = os.path.realpath(session.workspace / Path(path).expanduser())
    assert hidden.hides(real, roots)
    assert hidden.hidden_among([real, f"{roots[0]}/other"], roots) == [real]


@pytest.mark.parametrize("path", ["/etc/passwd", "README.md", ".env.example", "src/environment.py"])
def test_reading_anything_else_does_not(session: Session, path: str):
    assert verdict(policy(), session, read, file_path=path) == "allow"
    assert not RuleRestrictions(policy()).hides(os.path.realpath(session.workspace / path), roots_of(session))


PRIVATE, PUBLIC = "-----BEGIN RSA PRIVATE KEY-----\nx\n", "-----BEGIN CERTIFICATE-----\nx\n"


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (".ENV", "A=1"), (".Env.Local", "A=1"), (".env.ci", "A=1"), ("deploy/prod.env", "DATABASE_URL=x"), (".netrc", ""),
        (".env~", "A=1"), (".env-prod", "A=1"), (".envrc", "\ufeff export DB_PWD=x"), ("config/master.key", "0f" * 16),
        ("sub/.pypirc", ""), (".npmrc", "//registry.example.org/:_authToken=x"), ("server.pem", PRIVATE),
        ("certs/SERVER.KEY", PRIVATE), ("id_work", "-----BEGIN OPENSSH PRIVATE KEY-----"), ("a.p12", "x"),
        ("credentials.json", '{"client_secret": "x"}'), ("my-service-account.json", '{"private_key": "x"}'),
        (".ssh/work", PRIVATE),
    ],
)  # fmt: skip
def test_a_secret_is_known_by_its_name_and_what_it_holds(session: Session, path: str, content: str):
    """S6: in whatever letters; a name that others have too counts with the content of a secret alone."""
    file = session.workspace / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    assert verdict(policy(), session, read, file_path=path) == "ask"
    real, roots = os.path.realpath(file), roots_of(session)
    rules = RuleRestrictions(policy())
    assert rules.hidden_among([real], roots) == [real]
    assert rules.held_back([real], roots[0], roots) == [True]
    folder, _, name = real.rpartition("/")
    assert rules.may_hide(folder, f"{name}/", roots) == [name]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (".env.example", "KEY=1"), (".env.sample", "KEY=1"), (".env.production.example", "KEY=1"), ("sample.env", "KEY=1"),
        ("build.env", "CC=gcc\nLEVEL=2\n"), (".npmrc", "engine-strict=true"), ("server.pem", PUBLIC), ("id_rsa.pub", "ssh-rsa"),
        ("tests/certs/server.key", PRIVATE), ("translation.key", "hello = world"), ("credentials.json", "{}"), ("id_card.py", ""),
        (".envoy.pem", PUBLIC), ("site.env", "AUTHOR=me\nBASE_URL=http://localhost:8000\n"), ("a.env", "key" * 300_000),
    ],
)  # fmt: skip
def test_examples_public_certificates_and_keys_of_tests_are_no_secrets(session: Session, path: str, content: str):
    file = session.workspace / path
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(content)
    assert verdict(policy(), session, read, file_path=path) == "allow"
    real, roots = os.path.realpath(file), roots_of(session)
    rules = RuleRestrictions(policy())
    assert rules.hidden_among([real], roots) == []
    assert rules.held_back([real], roots[0], roots) == [False]


def test_an_address_with_a_password_in_it_is_a_secret(session: Session):
    (session.workspace / "site.env").write_text("BASE_URL=https://me:word@example.com\n")
    assert verdict(policy(), session, read, file_path="site.env") == "ask"


def test_a_file_that_becomes_a_secret_is_hidden_from_the_next_command(session: Session):
    from ferrule.builtin.session_shells import look_profile

    key = session.workspace / "server.pem"
    key.write_text(PUBLIC)
    os.utime(session.workspace, ns=(0, 0))
    assert key not in look_profile(session, ()).hidden
    with key.open("r+") as file:
        file.write(PRIVATE)
    assert Path(os.path.realpath(key)) in look_profile(session, ()).hidden


def test_a_rule_about_the_path_lifts_the_question_and_a_tools_name_does_not(session: Session):
    assert verdict(policy(allow=["Read"]), session, read, file_path=".env") == "ask"
    assert verdict(policy(allow=["Read(.env)"]), session, read, file_path=".env") == "allow"
    (session.workspace / ".env").write_text("KEY=1")
    assert on_command(policy(allow=["Bash(cat *)"]), session, "cat .env") == "try"
    assert on_command(policy(allow=["Bash(cat *)", "Read(.env)"]), session, "cat .env") == "allow"


def test_a_link_to_a_secret_is_the_secret(session: Session):
    (session.workspace / ".env").write_text("KEY=1")
    (session.workspace / "notes").symlink_to(".env")
    assert on_command(policy(allow=["Bash(cat *)"]), session, "cat notes") == "try"
    assert verdict(policy(), session, read, file_path="notes") == "ask"


OBEYED = [
    ".git/hooks/pre-commit", ".git/config", ".git/modules/lib/hooks/post-checkout", ".git/worktrees/w/config.worktree",
    "sub/.git/info/attributes", ".gitmodules", ".husky/pre-push", ".vscode/tasks.json", "a/b/.idea/workspace.xml",
    ".cursor/rules/x.mdc", ".claude/agents/a.md", ".codex/config.toml", ".gemini/settings.json", "sub/.mcp.json",
    ".envrc", "sub/.envrc", ".bashrc", "home/.zshrc", ".Git/hooks/pre-commit", ".VSCode/tasks.json", "~/.profile",
    ".gitattributes", "sub/.pre-commit-config.yaml", "lefthook.yml", ".helix/languages.toml", "a/my.Code-Workspace",
    "crush.json", ".qwen/settings.json", ".amazonq/mcp.json", ".kilocode/mcp.json", ".trae/x", ".theia/tasks.json",
    ".continuerc.json", "pnpm-workspace.yaml", "NuGet.Config", "nuget.config", "sub/NUGET.CONFIG", "uv.toml",
    ".prototools", ".rtx.toml", ".sdkmanrc", "flake.nix", ".github/hooks/x.json", ".envrc.local", "mise.dev.toml",
    ".git/remotes/origin", ".git/branches/x", ".Rprofile", ".rprofile", "rust-toolchain.toml", ".direnv/x.rc",
    ".cargo/config.toml", ".npmrc", "sub/.yarnrc.yml", ".tool-versions", "mise.toml", ".devcontainer/devcontainer.json",
]  # fmt: skip


@pytest.mark.parametrize("mode", ["default", "accept-edits", "bypass"])
@pytest.mark.parametrize("path", OBEYED)
def test_what_other_programs_run_asks_in_every_mode_unless_a_rule_names_it(session: Session, path: str, mode: str):
    """S2, P4: a tool's name, `**` and the mode are no leave for what git, an editor, a shell or an agent obeys."""
    blanket = policy(mode=mode, allow=["*", "Write", "Edit(**)", "Edit(~/**)", "Bash"], dangerous="allow")
    assert verdict(blanket, session, write, file_path=path, content="x") == "ask"
    held = "ask" if mode == "bypass" else "try"
    assert on_command(blanket, session, f"echo x > {path}") == held
    assert on_command(blanket, session, f"cp evil {path}") == held
    named = policy(mode=mode, allow=["Edit(**)", f"Edit({path})"])
    assert verdict(named, session, write, file_path=path, content="x") == "allow"
    assert verdict(policy(mode="dont-ask"), session, write, file_path=path, content="x") == "deny"


@pytest.mark.parametrize(
    "path",
    [
        "src/config",
        "git/hooks.py",
        "docs/vscode/tasks.json",
        "envrc",
        ".gitignore",
        ".env.example",
        "conftest.py",
        "package.json",
        "Makefile",
        ".github/ISSUE_TEMPLATE.md",
        "Cargo.toml",
        "docs/workflows/ci.yml",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".travis.yml",
        "appveyor.yml",
        "Jenkinsfile",
        "flake.py",
        "mise.md",
        "nuget.config.md",
        ".git/refs/remotes/origin/main",
    ],
)
def test_what_only_looks_alike_is_written_as_the_mode_says(session: Session, path: str):
    for mode in ("accept-edits", "bypass"):
        assert verdict(policy(mode=mode), session, write, file_path=path, content="x") == "allow"


def test_the_question_says_why_it_is_asked(session: Session):
    decision = policy(mode="bypass").decide(invoke(write, session, file_path=".envrc", content="x"), session)
    assert decision.reason == "`.envrc` contains what other programs run or obey, so writing it asks first"


@pytest.mark.parametrize("mode", ["default", "accept-edits", "bypass", "dont-ask"])
@pytest.mark.parametrize(
    "path", ["ferrule.toml", "sub/ferrule.toml", ".claude/settings.json", ".claude/settings.local.json"]
)
def test_settings_are_never_written_by_a_tool_or_a_command(session: Session, mode: str, path: str):
    """An agent must not approve itself."""
    rules = policy(mode=mode, allow=["*", "Edit(**)", "Bash"], dangerous="allow")
    for command in (f"echo x > {path}", f"rm {path}", f"mv {path} y", f"cp evil {path}", f"touch ./x/../{path}"):
        assert on_command(rules, session, command) == "deny", command
    arguments = {"file_path": path, "old_string": "a", "new_string": "b"}
    assert verdict(rules, session, edit, **arguments) == "deny"


def test_a_folder_that_holds_the_settings_is_not_removed_or_moved(session: Session):
    rules = policy(allow=["Bash"], dangerous="allow")
    (session.workspace / ".claude").mkdir()
    assert on_command(rules, session, "rm -r .claude") == "try"
    (session.workspace / ".claude" / "settings.json").write_text("{}")
    assert on_command(rules, session, "rm -r .claude") == "deny"
    assert on_command(rules, session, "mv .claude elsewhere") == "deny"
    assert on_command(rules, session, "touch .claude") == "try"


def test_stars_are_filled_in_as_the_shell_would(session: Session):
    (session.workspace / "ferrule.toml").write_text("")
    assert on_command(policy(allow=["Bash"]), session, "rm *.toml") == "deny"
    assert on_command(policy(allow=["Bash"]), session, "rm *.txt") == "allow"


def test_the_persons_own_file_is_kept_wherever_it_lies(session: Session, tmp_path: Path):
    mine = tmp_path / "my [rules].conf"
    rules = policy(own_files=[mine], mode="bypass")
    assert on_command(rules, session, f"echo x > '{mine}'") == "deny"
    mine.write_text("")
    assert on_command(rules, session, f"rm -r '{tmp_path}'") == "deny"


def test_the_rule_is_named():
    found = Guarded().asking("/ws/.env", ("/ws",), write=False)
    assert found is not None
    assert found.text == "Read(.env)"


def test_a_box_hides_what_rules_deny_or_ask_about_and_opens_what_they_allow(session: Session):
    roots = roots_of(session)
    root = roots[0]
    listing = [f"{root}/{name}" for name in (".env", "a.py", "deep/.env", "keys/a", "keys/b/c", "notes/x", "src/.env")]

    def hidden(**lists: object) -> list[str]:
        found = RuleRestrictions(policy(**lists)).hidden_among(listing, roots)
        return [path.removeprefix(f"{root}/") for path in found]

    assert hidden() == [".env", "deep/.env", "src/.env"]
    assert hidden(allow=["Read(src/.env)", "Bash", "*"]) == [".env", "deep/.env"]
    assert hidden(deny=["Read(keys)"], ask=["Read(./notes/**)"]) == [
        ".env", "deep/.env", "keys/a", "keys/b/c", "notes/x", "src/.env",
    ]  # fmt: skip
    assert hidden(deny=["Read(src/.env)"], mode="bypass") == ["src/.env"]


def test_outside_the_workspace_a_box_hides_by_name_what_a_rule_denies(session: Session):
    """Homes and keys no box shows anyway. A rule that comes later counts from the next command on."""
    roots = roots_of(session)
    rules = policy(deny=["Read(//srv/keys/**)", "Read(./secrets/**)", "Read(~/.ssh/**)"])
    restrictions = RuleRestrictions(rules)
    found = restrictions.hidden_places(roots)
    home = os.path.realpath(Path.home())
    assert {f"{home}/.ssh", "/srv/keys", f"{roots[0]}/secrets", f"{roots[0]}/.env"} <= {*found}
    assert not {"/", "/proc", "/etc", "/etc/shadow", f"{home}/.netrc", home, *roots} & {*found}
    assert "/srv/more" not in restrictions.hidden_places(roots)
    rules.restrict(deny=["Read(//srv/more/**)"])
    assert "/srv/more" in restrictions.hidden_places(roots)


def test_a_box_that_may_write_can_have_denied_places_read_only(session: Session):
    roots = roots_of(session)
    found = RuleRestrictions(policy(deny=["Edit(./keep/**)", "Edit(*.lock)", "Edit(./**)"])).unwritable_places(roots)
    assert found == [f"{roots[0]}/keep"]
