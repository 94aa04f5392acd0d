# shellcheck shell=bash
# docs/traces.md: nothing.
