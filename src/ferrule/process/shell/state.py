r"""What a shell session keeps from one command to the next, as data: a bash begins with it, and tells it at its end.

Each command has a bash of its own. `program` is what that bash runs: it restores the state, runs the command at top
level (`set --`, `break` and `return` mean what they mean in a script, and lines count from the command's first), and
writes the state into a private file in memory. What comes out was written by an untrusted program, perhaps not even by
bash: `parse` takes nothing but the exact form that bash prints, within bounds, and everything is quoted anew for the
next bash. Functions go in as `BASH_FUNC_name%%` variables, of which bash itself takes nothing but a definition.

Every word of ours that a command could redefine stands behind `\builtin`; functions named `builtin` and `exec`, whose
work nothing else can do, are not kept. Should a command break our lines even so, no state comes out, which is said, and
the session goes on as it was before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_BYTES = 8 << 20
"""How large a state may be, as bash prints it."""
KEPT_STATE = "The shell's folder and variables are as before this command."
_MOST_NAMES = 20_000
_LARGEST_FUNCTION = 120_000
"""What one variable of the environment may hold is 128 KiB on Linux."""
_MOST_OF_FUNCTIONS = 700_000
_MOST_NAMED = 5

_SHELLS_OWN = frozenset({
    "_", "BASHOPTS", "BASHPID", "COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME",
    "GROUPS", "HISTCMD", "HOSTNAME", "HOSTTYPE", "LINENO", "MACHTYPE", "OSTYPE", "PIPESTATUS", "PPID", "PWD", "RANDOM",
    "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "UID",
})  # fmt: skip
"""What every bash has and sets by itself; so do those that begin with `BASH`, but for these:"""
_NOT_ITS_OWN = frozenset({"BASH_COMPAT", "BASH_ENV", "BASH_LOADABLES_PATH"})
_OF_TERMINAL = frozenset({"COLUMNS", "LINES"})
_NOT_KEPT_OPTIONS = frozenset({"noexec", "onecmd", "privileged", "restricted_shell", "login_shell"})
"""Options with which a shell would run nothing, or that cannot be set."""
_OBEYED = frozenset({
    "BASH_COMPAT", "BASH_ENV", "BASH_LOADABLES_PATH", "CDPATH", "ENV", "EXECIGNORE", "GLOBIGNORE", "HOME", "IFS",
    "PATH", "POSIXLY_CORRECT", "PS4", "TMPDIR",
})  # fmt: skip
"""Variables that bash itself obeys, exported or not."""


@dataclass(slots=True, frozen=True)
class Variable:
    """A variable: its attributes as `declare` spells them, in order of the alphabet, and what it holds.

    `value` is None for one that is declared and not set; pairs of subscript and value for an array.
    """

    attributes: str = ""
    value: str | tuple[tuple[str, str], ...] | None = ""


@dataclass(slots=True, frozen=True)
class Function:
    """A function: its attributes, and its text from `() {` on."""

    attributes: str
    text: str


Definition = Variable | Function | str | bool | None
"""A variable, function or alias; None where there is none."""


_HARMLESS_OPTIONS = frozenset({
    "pipefail", "errexit", "nounset", "xtrace", "verbose", "noclobber",
    "globstar", "nullglob", "dotglob", "extglob", "nocaseglob", "failglob",
})  # fmt: skip
"""Options that make nothing else of a command's literal words."""


