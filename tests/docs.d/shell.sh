# shellcheck shell=bash
# The shell in which the blocks of one page are run: tests/docs.d/live.py writes its script, and sources this first.
# DOCS_FOLDER has each block in a file, and gets what it printed; the current directory is an empty one.
set -eEuo pipefail
umask 077  # configs have passwords: no warnings
exec 3>&2  # where this shell complains, wherever its commands' output goes
export DOCS_LINE=0
docs_at=
# shellcheck disable=SC2034  # the worlds use it
yaml_blocks=()  # the page's YAML blocks so far, as files
declare -A ids  # the ids that the page shows, and those that its commands get instead
at_the_end=     # a command for the end of the page, however it ends
before_python=  # what a Python block takes for granted

finish() {
  local code=$?
  trap - EXIT
  if ((code != 0)); then
    echo "$docs_at: exit status $code" >&3
    for file in "$DOCS_FOLDER"/before.out "$DOCS_FOLDER/$DOCS_LINE.out" "$PWD"/*.log; do
      [[ ! -s $file ]] || { echo "--- ${file##*/}"; tail -n 12 "$file"; } >&3
    done
  fi
  # A server that it starts must not keep our output open: live.py reads until it is closed.
  eval "$at_the_end" >>"$DOCS_FOLDER/before.out" 2>&1 3>&-
  # This shell leads a session of its own: all that it started ends with it.
  trap '' TERM
  kill -TERM 0
  wait
  exit "$code"
}
trap finish EXIT

at() {  # PAGE:LINE
  docs_at=$1
  DOCS_LINE=${1##*:}
}

# The block's commands, in this shell. The first that fails ends the page.
block_sh() {
  # shellcheck disable=SC1090
  . "$DOCS_FOLDER/$1" >"$DOCS_FOLDER/$1.out" 2>&1
}

# One command of a console block: it fails only where the page would show that it does (`; echo $?`).
console() {
  local code=0 text id
  text=$(<"$DOCS_FOLDER/$1")
  for id in "${!ids[@]}"; do text=${text//$id/${ids[$id]}}; done
  DOCS_LINE=$1
  set +e
  eval "$text" >"$DOCS_FOLDER/$1.out" 2>&1
  code=$?
  set -e
  ((code == 0)) || { docs_at+=" ($text)"; return "$code"; }
}

block_sql() { mariadb rung <"$DOCS_FOLDER/$1" >"$DOCS_FOLDER/$1.out" 2>&1; }

block_python() {
  { echo "$before_python"; cat "$DOCS_FOLDER/$1"; } >"$DOCS_FOLDER/$1.py"
  /usr/bin/python3 "$DOCS_FOLDER/$1.py" >"$DOCS_FOLDER/$1.out" 2>&1
}

background() {
  # shellcheck disable=SC1090
  (. "$DOCS_FOLDER/$1") >"$DOCS_FOLDER/$1.log" 2>&1 &
}

# --- for the worlds ------------------------------------------------------------------------------------------------

# Runs the command until it succeeds, for at most five minutes.
until_true() {
  local deadline=$((SECONDS + 300))
  until "$@" >/dev/null 2>"$DOCS_FOLDER/until.out"; do
    ((SECONDS < deadline)) || { echo "never true: $*"; cat "$DOCS_FOLDER/until.out"; return 1; } >&2
    sleep 0.2
  done
}

prints() { grep -q -- "$1" <<<"$("${@:2}")"; }  # PATTERN COMMAND...

# A config's first lines. The user and the schema are those of the docs.
servers_yaml() {
  local management=${RUNG_TEST_MANAGEMENT#http://}
  echo "broker: { url: \"$RUNG_TEST_AMQP\", management: \"http://guest:guest@$management\" }"
  echo "drain: 1s"
  echo "store: { url: \"mysql://rung:secret@${RUNG_TEST_MYSQL##*@}/${1:-rung}\" }"
}

# Starts a sidecar and waits until it owns all shards: sidecar OPTIONS...
sidecar() {
  rung run "$@" >>"$DOCS_FOLDER/sidecar.log" 2>&1 &
  sidecar=$!
  until_true rung stats --max-overdue 1h "$@"
}
# Ends the one that was started last.
sidecar_ends() {
  kill -TERM "$sidecar"
  wait "$sidecar"
}
