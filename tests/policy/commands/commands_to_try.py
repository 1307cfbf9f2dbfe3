"""Commands for property tests: made from bash's grammar, of programs that have stand-ins."""

from __future__ import annotations

import shlex

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

NAMES = ("rm", "ls", "cat", "git", "touch", "id", "grep", "sort", "wc", "foo", "bar")


def _disguised(name: str) -> SearchStrategy[str]:
    """One program's name, written in ways that bash reads as the same."""
    code = "".join(f"\\x{ord(letter):02x}" for letter in name)
    return st.sampled_from(
        [
            name,
            name,
            name,
            f'"{name}"',
            f"'{name}'",
            f"{name[0]}\\{name[1:]}",
            f"{name[0]}''{name[1:]}",
            f"$'{code}'",
            f'{name[0]}"{name[1:]}"',
            f"{{{name},a}}",
            f"$(echo {name})",
            f"`echo {name}`",
        ]
    )


_programs = st.sampled_from(NAMES).flatmap(_disguised)
_plain_words = st.sampled_from(
    [
        "a",
        "-l",
        "'b c'",
        '"d;e"',
        "f\\ g",
        "*.txt",
        "{a,b}",
        "$y",
        '"$y"',
        "${y}",
        "'$(rm)'",
        '"#"',
        "a#b",
        "--",
        "~",
        "\\;",
        "$'\\n'",
        "'it'\"'\"'s'",
        "${#y}",
        "${y:-z}",
        "$((1+2))",
        "x=1",
        "'`rm`'",
        '"\\`rm\\`"',
        '"\\$(rm)"',
        "\\$\\(",
        "=",
        "}",
    ]
)


def _words(commands: SearchStrategy[str]) -> SearchStrategy[str]:
    inner = st.sampled_from(
        [
            "$({})",
            '"$({})"',
            "`{}`",
            '"`{}`"',
            "<({})",
            "${{y:-$({})}}",
            '"a $({}) b"',
            "$((1+$({})))",
            "a$({})b",
            "${{y:=$({})}}",
        ]
    )
    quoting = st.builds(lambda shape, one: one if "`" in one and "`" in shape else shape.format(one), inner, commands)
    return st.one_of(_plain_words, _plain_words, quoting)


def _simple(commands: SearchStrategy[str]) -> SearchStrategy[str]:
    words = st.lists(_words(commands), max_size=3).map(" ".join)
    prefix = st.sampled_from(["", "", "", "v=1 ", "2>/dev/null ", "! ", "time "])
    suffix = st.sampled_from(["", "", "", " > out", " 2>&1", " < a.txt", " <<< hi", " >> out 2>&1", " &>out"])
    return st.builds(lambda p, n, w, s: f"{p}{n} {w}{s}", prefix, _programs, words, suffix)


def _joined(commands: SearchStrategy[str]) -> SearchStrategy[str]:
    shapes = st.sampled_from(
        [
            "{}; {}",
            "{} && {}",
            "{} || {}",
            "{} | {}",
            "{} |& {}",
            "{}\n{}",
            "{} # {}",
            "{} & {}",
            "{{ {}; {}; }}",
            "( {}; {} )",
            "if {}; then {}; fi",
            "if {}\nthen :\nelse {}\nfi",
            "for v in a b; do {}; {}; done",
            "while false; do {}; done; {}",
            "case a in a) {};; *) {};; esac",
            "f() {{ {}; }}; f; {}",
            "function g {{ {}; }}; {}; g",
            "until true; do {}; done; {}",
            "cat <<E\n$({})\nE\n{}",
            "cat <<'E'\n$({})\nE\n{}",
            "x=$({}); {}",
            "[[ -n $({}) ]] && {}",
            '[ -n "$({})" ] && {}',
            "echo {} \\\n; {}",
            "y=ls; {}; $y; {}",
            "wc <<E &&\n`{}`\nE\n{}",
            "{}; ( ! {} )",
            "true && {{ {}; }} || {}",
            "coproc {}; {}",
        ]
    )
    return st.builds(lambda shape, one, other: shape.format(one, other), shapes, commands, commands)


def _wrapped(commands: SearchStrategy[str]) -> SearchStrategy[str]:
    text = st.builds(
        lambda shape, one: shape.format(shlex.quote(one)),
        st.sampled_from(["eval {}", "bash -c {}", "sh -c {}", "trap {} EXIT"]),
        commands,
    )
    direct = st.builds(
        lambda shape, name: shape.format(name),
        st.sampled_from(
            [
                "env {} a",
                "env -i PATH=$PATH {}",
                "env v=1 nice {}",
                "nice -n 1 {}",
                "timeout 5 {} a",
                "echo a | xargs {}",
                "echo a | xargs -I% {} %",
                "find . -maxdepth 0 -exec {} {{}} \\;",
                "command {} a",
                "exec {}",
                "nohup {}",
                "stdbuf -o0 {}",
                "setsid -w {}",
                "builtin command {}",
            ]
        ),
        _programs,
    )
    return st.one_of(text, direct)


commands = st.recursive(
    _programs, lambda inner: st.one_of(_simple(inner), _joined(inner), _wrapped(inner)), max_leaves=6
)