@dataclass(slots=True, frozen=True)
class ShellState:
    """A session between two commands. Variables and options are what differs from a bash that has just been started.

    Traps, the directory stack, limits and open descriptors are not part of it: they end with each command.
    """

    folder: str | None = None
    variables: Mapping[str, Variable] = field(default_factory=dict[str, Variable])
    removed: frozenset[str] = frozenset()
    """Variables of the environment that a command has unset."""
    functions: Mapping[str, Function] = field(default_factory=dict[str, Function])
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    set_options: Mapping[str, bool] = field(default_factory=dict[str, bool])
    shopt_options: Mapping[str, bool] = field(default_factory=dict[str, bool])
    parameters: tuple[str, ...] = ()
    umask: str | None = None
    status: int = 0
    """`$?` for the next command."""
    trusted: Mapping[tuple[str, str], Definition] = field(default_factory=dict[tuple[str, str], Definition])
    """What unapproved commands have changed, as it was before them."""

    @property
    def tainted(self) -> frozenset[str]:
        """Names that an unapproved command has given a meaning: functions, aliases, exported variables and
        those that bash obeys. They may turn the words of a later command into something else.
        """
        return frozenset(name for _, name in self.trusted)

    def after(self, before: ShellState, *, tainted: bool) -> ShellState:
        """The same as what follows `before`; `tainted` when the command in between was not approved.

        A name stays tainted until it means again what it meant before: an approved `PATH=$PATH:x` clears nothing.
        """
        trusted = dict(before.trusted)
        if tainted:
            for key in before._obeyed() | self._obeyed():
                if (was := before._definition(key)) != self._definition(key):
                    trusted.setdefault(key, was)
        return replace(self, trusted={key: was for key, was in trusted.items() if self._definition(key) != was})

    def _obeyed(self) -> set[tuple[str, str]]:
        obeyed = {name for name, one in self.variables.items() if set("xn") & {*one.attributes} or name in _OBEYED}
        return (
            {("variable", name) for name in (obeyed | self.removed) - {"OLDPWD"}}  # which `cd` sets
            | {("function", name) for name in self.functions}
            | {("alias", name) for name in self.aliases}
            | {("set", name) for name in self.set_options if name not in _HARMLESS_OPTIONS}
            | {("shopt", name) for name in self.shopt_options if name not in _HARMLESS_OPTIONS}
            | {("umask", "umask")}
        )

    def _definition(self, key: tuple[str, str]) -> Definition:
        kind, name = key
        if kind == "variable":
            return Variable(value=None) if name in self.removed else self.variables.get(name)
        if kind == "umask":
            return self.umask or _first_umask()
        if kind in ("set", "shopt"):
            return (self.set_options if kind == "set" else self.shopt_options).get(name)
        return self.functions.get(name) if kind == "function" else self.aliases.get(name)


@lru_cache(maxsize=1)
def _first_umask() -> str | None:
    """The umask that a bash begins with: the one of this process, which only the system can tell without a change."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return next((line.split()[1] for line in file if line.startswith("Umask:")), None)
    except OSError:
        return None


def environment(state: ShellState) -> dict[str, str]:
    """The variables that a bash must be started with."""
    return {f"BASH_FUNC_{name}%%": one.text for name, one in state.functions.items()}


def program(state: ShellState, bash: str, private: int, pause: int) -> tuple[str, ...]:
    """The arguments of a bash that runs a command in a state.

    `private` holds what `given` says and takes the state that comes out; `pause` is a descriptor from which nothing
    ever comes, to wait on. The command and what it starts have neither.
    """
    # A function may only be readable with this option, and bash takes them before it runs anything.
    extended = ("-O", "extglob") if state.shopt_options.get("extglob") else ()
    text = _PROGRAM.format(private=private, pause=pause)
    return (bash, "--noprofile", "--norc", *extended, "-c", text, "bash")


def given(state: ShellState, command: bytes, private: int, pause: int) -> bytes:
    """What the private file holds at the start: the command, and the lines before and after it.

    Bash keeps them where `bash -c` keeps its text, so the first of them is what a command finds there.
    """
    before = _restoring(state, private).encode(errors="surrogateescape")
    out, errors = [number for number in (9, 8, 7, 6) if number not in (private, pause)][:2]
    after = _AFTERWARDS.format(private=private, pause=pause, out=out, errors=errors).encode()
    traced = b""
    if state.set_options.get("xtrace"):  # from the command's first line on, so that ours are not traced
        traced = f"{{ \\builtin set -x; {_status(state) or ':'}; }} 2>/dev/null; ".encode()
    return b"".join(text + b"\0" for text in (traced + command, before, after))


_PROGRAM = r"""
\builtin mapfile -d '' -n 3 -t -u {private} BASH_EXECUTION_STRING;
\builtin eval "${{BASH_EXECUTION_STRING[1]}}" 2>/dev/null;
\builtin eval "$BASH_EXECUTION_STRING" {private}>&- {pause}<&-;
{{ \set -- "$?" "$@"; \unset -f builtin exec; \builtin printf '%s\0' "$SHELLOPTS" "$BASHOPTS" "$#" "$@" >&{private};
\builtin set +euxv; \builtin trap -p >&{private}; \builtin trap - DEBUG ERR RETURN; }} >/dev/null 2>&1;
\builtin eval "${{BASH_EXECUTION_STRING[2]}}"
""".strip().replace("\n", " ")  # one line, so that the command's lines count from 1
_AFTERWARDS = r"""\exec {out}>&1 {errors}>&2 >&{private} 2>/dev/null
\builtin shopt -u expand_aliases
__ferrule=("${{BASH_EXECUTION_STRING[3]-}}" "${{BASH_EXECUTION_STRING[4]-}}"); \builtin unset -v BASH_EXECUTION_STRING
\builtin printf '\0'; \builtin pwd; \builtin printf '\0'; \builtin umask; \builtin printf '\0'
: "${{BASH_ALIASES[@]}}${{DIRSTACK[@]}}"; \builtin declare -p; \builtin printf '\0'
for __ferrule_pause in .02 .05 .1 .2 .3 .3; do __ferrule_own= __ferrule_lost= __ferrule_left=
\builtin read -r __ferrule_own </proc/$$/task/$$/children
\builtin read -r __ferrule_lost </proc/$PPID/task/$PPID/children
[[ ${{__ferrule_own% }} == "$__ferrule" && ${{__ferrule_lost% }} == "${{__ferrule[1]}}" ]] || __ferrule_left=y
\builtin kill -0 "$!" && __ferrule_left=y
[[ $__ferrule_left ]] || break
\exec {out}>&- {errors}>&-
\builtin read -r -t $__ferrule_pause -u {pause}
done
\builtin printf '%s ' "$__ferrule_own" "$__ferrule_lost"; \builtin jobs -rp; \builtin printf '\0'
\builtin declare -F; \builtin printf '\0'
if \builtin compgen -A function >/dev/null; then \builtin mapfile -t __ferrule < <(\builtin compgen -A function)
for __ferrule_own in "${{__ferrule[@]}}"; do \builtin declare -f -- "$__ferrule_own"; \builtin printf '\0'; done; fi
\builtin printf end
[[ $__ferrule_left ]] && \exec {out}>/dev/null {errors}>&{out}
\exec >&{out} 2>&{errors} {out}>&- {errors}>&- {private}>&- {pause}<&-; \builtin exit "$1"
"""
"""What is left running is given a moment, with nobody holding its output any more: in `> >(sort)`, that is when it
begins to write. A trap on EXIT has the command's own streams, unless something was left."""


