# shellcheck shell=bash disable=SC2154  # yaml_blocks is of shell.sh
# docs/try-a-config.md: a database with failures, and the two configs.
{ servers_yaml; echo "ladders: { default: [5s, 30s, 1m, 5m, 10m, 30m] }"; } >rung.yaml
cp rung.yaml new.yaml
rabbitmqadmin declare queue name=orders durable=true >/dev/null
sidecar
rabbitmqadmin publish exchange=rung.failed routing_key=x payload=hello \
  properties='{"delivery_mode":2,"headers":{"retry-queue":"orders","retry-error":"HTTP 503"}}' >/dev/null
until_true prints '^1$' rung list --queue orders --count

the_new_config() { { servers_yaml; cat "${yaml_blocks[0]}"; } >new.yaml; }
