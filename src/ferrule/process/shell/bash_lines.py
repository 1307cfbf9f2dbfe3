r"""The lines of bash that Ferrule itself runs in a session, and what they promise.

Three kinds of process read them. The *guard* is a bash that runs no command of anyone: it holds the descriptors and
starts the *shell*, again and again if need be, so that a sandbox, its `/tmp` and its background processes outlive a
shell that a command ended. The shell reads its lines from a pipe, as it would a script, so a command is at top level:
`set --`, `break` and `return` mean what they mean in a script.

The shell has none of Ferrule's descriptors. It opens what it needs for as long as it needs it through the guard
(`/proc/GUARD/fd/N`), so a command inherits its standard input, output and error, and nothing else. The line that
reports a command's end, with a number nobody can guess, lies unread in the pipe until the command has ended.

Every word that a command could redefine stands behind `\builtin`; a function of that very name is taken away first.
Should a command break even this, no report comes though every line was read, which is noticed (`Foreground.news`).
"""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass

SAVE_AND_END = 61
"""The signal on which a shell saves its state and exits, whatever it is doing."""
SHELL = "bash --noprofile --norc"
"""What a shell, and every copy that it makes of itself for a command, calls itself."""
_END = "\\builtin exit 124"
_TEXT = "__ferrule_text_"
_TEXTS = f'"${{!{_TEXT}@}}"'
"""Every variable that holds the text of a command."""


@dataclass(slots=True, frozen=True)
class Place:
    """The guard's descriptors for one shell: a command that goes on in the background keeps its own."""

    lines: int
    text: int
    saved: int
    library: int
    epilogue: int

    def all(self) -> tuple[int, ...]:
        """Every one of them."""
        return (self.lines, self.text, self.saved, self.library, self.epilogue)


@dataclass(slots=True, frozen=True)
class Numbers:
    """The guard's descriptors, by what they are for."""

    orders: int
    reports: int
    places: tuple[Place, ...]
    outputs: tuple[tuple[int, int], ...]
    terminal: int = -1

    def all(self) -> list[int]:
        """Every one of them, for handing down and for closing."""
        terminal = (self.terminal,) if self.terminal >= 0 else ()
        places = [number for one in self.places for number in one.all()]
        outputs = [number for pair in self.outputs for number in pair]
        return [self.orders, self.reports, *terminal, *places, *outputs]


def guard_script(numbers: Numbers) -> str:
    """What the guard runs: it says who it is, then starts a shell for each order, and tells how each ended."""
    closed = " ".join(f"{number}>&-" for number in numbers.all())
    # A group of its own keeps `kill 0` in a command from reaching the guard, and lets several shells run side by side.
    # On a terminal it would be a stranger, so there is one shell, in front, that gets the terminal's signals.
    own_group, beside = ("", "") if numbers.terminal >= 0 else ("set -m\n", " &")
    return (
        f"{own_group}trap : INT TERM HUP QUIT\n"
        f"printf 'guard %s\\0' $$ >&{numbers.reports}\n"
        f"while IFS=' ' read -r -u {numbers.orders} nonce lines afresh; do [[ $lines ]] || continue; {{\n"
        f'(exec $afresh -a bash "$BASH" --noprofile --norc <&"$lines" >/dev/null 2>/dev/null {closed})\n'
        f"printf '%s died %s\\0' \"$nonce\" $? >&{numbers.reports}\n"
        f"}}{beside}\ndone\n"
    )


