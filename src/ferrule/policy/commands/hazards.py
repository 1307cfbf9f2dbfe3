"""Names that matter wherever they turn up: variables that make programs run code, places to protect, secrets."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase

from .naming import names

_LOADS_CODE = frozenset(
    names(
        """
        LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT LD_DEBUG_OUTPUT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH
        DYLD_FRAMEWORK_PATH GCONV_PATH PATH BASH_ENV ENV IFS HOME CDPATH SHELL SHELLOPTS BASHOPTS PS0 PS1 PS2 PS4
        PROMPT_COMMAND GLOBIGNORE BASH_XTRACEFD FPATH HISTFILE HISTCONTROL HISTIGNORE HISTSIZE HISTFILESIZE INPUTRC
        BASH_LOADABLES_PATH EXECIGNORE TMOUT FUNCNEST POSIXLY_CORRECT PYTHONSTARTUP PYTHONPATH PYTHONHOME
        PYTHONINSPECT PYTHONBREAKPOINT PYTHONWARNINGS PYTHONUSERBASE PYTHONEXECUTABLE NODE_OPTIONS NODE_PATH PERL5OPT
        PERL5LIB PERL5DB PERLLIB RUBYOPT RUBYLIB LUA_INIT LUA_PATH LUA_CPATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS
        JDK_JAVA_OPTIONS CLASSPATH PHPRC PHP_INI_SCAN_DIR R_PROFILE R_PROFILE_USER GHCRTS ERL_AFLAGS
        DOTNET_STARTUP_HOOKS GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR
        GIT_ASKPASS GIT_PROXY_COMMAND GIT_EXEC_PATH GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_COUNT
        GIT_CONFIG_PARAMETERS GIT_DIR GIT_WORK_TREE GIT_TEMPLATE_DIR GIT_OBJECT_DIRECTORY
        GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_INDEX_FILE GIT_COMMON_DIR GIT_TRACE GIT_TRACE2 GIT_TRACE2_EVENT
        GIT_ALLOW_PROTOCOL GIT_ATTR_SOURCE XDG_CONFIG_HOME XDG_DATA_DIRS XDG_CONFIG_DIRS PAGER EDITOR VISUAL BROWSER
        MANPAGER MANOPT MANROFFOPT MANPATH LESSOPEN LESSCLOSE LESSEDIT LESS LESSKEY LESSKEYIN LESSKEY_CONTENT MORE
        SYSTEMD_PAGER SYSTEMD_EDITOR SYSTEMD_LESS BAT_PAGER DELTA_PAGER GREP_OPTIONS RIPGREP_CONFIG_PATH TAR_OPTIONS
        TAPE GZIP XZ_OPT XZ_DEFAULTS BZIP2 ZIPOPT UNZIP RSYNC_RSH RSYNC_OLD_ARGS CVS_RSH SVN_SSH SSH_ASKPASS
        SSH_ASKPASS_REQUIRE SUDO_ASKPASS FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS FZF_CTRL_T_COMMAND MAKEFLAGS MFLAGS
        GNUMAKEFLAGS MAKEFILES CC CXX LD CFLAGS CXXFLAGS LDFLAGS RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS
        CARGO_HOME CARGO_BUILD_RUSTC GOFLAGS GOROOT GOPATH GOENV GOTOOLCHAIN CGO_CFLAGS CGO_LDFLAGS
        NPM_CONFIG_SCRIPT_SHELL NPM_CONFIG_PREFIX NPM_CONFIG_USERCONFIG PIP_CONFIG_FILE PIP_INDEX_URL
        PIP_EXTRA_INDEX_URL UV_INDEX_URL DOCKER_HOST DOCKER_CONFIG DOCKER_CONTEXT KUBECONFIG KUBE_EDITOR
        KUBECTL_EXTERNAL_DIFF AWS_CONFIG_FILE ANSIBLE_CONFIG CURL_HOME WGETRC NETRC OPENSSL_CONF OPENSSL_ENGINES
        SSL_CERT_FILE HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy TERM TERMINFO TERMCAP
        TERMINFO_DIRS LOCPATH NLSPATH TMPDIR HOSTALIASES RES_OPTIONS MALLOC_CHECK_ GLIBC_TUNABLES VIMINIT EXINIT
        EMACSLOADPATH PSQLRC PSQL_PAGER MYSQL_HOME SQLITE_HISTORY AWKPATH AWKLIBPATH GAWK_PERSIST_FILE ACKRC
        JQ_LIBRARY_PATH MAGIC LS_COLORS_FILE TZDIR SPLIT_FILTER FILTER_BRANCH_SQUELCH_WARNING BASH_COMPAT BASH_CMDS
        BASH_ALIASES OPTIND
        """
    )
) - {"OPTIND", "LS_COLORS_FILE", "FILTER_BRANCH_SQUELCH_WARNING", "TERM"}
_LOADS_CODE_SHAPE = re.compile(
    r"(?:LD|DYLD|BASH_FUNC|npm_config|NPM_CONFIG|PIP|UV)_.*"
    r"|PYTHON(?!UNBUFFERED|UTF8|IOENCODING|HASHSEED|DONTWRITEBYTECODE|FAULTHANDLER)\w+|PERL\w+|RUBY\w+"
    r"|GIT_(?!AUTHOR_|COMMITTER_|OPTIONAL_LOCKS|TERMINAL_PROMPT|MERGE_AUTOEDIT)\w+|CARGO_(?!TERM_|INCREMENTAL)\w+"
    r"|RUSTC\w*|\w*JAVA\w*_OPTIONS|\w*PAGER|\w*EDITOR|\w+_ASKPASS",
    re.DOTALL,
)


def loads_code(variable: str) -> bool:
    """Whether setting this variable can make a program run other code, or read other settings."""
    return variable in _LOADS_CODE or _LOADS_CODE_SHAPE.fullmatch(variable) is not None


_PROTECTED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"/dev/(?!null$|zero$|full$|std(in|out|err)$|tty$|fd/|shm/|pts/|ptmx$|u?random$|tcp/|udp/).*"),
        phrase("it writes straight to a device"),
    ),
    (re.compile(r"/proc/(?!self/fd/).*|/sys/.*"), phrase("it changes the running kernel")),
    (re.compile(r"(.*/)?\.ssh(/.*)?"), phrase("it changes who may log in")),
    (
        re.compile(
            r"(.*/)?\.(bash(rc|_profile|_login|_logout|_aliases)|profile|zsh(rc|env)|zprofile|zlog(in|out)|[kct]?shrc|tcshrc|login|inputrc"
            r"|pam_environment|x(initrc|profile|session|sessionrc)|gitconfig|npmrc|yarnrc(\.yml)?|pypirc|netrc|n?vimrc|exrc|tmux\.conf|screenrc"
            r"|envrc|gdbinit|lldbinit|pythonrc(\.py)?|Rprofile|psqlrc|wgetrc|curlrc|mailcap|forward|rhosts|gemrc|pythonstartup)"
        ),
        phrase("it changes what runs when a shell or program starts"),
    ),
    (
        re.compile(r"(.*/)?\.git/(hooks(/.*)?|config|info/attributes|modules/.*/(hooks/.*|config))"),
        phrase("it changes what git runs by itself"),
    ),
    (
        re.compile(
            r"(.*/)?\.config/(autostart|systemd|fish|git|environment\.d|nvim|pip|kitty)(/.*)?|.*/Library/Launch(Agents|Daemons)/.*"
        ),
        phrase("it changes what runs by itself"),
    ),
    (
        re.compile(r"(.*/)?\.(vscode|idea|claude|cursor|ferrule|gemini|codex|husky)/.*|(.*/)?\.mcp\.json"),
        phrase("it changes settings that decide what runs"),
    ),
    (
        re.compile(r"/var/spool/cron.*|(.*/)?crontab|(.*/)?authorized_keys|(.*/)?sudoers(\.d/.*)?"),
        phrase("it changes what runs, or who may"),
    ),
    (
        re.compile(r"/(etc|boot|usr|bin|sbin|lib(32|64)?|opt|System|Library)(/.*)?|/"),
        phrase("it changes files of the system"),
    ),
)

_SECRET = re.compile(
    r"(.*/)?(\.ssh(/.*)?|\.env(\..*)?|\.aws/.*|\.netrc|\.pgpass|\.gnupg(/.*)?|\.kube/config|\.docker/config\.json|\.npmrc|\.pypirc"
    r"|\.git-credentials|id_(rsa|dsa|ecdsa|ed25519)|[^/]*\.(pem|key|p12|pfx|keystore|kdbx)|credentials(\.json)?|secrets?(\.[a-z]+)?|\.my\.cnf"
    r"|\.config/(gcloud|gh)/.*|\.bash_history|\.zsh_history|shadow|gshadow|master\.passwd|passwd|environ|\.vault-token|\.password-store/.*)"
)


_RAW = re.compile(r"/dev/(sd|nvme|vd|hd|xvd|mmcblk|dm-|mapper/|disk/|mem|kmem|port|loop|ram|md).*|/proc/kcore")


def is_raw_device(path: str) -> bool:
    """Whether reading it shows everything on a disk or in memory, past all rights."""
    return _RAW.fullmatch(path) is not None


def danger_of_writing(path: str) -> str:
    """Why writing to this path always asks; empty where it need not."""
    return next((why for pattern, why in _PROTECTED if pattern.fullmatch(path)), "")


def is_secret(path: str) -> bool:
    """Whether a file is likely to hold secrets."""
    return _SECRET.fullmatch(path) is not None