def _restoring(state: ShellState, private: int) -> str:
    read = r"\builtin read -r 'BASH_EXECUTION_STRING[{0}]' </proc/{1}/task/{1}/children"
    lines = [
        r'\builtin set -- "$BASH_EXECUTION_STRING" "${BASH_EXECUTION_STRING[2]}"',
        r"\builtin unset -v BASH_EXECUTION_STRING",
        rf"""{{ \builtin declare -p; \builtin printf '\0%s\0%s\0' "$SHELLOPTS" "$BASHOPTS"; }} >&{private}""",
        *((rf"\builtin cd -- {quoted(state.folder)}",) if state.folder else ()),
        rf"{{ \builtin pwd; \builtin printf '\0'; }} >&{private}",
        *('BASH_EXECUTION_STRING=("$1" "" "$2" "" "")', read.format(3, "$$"), read.format(4, "$PPID")),
        rf"""\builtin printf '%s %s\0' "${{BASH_EXECUTION_STRING[@]:3}}" >&{private}""",
        r"\builtin unset -v OLDPWD; \builtin declare -x OLDPWD",
    ]
    if names := " ".join([*state.variables, *state.removed]):
        lines.append(f"\\builtin unset -v {names}")
    lines += [_declared(name, one) for name, one in state.variables.items()]
    if hidden := " ".join(name for name, one in state.functions.items() if "x" not in one.attributes):
        lines.append(f"\\builtin export -nf -- {hidden}")
    for name, one in state.functions.items():
        lines += [f"\\builtin declare -f{letter} -- {name}" for letter in one.attributes if letter in "rt"]
    lines += [f"\\builtin alias -- {quoted(f'{name}={text}')}" for name, text in state.aliases.items()]
    if state.umask:
        lines.append(f"\\builtin umask {state.umask}")
    lines += [f"\\builtin shopt -{'s' if on else 'u'} {name}" for name, on in state.shopt_options.items()]
    lines.append(f"\\builtin set -- {' '.join(map(quoted, state.parameters))}")
    # Those that say or stop things come last, so that they do it for the command alone.
    options = sorted(state.set_options.items(), key=lambda one: one[0] in ("errexit", "verbose", "posix"))
    if switches := " ".join(f"{'-' if on else '+'}o {name}" for name, on in options if name != "xtrace"):
        lines.append(f"\\builtin set {switches}")
    return "\n".join([*lines, _status(state)])


