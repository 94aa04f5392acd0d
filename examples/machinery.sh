# What quickstart and cases/run share: for sourcing. A private RabbitMQ and MariaDB, build/release/rung, and nothing
# left of them at the end, however it ends.
# Expects: set -euo pipefail, the repository's root as current folder, keep="" or "yes".
# Gives: dir (a temporary folder), rung (the program), and of tests/servers the RUNG_TEST_* variables.
# shellcheck shell=bash disable=SC2034  # what it gives is used by who sources it

# ccache: what another clone compiled counts here, too.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
readonly kPython=/usr/bin/python3  # Debian's: it has pika and pymysql
rung=${RUNG_PROGRAM:-build/release/rung}
dir=
children=()

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }

# --- every program runs in a session of its own and is ended by us: Ctrl-C means the script alone ---------------------

launcher=(setsid)
[[ -n $keep ]] || launcher+=(setpriv --pdeathsig TERM)  # even kill -9 of the script leaves none behind
launch() { "${launcher[@]}" "$@" </dev/null & children+=($!); }

# As a foreground command, but a signal is answered at once instead of after it.
run() {
  local code=0
  launch "$@"
  wait $! || code=$?
  unset 'children[-1]'
  return $code
}

end_children() {
  local pid i
  # The process too: launched in this moment it has no group of its own yet.
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
  # flock: two at once share the build folder.
  run flock build/.quickstart.lock sh -c \
    "cmake --preset release >'$dir/build.log' 2>&1 && cmake --build --preset release --target rung"
}

# Installs what is missing, builds, starts the servers. RUNG_PROGRAM: that program instead; nothing is built.
prepare() {  # NAME TESTS-SERVERS-OPTIONS...
  local name=$1 servers
  shift
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  if [[ -z ${RUNG_PROGRAM:-} ]]; then tests/packages build run; fi
  dir=$(mktemp -d "${TMPDIR:-/tmp}/rung-$name.XXXXXX")

  # The servers come up while the compiler works. Without --keep they end with the script, however it ends.
  [[ -n $keep ]] || set -- "$@" --owner-pid $$
  launch tests/servers start "$dir/servers" "$@" >"$dir/servers.log" 2>&1
  servers=$!
  if [[ -z ${RUNG_PROGRAM:-} ]]; then
    [[ -x $rung ]] || say "Building $rung (once; two minutes on two cores)"
    if [[ -t 1 ]]; then build; else build >>"$dir/build.log" 2>&1; fi || { cat "$dir/build.log" >&2; exit 1; }
  fi
  wait "$servers" || { cat "$dir/servers.log" >&2; exit 1; }
  unset 'children[0]'
  children=("${children[@]}")
  # shellcheck disable=SC1091
  . "$dir/servers/env"
}
