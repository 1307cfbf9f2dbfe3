"""Interpreters, compilers, build tools and package managers: they run what they are given."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase

from ..expansion import Loose
from ..finding import READS, RUNS, Finding, Inner
from ..naming import names
from .table import Operands, Program, certain, describe, informs, reader, runs, subcommands

_DESTROYS = re.compile(
    r"rmtree|unlink|os\.remove|removedirs|rmdir|shutil\.move|rm\s+-\w*[rf]|rmSync|rimraf|fs\.rm|FileUtils\.rm|remove_dir_all|File\.delete|Remove-Item"
    r"|mkfs|/dev/sd|shutdown|fork while|fork\s*\(?\)?\s*while|while\s*\(?\s*(1|True|true)\)?\s*:?\s*(os\.)?fork"
)
_REACHES = re.compile(
    r"socket|urllib|requests\.|http\.|https?://|/dev/tcp|fetch\(|Net::HTTP|IO::Socket|dup2|pty\.spawn"
)
_INLINE = frozenset(names("-c -e -E -p --eval --print --execute -r --run -exec -ne -pe -ane -nle -le -lne -i"))
_LOOKS = reader("lists what is installed", open=True, operands=Operands.WORDS)


def _interpreter(name: str, arguments: list[str]) -> Finding:
    if len(arguments) == 1 and (
        arguments[0] in ("--version", "-V", "-VV", "--help", "-h", "-version")
        or (arguments[0] == "-v" and name not in ("python", "python3", "python2"))
    ):
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    dangers: list[str] = []
    code = " ".join(arguments)
    if _DESTROYS.search(code):
        dangers.append("the code that it is given removes or destroys things")
    elif re.search(r"setuid|setgid", code):
        dangers.append("the code that it is given takes other rights")
    elif re.search(r"dup2|pty\.spawn|/bin/(ba)?sh", code) and _REACHES.search(code):
        dangers.append("the code that it is given hands a shell to another machine")
    files = (
        []
        if any(word in _INLINE for word in arguments)
        else [word for word in arguments if not word.startswith("-")][:1]
    )
    from_input = (
        not arguments or arguments == ["-"] or all(word.startswith("-") and word not in _INLINE for word in arguments)
    )
    hosts: list[str | None] = [None] if _REACHES.search(code) else []
    return Finding(RUNS, f"`{name}` runs code", files, hosts=hosts, dangers=dangers, from_input=from_input)


def _pip(name: str, arguments: list[str]) -> Finding:
    operands = [word for word in arguments if not word.startswith("-")]
    strange = any(
        word.startswith(("--python", "--log", "--config", "--proxy", "--cache", "--path"))
        or (type(word) is Loose and word.option)
        for word in arguments
    )
    if arguments in (["--version"], ["-V"], ["--help"], ["-h"]) or (
        operands[:1]
        and operands[0] in ("list", "show", "freeze", "check", "help")
        and not strange
        and "-o" not in arguments
        and "--outdated" not in arguments
    ):
        return Finding(READS, f"`{name}` lists what is installed")
    dangers = [phrase("it removes packages")] if operands[:1] == ["uninstall"] else []
    return Finding(RUNS, f"`{name}` installs packages, whose code runs", hosts=[None], dangers=dangers)


def _npm_run(name: str, arguments: list[str]) -> Finding:
    dangers = (
        [phrase("it publishes or removes a package for all the world")]
        if arguments[:1] and arguments[0] in ("publish", "unpublish", "deprecate")
        else []
    )
    return Finding(RUNS, f"`{name}` runs scripts of the project or its packages", hosts=[None], dangers=dangers)


_NPM = subcommands(
    {
        **dict.fromkeys(
            names("ls list ll la root prefix bin explain why help"),
            _LOOKS,
        ),
        "config get": _LOOKS,
        "config list": _LOOKS,
    },
    otherwise=informs("-v", "-h", otherwise=_npm_run),
)


def _go(name: str, arguments: list[str]) -> Finding:
    if arguments[:1] in (["version"], ["help"]) and len(arguments) <= 2:
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    if arguments[:1] == ["env"] and all(re.fullmatch(r"[A-Z_0-9]+|-json", word) for word in arguments[1:]):
        return Finding(READS, f"`{name} env` prints settings")
    return Finding(RUNS, f"`{name}` runs a toolchain, which can be told to run other programs")


@certain
def _openssl(name: str, arguments: list[str]) -> Finding:
    if arguments[:1] == ["version"]:
        return Finding(READS, f"`{name} version` tells about itself")
    if arguments[:1] == ["x509"] and all(
        re.fullmatch(r"-(in|text|noout|subject|issuer|dates|fingerprint|serial|enddate|startdate|sha256)", w)
        or not w.startswith("-")
        for w in arguments[1:]
    ):
        return Finding(READS, f"`{name} x509` shows a certificate", [w for w in arguments[1:] if not w.startswith("-")])
    return Finding(
        RUNS,
        f"`{name}` can write files, load code and reach other machines",
        hosts=[None] if arguments[:1] == ["s_client"] else [],
    )


@certain
def _dpkg(name: str, arguments: list[str]) -> Finding:
    looks = (
        "-l",
        "-L",
        "-s",
        "-S",
        "-p",
        "--list",
        "--listfiles",
        "--status",
        "--search",
        "--get-selections",
        "--print-architecture",
        "--version",
        "-W",
        "--show",
        "-f",
        "--showformat",
        "--print-avail",
        "--verify",
        "-V",
    )
    if arguments and all(
        word in looks or not word.startswith("-") or word.startswith(("-f=", "--showformat=", "-W"))
        for word in arguments
    ):
        return Finding(READS, f"`{name}` lists what is installed")
    return Finding(
        RUNS, f"`{name}` changes what is installed", dangers=[phrase("it changes what is installed on the machine")]
    )


@certain
def _rpm(name: str, arguments: list[str]) -> Finding:
    if (
        arguments
        and re.fullmatch(r"-q[ailfcdRp]*", arguments[0])
        and all(
            not word.startswith("-")
            or re.fullmatch(r"-[qailfcd]+|--(last|changelog|info|list|requires|provides)", word)
            for word in arguments
        )
    ):
        return Finding(READS, f"`{name} -q` lists what is installed")
    return Finding(
        RUNS, f"`{name}` changes what is installed", dangers=[phrase("it changes what is installed on the machine")]
    )


_ENVIRONMENTS = subcommands(
    dict.fromkeys(("list", "info", "versions", "version", "show", "env list", "toolchain list"), _LOOKS),
    otherwise=informs("-V", "-v", "--help", otherwise=runs("runs what the project tells it to")),
)
_PACKAGE_LISTS = reader(
    "lists what is known of packages",
    open=True,
    operands=Operands.WORDS,
    spoils=dict.fromkeys(
        ("-o", "-c", "--option", "--config-file", "--config", "--setopt", "--installroot", "--plugin"),
        (RUNS, "changes settings, which can name programs to run"),
    ),
)
_INSTALLS = phrase("it changes what is installed on the machine")
_PACKAGES = subcommands(
    {
        **dict.fromkeys(
            names("list show search policy depends rdepends showpkg info leaves deps outdated"),
            _PACKAGE_LISTS,
        )
    },
    otherwise=informs("-v", "-V", otherwise=runs("changes what is installed", _INSTALLS)),
)
_RUNS_PROJECT = runs("runs what the project tells it to")
_TOOL = informs(otherwise=_RUNS_PROJECT)
_TOOL_WITH_V = informs("-v", "-V", "--help", "-h", "version", otherwise=_RUNS_PROJECT)
_COMPILER = informs("-v", "-V", "--help", "-dumpversion", "-dumpmachine", "-version", otherwise=_RUNS_PROJECT)


def _make(name: str, arguments: list[str]) -> Finding:
    if arguments in (["--version"], ["-v"], ["--help"], ["-h"]):
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    return Finding(RUNS, f"`{name}` runs what the project tells it to")


def _runs_rest(*verbs: str) -> Program:
    """`poetry run CMD`, `uv run CMD`: the command behind the verb runs, in an environment of the project."""

    def describe_runner(name: str, arguments: list[str]) -> Finding:
        if len(arguments) == 1 and arguments[0] in ("--version", "-V", "-v", "--help", "version"):
            return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
        if name == "uv" and arguments[:1] == ["pip"]:
            return _pip("uv pip", arguments[1:])
        inner = (
            [Inner(first=1)]
            if len(arguments) > 1 and arguments[0] in verbs and not arguments[1].startswith("-")
            else []
        )
        return Finding(RUNS, f"`{name}` runs commands in an environment of the project", hosts=[None], inner=inner)

    return describe_runner


def _binary(program: Program) -> Program:
    """Programs that take more options from a file, given as `@file`."""

    def describe_binary(name: str, arguments: list[str]) -> Finding:
        if any(word.startswith("@") for word in arguments):
            return Finding(RUNS, f"`{name} @…` takes its options from a file, and can load code")
        return describe(program, name, arguments)

    return describe_binary


_INTERPRETERS = names(
    """
    python python2 python3 pypy pypy3 ipython perl ruby irb node nodejs deno bun php lua luajit tclsh wish expect
    Rscript R julia ghc runghc ghci scala groovy kotlin clojure erl elixir iex racket guile sbcl ocaml swift java
    jshell jrunscript osascript pwsh powershell cmd gdb lldb ts-node tsx coffee nashorn octave matlab sage bpython nu
    xonsh m4 gnuplot
    """
)
_TOOLS = names(
    """
    cmake ninja meson bazel buck gradle gradlew mvn mvnw ant sbt lein rake tox nox pytest unittest mypy pyright ruff
    black isort flake8 pylint eslint prettier tsc jest vitest mocha webpack vite rollup esbuild parcel turbo nx lerna
    yarn pnpm npx pnpx bunx cargo rustc rustup gcc g++ cc c++ clang clang++ ld as go-task just task dotnet msbuild
    javac kotlinc scalac zig nim crystal dart flutter composer gem bundle bundler pipx pyenv rbenv nvm fnm volta asdf
    mise sdk conda mamba nix nix-shell nix-env nix-build guix stack cabal opam mix rebar3 jupyter ansible-galaxy
    helmfile skaffold tilt pre-commit husky lint-staged gofmt goimports golangci-lint rustfmt clang-format clang-tidy
    scons waf autoconf automake autoreconf configure libtool pkg-config doxygen sphinx-build mkdocs hugo jekyll gatsby
    next nuxt ng vue create-react-app vim vi nvim view vimdiff ex ed emacs nano pico micro helix hx code subl gedit mc
    ranger nnn tmux screen byobu tig lazygit gitk ftp ffmpeg convert magick pdflatex latex xelatex tex gs pandoc
    wkhtmltopdf qemu-system-x86_64 wine strace-log docker-machine xdg-open open start gpg gpg2 gpg-agent ssh-add
    ssh-agent ssh-keygen ssh-keyscan ssh-copy-id pass security keytool certutil secret-tool zdb msfconsole sqlmap john
    hashcat
    """
)

BUILD: dict[str, Program] = {
    **dict.fromkeys(_TOOLS, _TOOL),
    **dict.fromkeys(
        names("yarn pnpm npx gradle mvn meson bundle gem cargo dotnet tsc jest composer deno"), _TOOL_WITH_V
    ),
    **dict.fromkeys(names("gcc g++ cc c++ clang clang++ rustc javac zig"), _COMPILER),
    **dict.fromkeys(_INTERPRETERS, _interpreter),
    **dict.fromkeys(["pip", "pip3"], _pip),
    **dict.fromkeys(["conda", "mamba", "pyenv", "rbenv", "rustup", "pipx"], _ENVIRONMENTS),
    "npm": _NPM,
    "go": _go,
    "openssl": _openssl,
    **dict.fromkeys(["make", "gmake", "remake"], _make),
    **dict.fromkeys(["dpkg", "dpkg-query"], _dpkg),
    "rpm": _rpm,
    "apt-cache": _PACKAGES,
    **dict.fromkeys(
        names(
            """
        apt apt-get aptitude yum dnf zypper pacman apk brew port snap flatpak emerge pkg choco winget scoop
        """
        ),
        _PACKAGES,
    ),
    "uv": _runs_rest("run"),
    "poetry": _runs_rest("run"),
    "pipenv": _runs_rest("run"),
    "hatch": _runs_rest("run"),
    "pdm": _runs_rest("run"),
    "rye": _runs_rest("run"),
    "direnv": _runs_rest(),
    "nm": _binary(
        reader(
            "lists symbols",
            "ABCDgnoprSsuvaPt:f:",
            "demangle? dynamic extern-only undefined-only defined-only size-sort numeric-sort no-sort"
            " print-size radix= format= debug-syms",
        )
    ),
    "objdump": _binary(
        reader(
            "shows machine code",
            "aDdfghirSstTxpCwlj:M:m:b:",
            "all-headers disassemble disassemble-all full-contents syms dynamic-syms reloc source demangle?"
            " section= no-show-raw-insn line-numbers private-headers file-headers section-headers"
            " start-address= stop-address=",
        )
    ),
    "readelf": reader(
        "shows a program file",
        "ahlSsedrnuVADIWgtc",
        "all file-header program-headers sections symbols syms headers dynamic relocs notes wide"
        " version-info dyn-syms segments",
    ),
    "size": _binary(reader("shows sizes of a program", "ABdoxt", "format= totals common")),
    "otool": reader("shows a program file", "LlhvtdDfa", ""),
    "addr2line": reader(
        "names a line of code",
        "e:fCaips",
        "exe= functions demangle? inlines",
        operands=Operands.WORDS,
        files="-e --exe",
    ),
    "ctags": runs("writes an index"),
}