def _status(state: ShellState) -> str:
    """Make `$?` what it was; a shell that exits at the first failure would exit."""
    return f"(\\builtin exit {state.status})" if state.status and not state.set_options.get("errexit") else ""


def _declared(name: str, one: Variable) -> str:
    r"""An array is assigned by itself: behind `\builtin`, bash reads no `name=(…)`."""
    if one.value is None or isinstance(one.value, str):
        value = "" if one.value is None else f"={quoted(one.value)}"
        return f"\\builtin declare -{one.attributes or '-'} {name}{value}"
    keys = str if "a" in one.attributes else quoted
    whole = all(key == str(place) for place, (key, _) in enumerate(one.value)) and "a" in one.attributes
    items = " ".join(quoted(value) if whole else f"[{keys(key)}]={quoted(value)}" for key, value in one.value)
    locked = f"; \\builtin declare -r {name}" if "r" in one.attributes else ""
    return f"\\builtin declare -{one.attributes.replace('r', '')} {name}; {name}=({items}){locked}"


def quoted(text: str) -> str:
    """A word that means exactly this to bash."""
    return "'" + text.replace("'", "'\\''") + "'"


class BadDump(ValueError):  # noqa: N818 - says what it is
    """What came out is not what bash prints."""


def parse(dump: bytes, before: ShellState) -> tuple[ShellState | None, tuple[str, ...]]:
    """The state that came out of a command's bash, and what a reader of its result should know.

    None when there is none: the command ended its shell, or what came out cannot be taken.
    """
    sections = dump.split(b"\0")
    try:
        start = _Start.of(sections)
    except BadDump:
        return None, (f"The shell did not start. {KEPT_STATE}",) if not dump else (_unreadable("its start"),)
    notes: list[str] = []
    if before.folder is not None and start.folder != before.folder:
        notes.append(f"The folder `{before.folder}` no longer exists; the shell started in `{start.folder}`.")
    if len(dump) > MOST_BYTES:
        too_large = f"The session's variables and functions take more than {MOST_BYTES >> 20} MiB."
        return None, (*notes, f"{too_large} {KEPT_STATE}")
    if len(sections) > _MOST_NAMES:
        return None, (*notes, _unreadable(f"it has more than {_MOST_NAMES:,} parts"))
    if sections[-1] != b"end":
        ended = "It ended its own shell."
        return None, (*notes, f"{ended} {KEPT_STATE}")
    try:
        state = _state(sections[_Start.SECTIONS : -1], start, before, notes)
    except BadDump as error:
        return None, (*notes, _unreadable(str(error)))
    return state, tuple(notes)


def _unreadable(what: str) -> str:
    return f"The shell state that the command left could not be read ({what}). {KEPT_STATE}"


@dataclass(slots=True, frozen=True)
class _Start:
    """What a bash was before its session's state was restored."""

    SECTIONS = 5

    variables: Mapping[str, Variable]
    set_options: frozenset[str]
    shopt_options: frozenset[str]
    folder: str
    children: frozenset[bytes]

    @classmethod
    def of(cls, sections: list[bytes]) -> _Start:
        if len(sections) <= cls.SECTIONS:
            raise BadDump("its start is missing")
        return cls(
            variables=_variables(sections[0]),
            set_options=_options(sections[1]),
            shopt_options=_options(sections[2]) - {"extglob"},  # which `program` may have it start with
            folder=_line(sections[3]),
            children=frozenset(sections[4].split()),
        )


