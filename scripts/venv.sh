# Sourced by ./run, ./test and .ci/run: makes $here/.venv, or $here/.venv-3.N for one version of Python, and keeps what is
# installed in it in step with pyproject.toml.
# shellcheck shell=bash

find_python() {
  local candidate
  for candidate in "${FERRULE_PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  echo "Ferrule needs Python 3.11 or newer, and none was found. Install one, or name it: FERRULE_PYTHON=/path/to/python3 $0" >&2
  return 1
}

# newest_python 3.N: the newest release of that version, on PATH or among pyenv's. Each is tried: pyenv has a shim on PATH
# for every version that it knows, and most of them only report that theirs is not active.
newest_python() {
  local candidate patch newest=-1 found=
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/"python$1"; do
    patch=$("$candidate" - "$1" 2>/dev/null <<'END'
import sys
release = sys.version_info[3] == "final" and "t" not in sys.abiflags
print(sys.version_info[2] if release and sys.version.startswith(sys.argv[1] + ".") else -1)
END
    ) || continue
    if [ "$patch" -gt "$newest" ]; then newest=$patch found=$candidate; fi
  done
  [ -n "$found" ] && printf '%s\n' "$found"
}

# ensure_venv EXTRA [3.N]: installs the project (editable) with EXTRA unless that was done for this pyproject.toml already.
ensure_venv() {
  local extra=$1 version=${2:-} venv="$here/.venv${2:+-$2}" stamp wanted python
  stamp="$venv/.ferrule-$extra"
  # With the clone's own path: what a moved or copied .venv holds points to where it was made.
  wanted="$(cksum <"$here/pyproject.toml") $here"
  if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && [ -x "$venv/bin/ferrule" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    return 0
  fi
  if [ -L "$venv" ] && [ -x "$venv/bin/ferrule" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    # Someone linked another clone's .venv here: nothing in it is changed, and this clone's own code is what runs.
    export PYTHONPATH="$here/src${PYTHONPATH:+:$PYTHONPATH}"
    return 0
  fi
  if [ ! -w "$here" ] || { [ -d "$venv" ] && [ ! -w "$venv" ]; }; then
    if [ -e "$venv" ] || [ -L "$venv" ]; then
      echo "You cannot use the ${venv##*/} in $here (it belongs to another user or is out of date) and may not write there. Clone Ferrule into a folder of your own." >&2
    else
      echo "You may not write in $here, so no ${venv##*/} can be made there. Clone Ferrule into a folder of your own." >&2
    fi
    return 1
  fi
  if [ -z "$version" ]; then
    python=$(find_python) || return 1
  elif ! python=$(newest_python "$version"); then
    echo "Python $version was not found, neither on PATH nor among pyenv's versions. Install a release of it." >&2
    return 1
  fi
  (
    # Commands that start together, as `./run … &` and the next line do, install it once. The lock ends with this shell.
    "$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && exit 0
    if ! "$venv/bin/python" -c '' 2>/dev/null || ! made_here "$venv"; then
      echo "Making ${venv##*/} with $("$python" --version 2>&1) …" >&2
      "$python" -m venv --clear "$venv" || {
        echo "Could not make a virtual environment. On Debian or Ubuntu: apt-get install python3-venv" >&2
        exit 1
      }
    fi
    echo "Installing Ferrule ($extra) …" >&2
    # An old pip takes a minute of a core longer to choose among the versions of two hundred packages. Where no newer one
    # can be had, it has to do.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 'pip>=25' >/dev/null 2>&1 || true
    # Compiled below, by all cores.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile -e "$here[$extra]" >&2 || {
      echo "The install failed; the message above says why. Run the same command again once that is mended." >&2
      exit 1
    }
    # Or every start would compile what it imports, where PYTHONDONTWRITEBYTECODE is set. What cannot be compiled says so
    # when it is imported.
    "$venv/bin/python" -W ignore -m compileall -qq -j 0 "$here/src" "$venv/lib" >/dev/null 2>&1 || true
    printf '%s\n' "$wanted" >"$stamp"
  ) 9<"$here/pyproject.toml"
}

# made_here VENV: whether its scripts start the Python of this very folder; those of a moved or copied one do not.
made_here() {
  head -n 3 "$1/bin/pip" 2>/dev/null | grep -qF "$1/bin/"
}
