# shellcheck shell=bash
# Sourced by .ci/run and the programs of this folder.

# timed STEP COMMAND...: runs the command, or a function that doesn't rely on errexit, and appends to the file
# $RUNG_STEPS what it took: STEP, start (Unix seconds), wall, user and system seconds, separated by tabs. The CPU
# seconds are those of the command's own processes: servers that were started before are not counted.
# tests/minutes.py prints the file as a table.
timed() {
  local step=$1 code=0 TIMEFORMAT
  shift
  TIMEFORMAT="$step"$'\t'"$(date +%s)"$'\t%3R\t%3U\t%3S'
  { time "$@" 2>&3 3>&- || code=$?; } 3>&2 2>>"$RUNG_STEPS"
  return "$code"
}

# Where the servers of tests keep their files: in memory, if there is plenty. On a disk whose fsync takes a millisecond, the tests
# wait for it during a quarter of their time. They lose no proof: what a killed process wrote is there, and no test cuts the power.
keep_files_in_memory() {
  local mount free available
  [[ -z ${TMPDIR:-} && -w /dev/shm ]] || return 0
  mount=$(grep ' /dev/shm tmpfs ' /proc/mounts | tail -1) || return 0
  [[ ! $mount =~ noexec ]] || return 0  # the servers' start scripts are there, too
  free=$(df --output=avail /dev/shm | tail -1)
  available=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
  ((free < 8000000 || available < 12000000)) || export TMPDIR=/dev/shm  # kilobytes
}

# npm_packages NAME PACKAGE@VERSION...: prints the folder of their modules, which are installed once, into ~/.cache/rung. 77: npm's
# registry did not give them.
npm_packages() {
  local folder new
  folder=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/rung/$1-$(cksum <<<"${*:2}" | cut -d' ' -f1)
  if [[ ! -e $folder ]]; then
    mkdir -p "${folder%/*}"
    # Two runs at once don't meet, and an install that is cut off leaves nothing that looks whole.
    new=$(mktemp -d "$folder.XXXXXX")
    npm install --prefix "$new" --no-audit --no-fund --ignore-scripts --loglevel error "${@:2}" >&2 || { rm -rf "$new"; return 77; }
    mv -T "$new" "$folder" 2>/dev/null || rm -rf "$new"
  fi
  echo "$folder/node_modules"
}

# changed_sources PATTERN...: the files that differ from the commit $RUNG_BASE; without it, or if it is none, the 16 that differ
# most from the commit 10 before: a minute of a processor each.
changed_sources() {
  local base most=16
  base=$(git rev-parse -q --verify "${RUNG_BASE:-}^{commit}") && most=1000 ||
    base=$(git rev-parse -q --verify 'HEAD~10^{commit}' || git rev-list --max-parents=0 HEAD | tail -1)
  git diff --numstat --no-renames --diff-filter=d "$(git merge-base HEAD "$base")" -- "$@" | sort -rn |
    awk -F "\t" -v most="$most" 'NR <= most { print $3 }'
  git ls-files --others --exclude-standard -- "$@"
}
