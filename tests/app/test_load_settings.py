"""Where settings come from, which wins, and what a workspace may not decide."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ferrule.app.settings import RuleTable, SandboxSettings, SettingsError, load_settings


def texts(rules: list[str | RuleTable]) -> list[str]:
    return [one if isinstance(one, str) else one.rule for one in rules]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The person's file, empty, and the project's file, not written yet."""
    (tmp_path / "person.toml").touch()
    monkeypatch.setenv("FERRULE_CONFIG", str(tmp_path / "person.toml"))
    (tmp_path / "project").mkdir()
    return tmp_path / "person.toml", tmp_path / "project" / "ferrule.toml"


def test_flag_beats_environment_beats_project_beats_person(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    person, project = files
    workspace = project.parent
    assert load_settings(workspace).settings.limits.timeout == 120.0
    person.write_text("[limits]\ntimeout = 9\nconcurrency = 7\n")
    assert load_settings(workspace).settings.limits.timeout == 9
    project.write_text("[limits]\ntimeout = 2\n")
    assert load_settings(workspace).settings.limits.timeout == 2
    monkeypatch.setenv("FERRULE_LIMITS_TIMEOUT", "3")
    assert load_settings(workspace).settings.limits.timeout == 3
    loaded = load_settings(workspace, {"limits": {"timeout": 4.0}})
    assert (loaded.settings.limits.timeout, loaded.settings.limits.concurrency) == (4, 7)
    assert loaded.files == [person, project]


def test_a_file_that_an_editor_marked_as_utf_8_is_read(files: tuple[Path, Path]) -> None:
    person, project = files
    person.write_text("[limits]\ntimeout = 9\n", encoding="utf-8-sig")
    assert load_settings(project.parent).settings.limits.timeout == 9


def test_a_file_in_another_encoding_is_told_as_what_it_is(files: tuple[Path, Path]) -> None:
    person, project = files
    person.write_bytes("lang = 'en' # Grüße".encode("latin-1"))
    with pytest.raises(SettingsError) as raised:
        load_settings(project.parent)
    assert str(raised.value) == f"{person} is not UTF-8 text. Save it as UTF-8."


def test_deny_lists_add_up(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    person, project = files
    person.write_text('[permissions]\ndeny = ["a"]\n')
    project.write_text('[permissions]\ndeny = ["b"]\n')
    monkeypatch.setenv("FERRULE_PERMISSIONS_DENY", "c, d")
    loaded = load_settings(project.parent, {"permissions": {"deny": ["e"]}})
    assert texts(loaded.settings.permissions.deny) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("written", "aside"),
    [
        ('[permissions]\nallow = ["x"]', "permissions.allow"),
        ('[permissions]\nmode = "bypass"', "permissions.mode = 'bypass'"),
        ('[permissions]\nmode = "accept-edits"', "permissions.mode = 'accept-edits'"),
        ('[tools]\nfolders = ["evil"]', "tools.folders"),
        ("[audit]\nenabled = false", "audit"),
        ('[files]\nfolders = ["/"]', "files.folders"),
        ("[files]\nhard_links = true", "files.hard_links"),
        ('trusted_folders = ["/"]', "trusted_folders"),
        ("[sandbox]\nenabled = false", "sandbox.enabled = False"),
        ('[sandbox]\nhosts = ["*"]', "sandbox.hosts"),
        ('[sandbox]\nwritable = ["/"]', "sandbox.writable"),
        ('[[hooks]]\nevent = "before"\ncommand = ["./evil"]', "hooks"),
        ('model = "evil/model"', "model"),
        ('[providers.openai]\nbase_url = "https://evil.example"', "providers"),
    ],
)
def test_a_workspace_cannot_widen_what_the_person_set(files: tuple[Path, Path], written: str, aside: str) -> None:
    files[1].write_text(written)
    loaded = load_settings(files[1].parent)
    assert loaded.set_aside == [aside]
    settings = loaded.settings
    assert (settings.permissions.allow, settings.permissions.mode, settings.tools.folders) == ([], "default", [])
    assert settings.audit.enabled
    assert (settings.files.folders, settings.files.hard_links) == ([], False)
    assert (settings.sandbox, settings.hooks) == (SandboxSettings(), [])
    assert (settings.model, settings.providers) == ("", {})


def test_a_workspace_may_refuse_repairs_and_not_allow_them_again(files: tuple[Path, Path]) -> None:
    person, project = files
    project.write_text("[tools]\nrepair = false\n")
    assert not load_settings(project.parent).settings.tools.repair
    person.write_text("[tools]\nrepair = false\n")
    project.write_text("[tools]\nrepair = true\n")
    loaded = load_settings(project.parent)
    assert (loaded.settings.tools.repair, loaded.set_aside) == (False, ["tools.repair"])


def test_a_workspace_may_be_stricter(files: tuple[Path, Path]) -> None:
    files[1].write_text('[permissions]\nmode = "plan"\ndeny = ["x"]\n[tools]\ndisabled = ["y"]\n')
    loaded = load_settings(files[1].parent)
    assert (loaded.settings.permissions.mode, loaded.settings.tools.disabled) == ("plan", ["y"])
    assert loaded.set_aside == []


@pytest.mark.parametrize("mode", ["plan", "dont-ask"])
def test_a_workspace_cannot_loosen_the_persons_mode(files: tuple[Path, Path], mode: str) -> None:
    files[0].write_text(f'[permissions]\nmode = "{mode}"\n')
    files[1].write_text('[permissions]\nmode = "default"\n')
    assert load_settings(files[1].parent).settings.permissions.mode == mode


def test_a_workspace_cannot_raise_limits(files: tuple[Path, Path]) -> None:
    files[0].write_text("[limits]\ntimeout = 10\n")
    files[1].write_text("[limits]\ntimeout = 100000\nconcurrency = 3\n")
    loaded = load_settings(files[1].parent)
    assert (loaded.settings.limits.timeout, loaded.settings.limits.concurrency) == (10, 3)
    assert loaded.set_aside == ["limits.timeout"]


@pytest.mark.parametrize("made", [lambda file: file.symlink_to("/dev/zero"), lambda file: os.mkfifo(file)])
def test_a_workspace_cannot_hold_up_every_command_with_a_file_that_is_none(
    files: tuple[Path, Path], made: Callable[[Path], None]
) -> None:
    files[1].unlink(missing_ok=True)
    made(files[1])
    with pytest.raises(SettingsError, match="could not be read: it is not a regular file"):
        load_settings(files[1].parent)


@pytest.mark.parametrize("trusted", ["{workspace}", "{parent}"])
def test_a_trusted_folder_and_what_lies_in_it_may(files: tuple[Path, Path], trusted: str) -> None:
    person, project = files
    folder = trusted.format(workspace=project.parent, parent=project.parent.parent)
    person.write_text(f'trusted_folders = ["{folder}"]\n')
    project.write_text('[permissions]\nallow = ["x"]\n')
    assert texts(load_settings(project.parent).settings.permissions.allow) == ["x"]


def test_a_twin_of_a_trusted_folder_is_not_trusted(files: tuple[Path, Path]) -> None:
    person, project = files
    twin = project.parent.with_name("project-evil")
    twin.mkdir()
    (twin / "ferrule.toml").write_text('[permissions]\nallow = ["x"]\n')
    person.write_text(f'trusted_folders = ["{project.parent}"]\n')
    assert load_settings(twin).settings.permissions.allow == []


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("limits = 5", "`limits`"),
        ("[limits]\ntimeout = 'soon'", "`limits.timeout`"),
        ("[limits]\ntimout = 5", "Did you mean `timeout`?"),
        ("[permisions]", "Did you mean `permissions`?"),
        ("[permissions]\nmode = 'yolo'", "`permissions.mode`"),
        ("[sandbox]\nhost = []", "Did you mean `hosts`?"),
        ("[[hooks]]\nevent = 'before'\ncommand = ['x']\ntool = ['y']", "Did you mean `tools`?"),
        ("[[hooks]]\nevent = 'during'\ncommand = ['x']", "`hooks.0.event`"),
        ("[[hooks]]\nevent = 'before'\ncommand = []", "`command` needs a program"),
        ("[[hooks]]\nevent = 'before'\ncommand = ['x']\ntimeout = 0", "`timeout` is a number of seconds above 0"),
        ("[[hooks]]\nevent = 'before'\ncommand = ['x']\ntools = []", "`tools` names no tool"),
        ("not toml", "is not valid TOML"),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_wrong_setting_is_named_with_its_file(files: tuple[Path, Path], which: int, written: str, said: str) -> None:
    files[which].write_text(written)
    with pytest.raises(SettingsError) as raised:
        load_settings(files[1].parent)
    assert str(files[which]) in str(raised.value)
    assert said in str(raised.value)


def test_a_variable_that_sets_nothing_is_an_error(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_LIMITS_TIMOUT", "5")
    with pytest.raises(SettingsError, match="FERRULE_LIMITS_TIMOUT is not a setting"):
        load_settings(files[1].parent)


def test_without_any_settings_no_validator_is_imported(files: tuple[Path, Path]) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path; from ferrule.app.settings import load_settings\n"
        "load_settings(Path('.')); print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=files[1].parent, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_workspace_cannot_switch_on_what_the_person_switched_off(files: tuple[Path, Path]) -> None:
    files[0].write_text('[tools]\ndisabled = ["x"]\n')
    files[1].write_text('[tools]\ndisabled = ["y"]\n')
    assert load_settings(files[1].parent).settings.tools.disabled == ["x", "y"]


def test_a_file_that_was_named_must_be_there(files: tuple[Path, Path]) -> None:
    person, project = files
    person.unlink()
    with pytest.raises(SettingsError, match=r"FERRULE_CONFIG points to .*person.toml, which does not exist"):
        load_settings(project.parent)


def test_allow_rules_of_all_sources_add_up(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    files[0].write_text('[permissions]\nallow = ["a"]\nask = ["b"]\n')
    monkeypatch.setenv("FERRULE_PERMISSIONS_ALLOW", "Bash(echo a, b),c")
    permissions = load_settings(files[1].parent, {"permissions": {"ask": ["d"]}}).settings.permissions
    assert texts(permissions.allow) == ["a", "Bash(echo a, b)", "c"]
    assert texts(permissions.ask) == ["b", "d"]


def test_a_rule_cannot_say_where_it_comes_from(files: tuple[Path, Path]) -> None:
    files[1].write_text('[permissions]\ndeny = [{rule = "x", kind = "organisation"}]\n')
    with pytest.raises(SettingsError, match=r"ferrule\.toml"):
        load_settings(files[1].parent)


def test_an_untrusted_workspace_cannot_switch_off_questions_about_dangerous_commands(files: tuple[Path, Path]) -> None:
    """S2."""
    files[1].write_text('[permissions]\ndangerous = "allow"\n')
    loaded = load_settings(files[1].parent)
    assert loaded.set_aside == ["permissions.dangerous = 'allow'"]
    assert loaded.settings.permissions.dangerous == "ask"
    files[0].write_text('[permissions]\ndangerous = "allow"\n')
    assert load_settings(files[1].parent).settings.permissions.dangerous == "allow"


def test_nobody_loosens_what_the_organisation_set(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    organisation = tmp_path / "organisation.toml"
    organisation.write_text('[permissions]\nmode = "default"\ndangerous = "ask"\ndeny = ["x"]\n')
    monkeypatch.setattr("ferrule.app.settings.ORGANISATION_FILE", organisation)
    files[0].write_text('[permissions]\nmode = "bypass"\ndangerous = "allow"\n')
    loaded = load_settings(files[1].parent, {"permissions": {"mode": "accept-edits"}})
    permissions = loaded.settings.permissions
    assert (permissions.mode, permissions.dangerous) == ("default", "ask")
    assert texts(permissions.deny) == ["x"]
    assert loaded.overruled == ["permissions.mode = 'accept-edits'", "permissions.dangerous = 'allow'"]
    assert loaded.set_aside == []
    assert loaded.files[0] == organisation
    organisation.write_text("[sandbox]\nenabled = true\n")
    files[0].write_text("[sandbox]\nenabled = false\n")
    assert load_settings(files[1].parent).settings.sandbox.enabled
    organisation.write_text('[permissions]\nmode = "default"\n')
    assert load_settings(files[1].parent, {"permissions": {"mode": "plan"}}).settings.permissions.mode == "plan"


def test_an_untrusted_workspace_may_close_what_the_person_opened(files: tuple[Path, Path]) -> None:
    """S3."""
    files[0].write_text('[sandbox]\nenabled = false\nhosts = ["example.org"]\nwritable = ["/srv"]\n')
    files[1].write_text("[sandbox]\nenabled = true\nhosts = []\nwritable = []\n")
    loaded = load_settings(files[1].parent)
    assert (loaded.settings.sandbox, loaded.set_aside) == (SandboxSettings(), [])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('memory = "1 MB"', "`memory` is at least 100 MB"),
        ('memory = "much"', "`much` is not a size such as"),
        ('memory = "9999999 TB"', "is more than 1,000,000 TB"),
        ("processes = 3", "`processes` is from 16 to 4,000,000"),
        ("processes = 99999999999999999999", "`processes` is from 16"),
        ('file_size = ""', "is not a size"),
        ('unconfined = "yes"', "'ask' or 'allow'"),
    ],
)
def test_a_limit_that_no_command_could_run_under_is_an_error(
    files: tuple[Path, Path], line: str, complaint: str
) -> None:
    """S1."""
    files[0].write_text(f"[shell]\n{line}\n")
    with pytest.raises(SettingsError, match=re.escape(complaint)):
        load_settings(files[1].parent)


def test_limits_are_read_from_the_environment_too(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_SHELL_MEMORY", "6 GB")
    monkeypatch.setenv("FERRULE_SHELL_PROCESSES", "off")
    shell = load_settings(files[1].parent).settings.shell
    assert (shell.memory, shell.processes, shell.unconfined) == ("6 GB", "off", "ask")


def test_hosts_and_hooks_of_all_sources_add_up(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    hook = '[[hooks]]\nevent = "before"\ncommand = ["{name}"]\n'
    files[0].write_text(
        f'trusted_folders = ["{files[1].parent}"]\n[sandbox]\nhosts = ["a.org"]\n' + hook.format(name="mine")
    )
    files[1].write_text('[sandbox]\nhosts = ["b.org"]\n' + hook.format(name="theirs"))
    monkeypatch.setenv("FERRULE_SANDBOX_HOSTS", "c.org")
    settings = load_settings(files[1].parent, {"sandbox": {"hosts": ["d.org"]}}).settings
    assert settings.sandbox.hosts == ["a.org", "b.org", "c.org", "d.org"]
    assert [one.command for one in settings.hooks] == [["mine"], ["theirs"]]


def test_nobody_turns_off_the_sandbox_or_the_hooks_of_the_organisation(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3."""
    organisation = tmp_path / "organisation.toml"
    organisation.write_text('[sandbox]\nenabled = true\n[[hooks]]\nevent = "before"\ncommand = ["/opt/check"]\n')
    monkeypatch.setattr("ferrule.app.settings.ORGANISATION_FILE", organisation)
    files[0].write_text("hooks = []\n[sandbox]\nenabled = false\n")
    loaded = load_settings(files[1].parent, {"sandbox": {"enabled": False}})
    assert loaded.settings.sandbox.enabled
    assert loaded.overruled == ["sandbox.enabled = False"]
    assert [one.command for one in loaded.settings.hooks] == [["/opt/check"]]


def test_the_person_names_models_and_providers(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    person, project = files
    person.write_text('model = "a/b"\n[providers.house]\nbase_url = "http://10.0.0.2:8000/v1"\nform = "chat"\n')
    loaded = load_settings(project.parent)
    assert loaded.settings.model == "a/b"
    assert loaded.settings.providers["house"].base_url == "http://10.0.0.2:8000/v1"
    monkeypatch.setenv("FERRULE_MODEL", "c/d")
    assert load_settings(project.parent).settings.model == "c/d"
    assert load_settings(project.parent, {"model": "e/f"}).settings.model == "e/f"


def test_a_trusted_workspace_may_name_them(files: tuple[Path, Path]) -> None:
    person, project = files
    person.write_text(f"trusted_folders = [{str(project.parent)!r}]\n")
    project.write_text('[providers.house]\nbase_url = "https://house.example/v1"\n')
    loaded = load_settings(project.parent)
    assert (list(loaded.settings.providers), loaded.set_aside) == (["house"], [])


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('[providers.house]\nbase_ulr = "https://x"', "Did you mean `base_url`?"),
        ('[providers.house]\nbase_url = "house.example"', "begins with https://"),
        ('[providers.house]\nkey = "sk-secret"', "Did you mean `key_variable`?"),
        ('[providers.house]\nform = "soap"', "`providers.house.form`"),
    ],
)
def test_a_wrong_provider_is_named(files: tuple[Path, Path], written: str, words: str) -> None:
    files[0].write_text(written)
    with pytest.raises(SettingsError) as caught:
        load_settings(files[1].parent)
    assert words in str(caught.value)
    assert "sk-secret" not in str(caught.value)


def test_a_workspace_may_lower_the_assistant_s_limits_and_no_more(files: tuple[Path, Path]) -> None:
    person, project = files
    person.write_text("[assistant]\nmax_cost = 1.0\n")
    project.write_text(
        "[assistant]\nmax_steps = 10\nmax_cost = 5.0\nmax_tokens = 0\nkeep_days = 0\n"
        'tools = ["all"]\nproject_words = false\n'
    )
    loaded = load_settings(project.parent)
    assistant = loaded.settings.assistant
    assert (assistant.max_steps, assistant.max_cost) == (10, 1.0)
    assert (assistant.tools, assistant.project_words, assistant.keep_days) == ([], False, 30)
    assert loaded.set_aside == [
        "assistant.max_cost",
        "assistant.max_tokens",
        "assistant.keep_days",
        "assistant.tools",
    ]
    person.write_text(f"trusted_folders = ['{project.parent}']\n")
    assert load_settings(project.parent).settings.assistant.max_cost == 5.0


def test_a_limit_below_zero_is_refused(files: tuple[Path, Path]) -> None:
    files[0].write_text("[assistant]\nmax_steps = -1\n")
    with pytest.raises(SettingsError, match="0 for no limit"):
        load_settings(files[1].parent)
