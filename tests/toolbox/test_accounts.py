"""Accounts: who may name them, what is said of a wrong one, and that no secret is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.app.settings import SettingsError, accounts_of, load_settings, without_accounts
from ferrule.core.errors import ToolError
from ferrule.toolbox.accounts import Accounts, DatabaseAccount, Secrets, named

SETTINGS = """
[databases.sales]
url = "sqlite:///sales.db"
password = "${SALES_PASSWORD}"

[apis.pets]
spec = "pets.json"

[notes]
vaults = ["vault"]
"""


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "user.toml"
    file.write_text(SETTINGS)
    monkeypatch.setenv("FERRULE_CONFIG", str(file))
    return file


def test_accounts_stand_in_the_users_settings(user_file: Path, tmp_path: Path) -> None:
    accounts = accounts_of(load_settings(tmp_path).settings, tmp_path)
    assert accounts.databases["sales"].url == "sqlite:///sales.db"
    assert accounts.apis["pets"].spec == tmp_path / "pets.json"
    assert accounts.vaults == [tmp_path / "vault"]


def test_an_untrusted_workspace_names_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "user.toml"
    empty.write_text("")
    monkeypatch.setenv("FERRULE_CONFIG", str(empty))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "ferrule.toml").write_text(SETTINGS)
    loaded = load_settings(workspace)
    assert accounts_of(loaded.settings, workspace) == Accounts(workspace=workspace)
    assert {"databases", "apis", "notes"} <= set(loaded.set_aside)


def test_tenants_of_a_service_get_none_of_the_operators(user_file: Path, tmp_path: Path) -> None:
    left = accounts_of(without_accounts(load_settings(tmp_path).settings), tmp_path)
    assert left == Accounts(workspace=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[databases.a]\nurl = "sqlite:///a"\ntimeout = 0', "`timeout` is a number of seconds above 0"),
        ('[databases.a]\nurll = "x"', "Did you mean `url`"),
        ('[credentials.a]\nhosts = []\nvalue = "x"', "`hosts` names the hosts"),
        ('[credentials.a]\nhosts = ["x"]', "a `value`, or a `user`"),
        ("[web]\nmost_bytes = 0", "`most_bytes` must be at least 1"),
    ],
)
def test_a_wrong_account_is_said(user_file: Path, tmp_path: Path, text: str, said: str) -> None:
    user_file.write_text(text)
    with pytest.raises(SettingsError, match=said):
        load_settings(tmp_path)


def test_a_name_that_nobody_has_is_answered_with_those_there_are() -> None:
    accounts = {"sales": DatabaseAccount("sqlite:///a"), "stock": DatabaseAccount("sqlite:///b")}
    assert named(accounts, "sales", "database").url == "sqlite:///a"
    with pytest.raises(ToolError) as caught:
        named(accounts, "sale", "database")
    assert (caught.value.message, caught.value.suggestion) == ("There is no database `sale`.", "Did you mean `sales`?")
    with pytest.raises(ToolError) as caught:
        named(accounts, "xyz", "database")
    assert caught.value.suggestion == "Known names: `sales`, `stock`."


def test_a_secret_is_filled_in_and_masked_wherever_it_turns_up() -> None:
    account = DatabaseAccount("postgresql://${DB_USER}@host/db", password="${DB_PASSWORD}")
    secrets = Secrets(account, {"DB_USER": "reader-1", "DB_PASSWORD": "hunter2-hunter2"})
    assert (secrets.fill("url"), secrets.fill("password")) == ("postgresql://reader-1@host/db", "hunter2-hunter2")
    secrets.hide("password", "aHVudGVyMi1odW50ZXIy")
    assert "hunter2" not in secrets.masked("failed: hunter2-hunter2 aHVudGVyMi1odW50ZXIy")
    assert "aHVudGVy" not in secrets.masked("failed: hunter2-hunter2 aHVudGVyMi1odW50ZXIy")
    assert "hunter2" not in repr(DatabaseAccount("x", password="hunter2-hunter2"))


def test_a_missing_secret_names_its_place_and_not_a_value() -> None:
    with pytest.raises(ToolError) as caught:
        Secrets(DatabaseAccount("x", password="${DB_PASSWORD}"), {}).fill("password")
    assert "the variable `DB_PASSWORD` is not set" in caught.value.message
    assert "ferrule toolbox check" in (caught.value.suggestion or "")
