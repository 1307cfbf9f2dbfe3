"""P10: secrets are taken out of whatever is stored, shown or logged."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.core.secrets import (
    MAX_DEPTH,
    REDACTED,
    TOO_DEEP,
    TOO_LARGE,
    is_secret_name,
    may_hold_secret,
    redact_text,
    redact_value,
)

SECRET = "hunter2-Zq9"


@pytest.mark.parametrize(
    "name",
    ["password", "PASSWORD", "userPassword", "db_passwd", "pwd", "token", "access_token", "accessToken",
     "X-Auth-Token", "api_key", "apiKey", "APIKEY", "X-Api-Key", "authorization", "Proxy-Authorization",
     "client_secret", "SECRET", "AWS_SECRET_ACCESS_KEY", "aws.secretAccessKey", "cookie", "Set-Cookie",
     "private_key", "privateKey", "credentials", "passphrase", "connectionString", "tokens", "密码",
     "x" * 200 + "_password"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "path", "file_path", "author", "keyboard", "monkey", "key", "tokenizer", "token_count", "secretary",
     "passenger", "compass", "spinner", "shipping", "content", "pattern", "public_key_id", "session"],
)  # fmt: skip
def test_names_of_what_is_no_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_a_number_of_tokens_is_no_secret() -> None:
    assert redact_value({"max_tokens": 4096}) == {"max_tokens": 4096}
    assert redact_text("max_tokens=4096") == "max_tokens=4096"


SHAPES = {
    "OpenAI": "sk-proj-abcdefghijklmnopqrstuvwx",
    "Anthropic": "sk-ant-api03-abcdefghijklmnopqrst",
    "Stripe": "sk_live_abcdefghijklmnop",
    "GitHub": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "GitHub fine": "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "GitLab": "glpat-abcdefghijklmnopqrst",
    "AWS id": "AKIAIOSFODNN7EXAMPLE",
    "Slack": "xoxb-123456789012-abcdefghijkl",
    "Google": "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "Hugging Face": "hf_abcdefghijklmnopqrstuvwxyzABCDEF",
    "SendGrid": "SG.abcdefghijklmnopqrst.abcdefghijklmnopqrstuvwxyz",
}


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("around", ["{}", "use {} please", '"{}"', "\n{}\n", "({})", "a,{},b", "密钥是{}。"])
def test_secrets_are_known_by_their_shape(secret: str, around: str) -> None:
    assert secret not in redact_text(around.format(secret))
    assert secret not in json.dumps(redact_value({"note": [f"see {secret}"]}))


def test_what_becomes_of_texts() -> None:
    texts = [
        "curl -H 'Authorization: Bearer abcdefghijkl' https://example.org",
        "Authorization: Basic dXNlcjpwYXNz",
        "Cookie: session=abc; theme=dark\nAccept: */*",
        "postgres://me:s3cr@t@db.example.org/prod?sslmode=require",
        "mysql --user root --password hunter2 -h db",
        "curl -u me:hunter2 https://example.org",
        "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY; ls",
        "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        '{"user": "ann", "password": "a\\"b", "age": 7}',
        '{"password": "broken off in the mid',
        '{"secrets": ["one", "two"], "n": 1, ',
        '{"secrets": ["one", "two',
        '{"a": "{\\"token\\": \\"t0ps3cret\\"}',
        "{'api_key': 'abc', 'n': 2}",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk broken off",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "PASSWORD=a,b\\$c)d ls; echo (token=abc), {secret: x}",
        '"{\\"X-Auth-Token\\": \\"abc\\"}',
        "the token is unknown; max_tokens: 5, author: Ann, https://example.org:8080/a@b",
    ]
    assert [redact_text(text) for text in texts] == snapshot(
        [
            "curl -H 'Authorization: [redacted]' https://example.org",
            "Authorization: [redacted]",
            """\
