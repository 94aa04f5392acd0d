# shellcheck shell=bash
# docs/leave.md: two queues, one attached by a policy and one by a binding; three parked messages, and one that waits.
{ servers_yaml; echo "ladders: { default: [5s] }"; echo "defaults: { success: { presumed_after: 1s } }"; } >rung.yaml
rung migrate >/dev/null
sidecar
for queue in orders orders.left; do rabbitmqadmin declare queue name=$queue durable=true >/dev/null; done
/usr/bin/python3 - <<'P' &
import os, pika
channel = pika.BlockingConnection(pika.URLParameters(os.environ["RUNG_TEST_AMQP"])).channel()
for name in ("orders", "orders.left"):
    channel.basic_consume(name, lambda *_: None, auto_ack=True)
channel.start_consuming()
P
rabbitmqadmin declare exchange name=shop.dead type=topic >/dev/null
rabbitmqadmin declare binding source=shop.dead destination_type=exchange destination=rung.failed routing_key='#' >/dev/null
rung attach orders >/dev/null
for n in 1 2 3; do
  rabbitmqadmin publish exchange=rung.failed routing_key=orders payload="{\"order\": $n}" \
    properties="{\"message_id\": \"order-$n\", \"headers\": {\"retry-queue\": \"orders\", \"retry-error\": \"boom\", \"retry-never\": true}}"
done
rung submit --queue orders --delay 1h --message-id order-4 --body x
until_true prints '^4$' rung list --count
the_fired_are_answered() { until_true prints '^0$' rung list --count --state scheduled,publishing,awaiting; }
all_are_answered() { until_true prints '^0$' rung list --count --state scheduled,publishing,awaiting,parked; }
the_sidecar_stops() { sidecar_ends; }
