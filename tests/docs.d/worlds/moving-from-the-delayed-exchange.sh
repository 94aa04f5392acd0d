# shellcheck shell=bash disable=SC2154  # yaml_blocks is of shell.sh
# docs/moving-from-the-delayed-exchange.md: the exchange and its queue. Debian has no package of the plugin: the exchange
# is a topic exchange from the start.
rabbitmqadmin declare exchange name=my-delayed type=topic durable=true >/dev/null
rabbitmqadmin declare queue name=orders durable=true >/dev/null
rabbitmqadmin declare binding source=my-delayed destination=orders routing_key='order.*' >/dev/null

rung_is_configured() {
  { servers_yaml; echo "ladders: { default: [5s] }"; cat "${yaml_blocks[0]}"; } >rung.yaml
}
rung_has_started() {  # as it was before step 3
  grep -v my-delayed rung.yaml | sed '/^delays/d' >before.yaml
  sidecar -c before.yaml
  sidecar_ends -c before.yaml
}
rung_takes_messages_in() { sidecar; }