Cookie: [redacted]
Accept: */*\
""",
            "postgres://me:[redacted]@db.example.org/prod?sslmode=require",
            "mysql --user root --password [redacted] -h db",
            "curl -u me:[redacted] https://example.org",
            "export AWS_SECRET_ACCESS_KEY=[redacted]; ls",
            "[redacted]",
            '{"user": "ann", "password": "[redacted]", "age": 7}',
            '{"password": "[redacted]"',
            '{"secrets": "[redacted]", "n": 1, ',
            '{"secrets": "[redacted]"',
            '{"a": "{\\"token\\": \\"[redacted]\\"}',
            "{'api_key': '[redacted]', 'n': 2}",
            """\
[redacted]
after\
""",
            "[redacted]",
            """\
-----BEGIN PUBLIC KEY-----
MIIB
-----END PUBLIC KEY-----\
""",
            "PASSWORD=[redacted] ls; echo (token=[redacted]), {secret: [redacted]}",
            '"{\\"X-Auth-Token\\": \\"[redacted]\\"}',
            "the token is unknown; max_tokens: 5, author: Ann, https://example.org:8080/a@b",
        ]
    )


@pytest.mark.parametrize(
    "command",
    [
        "mysql -u root -p{} db", "mysqldump -p'{}' x", "mariadb-dump -p{} x", "mysql --password={}",
        "MYSQL_PWD={} mysql",
        "PGPASSWORD={} psql -h x", "psql postgres://me:{}@h/db", "psql 'host=x password={}'", "mongosh -u a -p {} x",
        "redis-cli -h x -a {} ping", "aws configure set aws_secret_access_key {}",
        "aws configure set aws_session_token {} --profile x", "npm config set //registry/:_authToken {}",
        "docker login -u me -p {} x", "podman login -p{}", "az login -u a -p {} --tenant b", "oc login --token={}",
        "echo {} | docker login --password-stdin", "printf '{}' | gh auth login --with-token", "echo {} | sudo -S ls",
        "sshpass -p {} ssh x", "sshpass -p{} ssh x", "twine upload -u a -p {} x", "curl -u me:{} x",
        "curl --user me:{} x",
        "curl -H 'Authorization: Token {}' x", 'curl -H "X-Api-Key: {}" x', "curl -b 'sid={}' x",
        "curl --cookie sid={} x",
        "wget --http-password={} x", "openssl enc -pass pass:{}", "openssl rsa -passin pass:{} -in x", "zip -P {} a b",
        "7z a -p{} a b", "smbclient -U me%{} //x/y", "ldapsearch -x -w {} -b y", "htpasswd -b file me {}",
        "htpasswd -cb file me {}", "vault login {}", "vault kv put secret/x password={}", "gh secret set X --body {}",
        "kubectl create secret generic x --from-literal=a={}", "echo me:{} | sudo chpasswd", "gpg --passphrase {} x",
        "export GH_TOKEN={}", "heroku config:set SECRET_KEY={}", "rclone config password={}",
    ],
)  # fmt: skip
def test_a_password_on_a_command_line_is_taken_out(command: str) -> None:
    """Also where nothing but the program's name says that it is one."""
    redacted = redact_text(command.format(SECRET))
    assert SECRET not in redacted
    assert REDACTED in redacted
    assert redact_value({"command": command.format(SECRET)}) == {"command": redacted}
    assert may_hold_secret(json.dumps({"command": command.format(SECRET)}))


@pytest.mark.parametrize(
    "command",
    ["mysql -p db", "mkdir -p a/b", "ls -p; unzip -p a b", "aws configure set region eu-west-1",
     "docker login && mkdir -p a", "git config set user.name ada", "curl -b", "the login page - please look",
     "7z l x.7z"],
)  # fmt: skip
def test_a_command_line_without_one_stays_as_it_is(command: str) -> None:
    assert redact_text(command) == command


def test_values_are_redacted_at_any_depth() -> None:
    value = {
        "list": [{"deep": ({"apiKey": SECRET},)}],
        "json": json.dumps({"token": SECRET, "n": 1}),
        "broken": '{"token": "' + SECRET,
        "bytes": f"password={SECRET}".encode(),
        "password": {"nested": [SECRET]},
        "pin": 1234,
        SHAPES["OpenAI"]: 1,
        "plain": [1, 2.5, True, None, "words"],
    }
    redacted = redact_value(value)
    assert redacted == snapshot(
        {
            "list": [{"deep": [{"apiKey": "[redacted]"}]}],
            "json": '{"token": "[redacted]", "n": 1}',
            "broken": '{"token": "[redacted]"',
            "bytes": "password=[redacted]",
            "password": "[redacted]",
            "pin": "[redacted]",
            "[redacted]": 1,
            "plain": [1, 2.5, True, None, "words"],
        }
    )
    assert SECRET in value["list"][0]["deep"][0]["apiKey"], "the original is left alone"  # type: ignore[index]


def test_json_text_without_secrets_stays_as_it_was() -> None:
    text = '{ "a" :  1,\n "b": [] }'
    assert redact_value({"note": text}) == {"note": text}


def test_a_secret_behind_a_repeated_key_is_found() -> None:
    assert SHAPES["GitHub"] not in redact_value('{"a": "' + SHAPES["GitHub"] + '", "a": 1}')


@pytest.mark.slow
def test_hostile_values_end() -> None:
    deep: Any = SECRET
    for _ in range(5_000):
        deep = [deep]
    circle: list[Any] = []
    circle += [circle, circle]
    assert TOO_DEEP in json.dumps(redact_value(deep))
    assert TOO_LARGE in json.dumps(redact_value(circle)) or TOO_DEEP in json.dumps(redact_value(circle))
    assert SECRET not in redact_value("[" * 100_000 + f'{{"password": "{SECRET}"')
    assert TOO_LARGE in json.dumps(redact_value({str(n): n for n in range(200_000)}))
    assert json.loads(json.dumps(redact_value([float("inf"), 10**5000]))) == ["inf", TOO_LARGE]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
secret_names = st.sampled_from(["password", "api_key", "apiKey", "X-Auth-Token", "clientSecret", "Authorization"])
secrets = st.from_regex(r"QQ[a-zA-Z0-9]{10,30}QQ", fullmatch=True)


@given(value=plain)
def test_what_comes_out_is_json(value: Any) -> None:
    json.loads(json.dumps(redact_value(value), allow_nan=False))


@given(value=plain, name=secret_names, secret=secrets, data=st.data())
def test_a_named_secret_never_comes_out(value: Any, name: str, secret: str, data: st.DataObject) -> None:
    """Wherever it is put: as a value, in JSON text, in JSON text cut off anywhere, in JSON inside JSON."""
    planted: Any = {name: data.draw(st.sampled_from([secret, [secret], {"a": secret}]))}
    for wrap in data.draw(st.lists(st.sampled_from(["list", "dict", "beside", "text"]), max_size=5)):
        if wrap == "list":
            planted = [value, planted]
        elif wrap == "dict":
            planted = {"inner": planted}
        elif wrap == "beside":
            planted = {"a": value, "b": planted}
        else:
            planted = json.dumps(planted)
    assert secret not in json.dumps(redact_value(planted))
    text = json.dumps({"first": value, name: secret, "last": value})
    cut = data.draw(st.integers(0, len(text)))
    assert secret not in json.dumps(redact_value(text[:cut]))


@given(before=st.text(max_size=30), after=st.text(max_size=30), secret=st.sampled_from(list(SHAPES.values())))
def test_a_shaped_secret_never_comes_out(before: str, after: str, secret: str) -> None:
    assert secret not in redact_text(f"{before} {secret} {after}")


@settings(max_examples=150)
@given(
    parts=st.lists(
        st.text(max_size=8)
        | st.sampled_from(
            ["password", "token", "=", ":", '"', "'", " ", "\\", "{", "[", "]", "}", ",", "--", "Bearer ",
             "://", "@", "\n", "sk-abcdefghijklmnopqrst", REDACTED, "-----BEGIN PRIVATE KEY-----", "Cookie",
             "mysql -p", "login -p ", "config set ", "echo ", "| x --password-stdin", "vault login "]
        ),
        max_size=15,
    )
)  # fmt: skip
def test_redacting_twice_is_redacting_once(parts: list[str]) -> None:
    once = redact_text("".join(parts))
    assert redact_text(once) == once


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    ["a", "a=b ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "://", "://a:", "eyJaaaaaa.", '"token": "',
     '"token": [', "password:", "password ", "sk-", "--", "-u a:", "key", "\\", "token=\\\"", "bearer ",
     "AKIA", "token   ", "Cookie: ", "mysql ", "login -u x ", "curl -u ", "7z ", "config set a ", "echo a | ",
     "7z -p", "7z -p ", "7z -p'", "login -p "],
)  # fmt: skip
def test_time_grows_with_length_and_no_faster(piece: str) -> None:
    """No pattern may be made to run for ever by what a model sends."""
    text = piece * (400_000 // len(piece))
    start = time.process_time()
    redact_text(text)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize(
    "text",
    ["mongosh\n-h a -p s3cr3tly", "ldapsearch\n-b x\n-w s3cr3tly", "vault login redis-cli zip db -a s3cr3tly",
     "-u a:b&&login -p s3cr3tly", f"login -p {'y' * 140} -q {'z' * 60} -p s3cr3tly", "7z a\n-ps3cr3tly"],
)  # fmt: skip
def test_neither_a_line_break_nor_another_secret_keeps_a_flag_from_its_program(text: str) -> None:
    assert "s3cr3tly" not in redact_text(text)


def test_importing_it_compiles_next_to_nothing() -> None:
    script = """
from ferrule.core import secrets
print(secrets._compiled.cache_info().currsize, secrets._any_hint.cache_info().currsize)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["0", "0"]


def test_depth_is_bounded_where_it_says() -> None:
    value: Any = "end"
    for _ in range(MAX_DEPTH):
        value = [value]
    assert "end" in json.dumps(redact_value(value))
    assert "end" not in json.dumps(redact_value([value]))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just("Bearer abcdefgh12345"),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "password", "pass_word", "passPhrase", "api key", "apiKey", "X-Api-Key", "access.token", "otp",
                 "connectionString", "set_cookie", "clientSecret", "pin", "n", "user", "cred", "private-key", "密码"]
            )
            | st.text(max_size=8),
            inner,
            max_size=4,
        ),
        max_leaves=8,
    )
)  # fmt: skip
def test_text_that_is_passed_over_holds_nothing_to_redact(value: object) -> None:
    """P10: the quick look may send too much to the thorough one, never too little."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isascii() and not may_hold_secret(text):
        assert redact_value(json.loads(text)) == json.loads(text)