@dataclass(slots=True, frozen=True)
class Lines:
    """The lines for one shell of one guard."""

    guard: int
    numbers: Numbers
    place: Place

    def _at(self, number: int) -> str:
        return f"/proc/{self.guard}/fd/{number}"

    @property
    def signal_trap(self) -> bytes:
        """What `trap -p` says of the signal's trap while it is in its place."""
        return f"trap -- '{_END}' SIG".encode()

    @property
    def exit_trap(self) -> str:
        """What the trap on EXIT runs, as long as no command has set its own."""
        return f"\\builtin . {self._at(self.place.library)}"

    def library(self) -> str:
        r"""Save the shell's state, as lines that make it again. Three parts, each ended by a NUL.

        The trap on EXIT by itself, since whoever has set one wants it run; the state; the folder. Options come last:
        what makes the state again must not stop at the first failing line. A command that exits inside a function has
        the function's own variables in view: they are taken off, so that they do not become everyone's.
        """
        return f"""
if [[ ${{FUNCNAME[1]-main}} != main && ${{FUNCNAME[1]}} != source ]]; then
\\builtin local -p 2>/dev/null >|{self._at(self.place.saved)}
\\builtin mapfile -t __ferrule <{self._at(self.place.saved)}
__ferrule_drop() {{ \\builtin unset -v "$1"; }}
for __ferrule_one in "${{__ferrule[@]}}"; do
if [[ $__ferrule_one =~ ^declare' '-[^' ']*' '([A-Za-z_][A-Za-z0-9_]*) ]]; then
__ferrule_drop "${{BASH_REMATCH[1]}}"
fi
done 2>/dev/null
\\builtin unset -f __ferrule_drop
fi
\\builtin unset -v __ferrule __ferrule_one {_TEXTS} 2>/dev/null
{{
\\builtin trap -p EXIT
\\builtin printf '\\0'
\\builtin shopt -p
\\builtin declare -f
\\builtin declare -F
\\builtin declare -p
[[ -v IFS ]] || \\builtin printf 'unset -v IFS\\n'
\\builtin umask -p
\\builtin trap -p
\\builtin printf 'set --'
if (( $# )); then \\builtin printf ' %q' "$@"; fi
\\builtin printf '\\n'
\\builtin alias -p
\\builtin set +o
\\builtin printf '\\0'
\\builtin pwd
\\builtin printf '\\0'
}} >|{self._at(self.place.saved)} 2>/dev/null || \\builtin :
"""

    def epilogue(self) -> str:
        """Tell how a command ended, and only then, when nobody waits for it any more, save the state."""
        reports = self._at(self.numbers.reports)
        return f"""
\\unset -f builtin
\\builtin printf '%s %s\\0' "$__ferrule_end" "${{PWD-}}" >{reports}
if [[ ${{__ferrule_save-}} ]]; then {self.exit_trap}; fi
\\builtin printf '%s saved\\0' "${{__ferrule_end%% *}}" >{reports}
\\builtin unset -v __ferrule_end __ferrule_save {_TEXTS} 2>/dev/null
"""

    def traps(self, *, on_exit: bool) -> str:
        """See to it that the shell saves its state before it ends, and ends when it is told to."""
        on_signal = f"\\builtin trap '{_END}' {SAVE_AND_END}; "
        return on_signal + (f"\\builtin trap '{self.exit_trap}' EXIT; " if on_exit else "")

    def round(self, nonce: str, pair: tuple[int, int], *, status: int, traps: str, save: bool) -> bytes:
        """Run the command in the text descriptor, with `$?` as the one before left it.

        Bash reads these lines byte by byte, so they are short: what they share lies in files in memory. The empty line
        matters: after an unmatched quote in `eval`, bash takes the next word for an argument.
        """
        again = f"[[ $- == *e* ]] || (\\builtin exit {status}); " if status else ""
        saved = " __ferrule_save=y" if save else ""
        name = _text_name()
        return (
            f"\n{traps}{self._load(name)}"
            f'{again}\\builtin eval "${{{name}[0]?}}" {self._terminal() or self._pipes(pair)}\n'
            f'\n__ferrule_end="{nonce} ended $?"{saved}\n'
            f"{self._mark(nonce)}"
            f"\\. {self._at(self.place.epilogue)}\n"
        ).encode()

    def _mark(self, nonce: str) -> str:
        """On a terminal, what was written comes out later than the report; this word comes after all of it."""
        number = self.numbers.terminal
        return f"\\builtin printf %s {nonce} >{self._at(number)}\n" if number >= 0 else ""

    def background(self, nonce: str, end_nonce: str, pair: tuple[int, int]) -> bytes:
        """Run the command in a copy of the shell that tells its end by itself; the shell goes on at once."""
        report = f"\\builtin printf '{end_nonce} over %s\\0' $? >{self._at(self.numbers.reports)}"
        name = _text_name()
        copy = f'[[ $__ferrule_set != *e* ]] || \\builtin set -e; \\builtin eval "${{{name}[0]?}}"'
        return (
            f"{self._load(name)}"
            f"{{ __ferrule_set=$-; \\builtin set +e; ( {copy} ); {report}; }} {self._pipes(pair)} &\n"
            f'__ferrule_end="{nonce} begun $!"\n'
            f"\\. {self._at(self.place.epilogue)}\n"
        ).encode()

    def restore(self, nonce: str, folder: str | None) -> bytes:
        """Make the saved state again in a fresh shell, and say that it is ready.

        A trap on EXIT that a command had set has run by now, or its shell was killed; either way it is over. Going
        there sets `OLDPWD`, which is the state's to say: it is taken away, also for a state that has none. What the
        epilogue works with was there when the state was saved, and is no part of it.
        """
        go_there = f"\\builtin cd -- {shlex.quote(folder)} || __ferrule_gone=y\n" if folder else ""
        return (
            f"{go_there}"
            "\\builtin unset -v OLDPWD; \\builtin export OLDPWD\n"
            f"\\. {self._at(self.place.saved)}\n"
            f"{self.traps(on_exit=True)}"
            "[[ ${__ferrule_gone-} ]] && \\builtin cd -P .\n"
            "\\builtin unset -v __ferrule_gone __ferrule_end __ferrule_save || \\builtin :\n"
            f"\\builtin printf '%s %s %s\\0' '{nonce} ready' $$ \"${{PWD-}}\" >{self._at(self.numbers.reports)}\n"
        ).encode()

    def _load(self, name: str) -> str:
        return f"\\builtin mapfile -d '' -n 1 -t {name} <{self._at(self.place.text)}\n"

    def _terminal(self) -> str:
        return f"0<>{self._at(self.numbers.terminal)} 1>&0 2>&0" if self.numbers.terminal >= 0 else ""

    def _pipes(self, pair: tuple[int, int]) -> str:
        return f"</dev/null >{self._at(pair[0])} 2>{self._at(pair[1])}"


def _text_name() -> str:
    """Another variable each time, so that no command can keep its own text there and have it run for the next one."""
    return f"{_TEXT}{secrets.token_hex(4)}"
