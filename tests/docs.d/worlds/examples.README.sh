# shellcheck shell=bash
# examples/README.md: the config of the handlers, on these servers.
{ servers_yaml; grep -vE '^(broker|store):' examples/handlers/rung.yaml; } >rung.yaml
rung migrate >/dev/null
