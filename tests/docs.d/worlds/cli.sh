# shellcheck shell=bash disable=SC2034  # ids are the shell's
# docs/cli.md: the queues orders, invoices and others, and a shop whose bank does not answer.
{
  servers_yaml
  echo "node: sidecar-1"
  echo "ladders: { default: [1s, 2s, 4s, 8s], slow: [10m, 1h] }"
  echo "queues: { orders: { ladder: default }, invoices: { ladder: slow } }"
} >rung.yaml
{
  servers_yaml | sed '2,$d'
  servers_yaml | sed '1,2d'
  echo 'ladders: { default: [5s, 1.5h] }'
  echo 'queus: {}'
} >bad.yaml
queue() { rabbitmqadmin declare queue "$@" durable=true >/dev/null; }
for name in orders invoices; do queue name=$name; done
queue name=legacy arguments='{"x-dead-letter-exchange":"other"}'

another_policy_applies() {
  rung detach orders --force
  rabbitmqctl set_policy base '^orders$' '{"max-length":100000}' --apply-to queues
}
a_policy_overrides() {
  rung attach invoices
  rabbitmqctl set_policy ttl '^invoices$' '{"message-ttl":60000}' --priority 9 --apply-to queues
}
messages_have_failed() {
  queue name=coupons
  queue name=orders.close
  rabbitmqctl clear_policy ttl
  rung adopt --yes  # the sidecar of new.yaml had another database
  sidecar
  "${BASH_SOURCE[0]%.sh}_shop.py" &
  until_true prints '^1$' rung list --state succeeded --count
  until_true prints '^1$' rung list --state parked --count
  rabbitmqadmin publish exchange=rung.failed routing_key=invoices payload=x properties='{"delivery_mode":2,"message_id":"inv-3",
    "headers":{"retry-queue":"invoices","retry-error":"503 from the ledger"}}'
  until_true prints '^3$' rung list --count
  ids[250068030443229184]=$(id_of inv-3)
  ids[250067942954242048]=$(id_of order-18)
}
id_of() { rung list --message-id "$1" --json | grep -o '"retry_id": *"[0-9]*"' | tr -dc 0-9; }
a_campaign_has_ended() {
  rung submit --queue coupons --delay 1h --body x
  rung cancel --queue coupons --yes --reason "campaign ended"
  ids[250068042257072427]=$(rung list --queue coupons --json | grep -o '"retry_id": *"[0-9]*"' | tr -dc 0-9)
  mariadb rung -e 'DELETE FROM rung_bulk_items; DELETE FROM rung_bulks'
}
reminders_wait() {
  mariadb rung -e 'ALTER TABLE rung_bulks AUTO_INCREMENT = 1'
  for _ in {1..300}; do echo '{"queue": "coupons", "tag": "coupon.reminder", "delay": "1h"}'; done | rung submit --jsonl -
}
no_tasks() { mariadb rung -e 'DELETE FROM rung_tasks'; }
close_17_was_changed() {
  local id
  no_tasks
  rung submit --queue orders.close --delay 30m --message-id close-17 --body x
  id=$(id_of close-17)
  rung reschedule "$id" --delay 2h
  rung cancel "$id" --reason paid
}
three_tasks() {
  no_tasks
  rung submit --queue invoices --delay 10m --body x
  rung submit --queue orders --delay 1h --message-id over --body x
  rung finish "$(id_of over)" --succeeded
  rabbitmqadmin publish exchange=rung.failed routing_key=orders payload=x \
    properties='{"delivery_mode":2,"headers":{"retry-queue":"orders","retry-never":true}}'
  until_true prints '^1$' rung list --state parked --count
}
no_sidecar_runs() { sidecar_ends; }