def _state(sections: list[bytes], start: _Start, before: ShellState, notes: list[str]) -> ShellState:
    """What a bash wrote after its command, section by section."""
    rest = iter(sections)

    def section() -> bytes:
        try:
            return next(rest)
        except StopIteration:
            raise BadDump("a part is missing") from None

    set_options, shopt_options = _options(section()), _options(section())
    count = _number(section())
    status, *parameters = [section() for _ in range(min(count, _MOST_NAMES))] or [b""]
    # One on EXIT has run, or will when its shell ends, as in a script; others end with it.
    if names := sorted(set(re.findall(r"' (SIG\w+|DEBUG|ERR|RETURN)$", _text(section()), re.MULTILINE))):
        notes.append(f"Traps are not kept for the next command: {', '.join(names[:_MOST_NAMED])}.")
    folder, umask = _line(section()) or before.folder, _line(section())
    if not re.fullmatch("[0-7]{3,4}", umask):
        raise BadDump("its umask")
    found = _variables(section())
    left = frozenset(section().split()) - start.children
    if left:
        many = "1 process running; it was" if len(left) == 1 else f"{len(left):,} processes running; they were"
        notes.append(f"The command left {many} stopped. To keep one running, start it with `run_in_background`.")
    functions = _functions(section(), section, notes)
    if next(rest, None) is not None:
        raise BadDump("something is left over")
    listed = found.pop("BASH_ALIASES", Variable()).value
    aliases = listed if isinstance(listed, tuple) else ()
    if len(found.get("DIRSTACK", Variable()).value or ()) > 1:
        notes.append("The directory stack of `pushd` is not kept for the next command.")
    return ShellState(
        folder=folder,
        variables=_kept_variables(found, start.variables, before, notes),
        removed=frozenset(
            name for name in (start.variables.keys() | before.removed) - found.keys() if not _is_shells_own(name)
        ),
        functions=functions,
        aliases={name: text for name, text in aliases if _ALIAS_NAME.fullmatch(name)},
        set_options=_changed(start.set_options, set_options),
        shopt_options=_changed(start.shopt_options, shopt_options),
        parameters=tuple(map(_text, parameters)),
        umask=umask,
        status=_number(status) & 0xFF,
    )


def _kept_variables(
    found: Mapping[str, Variable], start: Mapping[str, Variable], before: ShellState, notes: list[str]
) -> dict[str, Variable]:
    kept: dict[str, Variable] = {}
    refused: list[str] = []
    for name, one in found.items():
        if _is_shells_own(name) or name.startswith("__ferrule"):
            continue
        if name in _OF_TERMINAL and "x" not in one.attributes:
            continue  # bash sets them itself, to what the terminal has
        if start.get(name) == one and name not in before.variables:
            continue
        plain = isinstance(one.value, str) and {*one.attributes} <= {"x"}
        if _is_safe(one) and (plain or name != "OLDPWD"):  # which `cd` assigns to, whatever it has become
            kept[name] = one
        else:
            refused.append(name)
    _note_dropped("variable", refused, notes)
    return kept


def _is_safe(one: Variable) -> bool:
    """Whether declaring it runs nothing: bash computes what it assigns to an integer, and the numbers of an array."""
    if one.value is None or isinstance(one.value, str):
        values, keys = [one.value or "0"], list[str]()
    else:
        values, keys = [value for _, value in one.value], [key for key, _ in one.value]
    if "i" in one.attributes and not all(_NUMBER.fullmatch(value) for value in values):
        return False
    return "a" not in one.attributes or all(_INDEX.fullmatch(key) for key in keys)


def _functions(listed: bytes, section: Callable[[], bytes], notes: list[str]) -> dict[str, Function]:
    """The functions: a list of their names and attributes, then the text of each."""
    found: dict[str, Function] = {}
    refused: list[str] = []
    size = 0
    for line in listed.splitlines():
        entry = _LISTED_FUNCTION.fullmatch(line)
        if entry is None:
            raise BadDump("its functions")
        name, text = _text(entry[2]), section()
        header = entry[2] + b" () \n{ "
        if not text.startswith(header):
            raise BadDump("a function")
        body = "() { " + _text(text[len(header) :].rstrip(b"\n"))
        size += len(name) + len(body)
        if _FUNCTION_NAME.fullmatch(name) and len(text) < _LARGEST_FUNCTION and size < _MOST_OF_FUNCTIONS:
            found[name] = Function("".join(sorted(set(entry[1].decode()) & set("rtx"))), body)
        else:
            refused.append(name)
            size -= len(name) + len(body)
    _note_dropped("function", refused, notes)
    return found


