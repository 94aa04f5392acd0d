# Shared by quickstart and cases/run; to be sourced. Starts a private RabbitMQ and MariaDB, builds build/release/rung, and
# cleans up on every exit.
# Requires: set -euo pipefail, the repository's root as the current directory, keep="" or "yes".
# Sets: dir (a temporary directory), rung (the program), and the RUNG_TEST_* variables of tests/servers.
# shellcheck shell=bash disable=SC2034  # the sourcing script uses the variables

# ccache: share results with other clones.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
readonly kPython=/usr/bin/python3  # Debian's: it has pika and pymysql
rung=${RUNG_PROGRAM:-build/release/rung}
dir=
children=()

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }

# A port of 127.0.0.1 that is free now, below those that the kernel gives to clients.
free_port() {
  "$kPython" - <<'PORT'
import random, socket
while True:
    port = random.randrange(20000, 32000)
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break
PORT
}

# --- every program runs in its own session, so Ctrl-C reaches only this script, which ends them ------------------------

launcher=(setsid)
[[ -n $keep ]] || launcher+=(setpriv --pdeathsig TERM)  # they end even if this script is killed
launch() { "${launcher[@]}" "$@" </dev/null & children+=($!); }

# Like a foreground command, but signals are handled immediately.
run() {
  local code=0
  launch "$@"
  wait $! || code=$?
  unset 'children[-1]'
  return $code
}

end_children() {
  local pid i
  # Also the process itself: if it was just launched, it has no process group yet.
  for pid in "${children[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || kill -TERM "$pid" 2>/dev/null || true; done
  for ((i = 0; i < 100; i++)); do
    for pid in "${children[@]}"; do
      ! kill -0 -- "-$pid" 2>/dev/null || { sleep 0.1; continue 2; }
    done
    break
  done
  for pid in "${children[@]}"; do kill -KILL -- "-$pid" 2>/dev/null || true; done
}

finish() {
  local code=$?
  trap '' INT TERM HUP
  [[ -n $keep && $code -eq 0 ]] && exit 0
  end_children 2>/dev/null
  if [[ -n $dir && -d $dir ]]; then
    ((code == 0 || code >= 128)) || ! tail -n 20 "$dir"/*.log >&2 2>/dev/null || true
    [[ ! -d $dir/servers ]] || tests/servers stop "$dir/servers" 2>/dev/null || true
    rm -rf "$dir"
  fi
  exit "$code"
}

build() {
  mkdir -p build
  # flock: concurrent runs share the build directory.
  run flock build/.quickstart.lock sh -c \
    "cmake --preset release >'$dir/build.log' 2>&1 && cmake --build --preset release --target rung"
}

# Installs missing packages, builds, starts the servers. With RUNG_PROGRAM it uses that program and builds nothing.
prepare() {  # NAME TESTS-SERVERS-OPTIONS...
  local name=$1 servers
  shift
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  if [[ -z ${RUNG_PROGRAM:-} ]]; then tests/packages build run; fi
  dir=$(mktemp -d "${TMPDIR:-/tmp}/rung-$name.XXXXXX")

  # The servers start during the build. Without --keep they end with the script.
  [[ -n $keep ]] || set -- "$@" --owner-pid $$
  launch tests/servers start "$dir/servers" "$@" >"$dir/servers.log" 2>&1
  servers=$!
  if [[ -z ${RUNG_PROGRAM:-} ]]; then
    [[ -x $rung ]] || say "Building $rung (only the first time; two minutes on two cores)"
    if [[ -t 1 ]]; then build; else build >>"$dir/build.log" 2>&1; fi || { cat "$dir/build.log" >&2; exit 1; }
  fi
  wait "$servers" || { cat "$dir/servers.log" >&2; exit 1; }
  unset 'children[0]'
  children=("${children[@]}")
  # shellcheck disable=SC1091
  . "$dir/servers/env"
}
