# shellcheck shell=bash disable=SC2034  # the page's blocks use the variable
# docs/delays.md: a sidecar, and a channel in Python.
{ servers_yaml; echo "ladders: { default: [5s] }"; } >rung.yaml
sidecar
before_python="import pika
channel = pika.BlockingConnection(pika.URLParameters('$RUNG_TEST_AMQP')).channel()
channel.confirm_delivery()"
the_message_was_taken_in() { until_true prints '^1$' rung list --tag close-order --count; }
