# shellcheck shell=bash
# Sourced by .ci/run and tests/run.
#
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
