# Sourced by the scripts that run the official MCP suites: Node 22 and packages from npm in a folder of their own.
# shellcheck shell=bash

# ensure_node_tools FOLDER PACKAGE…: installs what is not there yet, and sets $node to a Node 22.
ensure_node_tools() {
  local folder=$1 machine stamp
  shift
  case $(uname -m) in aarch64 | arm64) machine=arm64 ;; x86_64 | amd64) machine=x64 ;; *)
    echo "There is no Node for $(uname -m) on npm." >&2
    return 1
    ;;
  esac
  command -v npm >/dev/null || {
    echo "npm is needed, and is not installed." >&2
    return 1
  }
  stamp="$folder/.installed"
  if [ "$(cat "$stamp" 2>/dev/null)" != "$*" ]; then
    mkdir -p "$folder"
    (
      # Tests that run beside each other install it once.
      ! command -v flock >/dev/null || flock 9
      [ "$(cat "$stamp" 2>/dev/null)" = "$*" ] && exit 0
      # The suites want a newer Node than many machines have; it comes as a package too.
      npm install --prefix "$folder" --no-audit --no-fund --no-save --loglevel=error "node-linux-$machine@22" "$@" >&2 || exit 1
      printf '%s' "$*" >"$stamp"
    ) 9>"$folder/.lock" || return 1
  fi
  # shellcheck disable=SC2034 # for whoever sources this
  node="$folder/node_modules/node-linux-$machine/bin/node"
}