_NUMBER = lazy_pattern(r"-?[0-9]{1,20}")
_INDEX = lazy_pattern(r"[0-9]{1,19}")
_LISTED_FUNCTION = lazy_pattern(rb"declare -([a-zA-Z]{1,10}) ([^\s\0]{1,1000})")
_FUNCTION_NAME = lazy_pattern(r"(?!(?:builtin|exec)$|-)[\w.:+@,^-]{1,200}")
_ALIAS_NAME = lazy_pattern(r"""[^\s/=$`'"\\<>|&;()]{1,200}""")
_ENTRY = lazy_pattern(rb"declare -([-acilnrtuxA]{1,12}) ([A-Za-z_][A-Za-z0-9_]*)(?:(=)(\()?)?")
_QUOTED = rb"""(?:"((?:[^"\\$`]++|\\["\\$`])*+)"|\$'((?:[^'\\]++|\\(?:[abEfnrtv\\'"?]|[0-7]{3}))*+)')"""
_VALUE = lazy_pattern(_QUOTED)
_ITEM = lazy_pattern(rb"""\[(?:([^\]\s"'$`\\]++)|""" + _QUOTED + rb")\]=" + _QUOTED + b" ?")
_ESCAPE = lazy_pattern(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {
    b"a": b"\a", b"b": b"\b", b"E": b"\x1b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
}  # fmt: skip
_SHORT = 1000


def _variables(printed: bytes) -> dict[str, Variable]:
    r"""What `declare -p` printed: a line for each, since it writes a line end in a value as `\n`."""
    *lines, rest = printed.split(b"\n")
    if rest or len(lines) > _MOST_NAMES:
        raise BadDump("its variables")
    found = dict(_known_entry(line) if len(line) < _SHORT else _entry(line) for line in lines)
    if len(found) != len(lines):
        raise BadDump("a variable that is there twice")
    return found


def _entry(line: bytes) -> tuple[str, Variable]:
    head = _ENTRY.match(line)
    if head is None:
        raise BadDump("a variable")
    name, attributes = head[2].decode(), "".join(sorted(head[1].decode().replace("-", "")))
    value: str | tuple[tuple[str, str], ...] | None = None
    place = head.end()
    if head[4]:
        items: list[tuple[str, str]] = []
        while (item := _ITEM.match(line, place)) is not None:
            plain, *quoted_key, double, single = item.groups()
            key = plain.decode(errors="surrogateescape") if plain is not None else _unquoted(*quoted_key)
            items.append((key, _unquoted(double, single)))
            place = item.end()
        if line[place : place + 1] != b")":
            raise BadDump("an array")
        value, place = tuple(items if "a" in attributes else sorted(items)), place + 1
    elif head[3]:
        found = _VALUE.match(line, place)
        if found is None:
            raise BadDump("a value")
        value, place = _unquoted(*found.groups()), found.end()
    is_array = "a" in attributes or "A" in attributes
    if place != len(line) or (value is not None and isinstance(value, tuple) != is_array):
        raise BadDump(f"the variable {name}")
    return name, Variable(attributes, value)


_known_entry = lru_cache(maxsize=1024)(_entry)  # nearly all are the same after each command


def _unquoted(double: bytes | None, single: bytes | None) -> str:
    r"""The text of `"…"` or of `$'…'`, in which bash writes what cannot be printed."""
    if double is not None:
        return _text(_ESCAPE.sub(rb"\1", double) if b"\\" in double else double)
    return _text(_ESCAPE.sub(_escaped, single or b""))


def _escaped(found: re.Match[bytes]) -> bytes:
    word = found[1]
    return bytes([int(word, 8) & 0xFF]) if len(word) == 3 else _ESCAPED.get(word, word)


def _is_shells_own(name: str) -> bool:
    return name in _SHELLS_OWN or (name.startswith("BASH") and name not in _NOT_ITS_OWN)


@lru_cache(maxsize=64)
def _options(listed: bytes) -> frozenset[str]:
    names = _text(listed).split(":") if listed else []
    if not all(re.fullmatch("[a-z][a-z0-9_-]{0,39}", name) for name in names):
        raise BadDump("its options")
    return frozenset(names)


def _changed(start: frozenset[str], end: frozenset[str]) -> dict[str, bool]:
    return {name: name in end for name in sorted((start ^ end) - _NOT_KEPT_OPTIONS)}


def _number(section: bytes) -> int:
    if not re.fullmatch(rb"[0-9]{1,9}", section):
        raise BadDump("a number")
    return int(section)


def _line(section: bytes) -> str:
    return _text(section.removesuffix(b"\n"))


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _note_dropped(kind: str, names: list[str], notes: list[str]) -> None:
    if names:
        shown = ", ".join(f"`{name[:60]}`" for name in names[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        many = f"The {kind} {shown}" if len(names) == 1 else f"The {kind}s {shown}{more}"
        notes.append(f"{many} cannot be kept for the next command.")
