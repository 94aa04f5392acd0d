# shellcheck shell=bash disable=SC2154  # yaml_blocks is of shell.sh
# docs/policies.md: the rules of the page, and tasks of orders and invoices.
config_with_rules() {
  {
    servers_yaml
    cat "${yaml_blocks[0]}"
    echo "ladders: { default: [5s, 30s, 1m], quick: [1s], patient: [1h] }"
  } >rung.yaml
}
tasks_wait() {
  { servers_yaml; echo "ladders: { default: [5m] }"; } >rung.yaml
  for queue in orders invoices; do rabbitmqadmin declare queue name=$queue durable=true >/dev/null; done
  sidecar
  rung submit --queue invoices --delay 5m --body x >/dev/null
  rung submit --queue orders --delay 5m --message-id order-17 --body x >/dev/null
}
