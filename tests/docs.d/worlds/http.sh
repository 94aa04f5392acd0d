# shellcheck shell=bash disable=SC2034  # the page's blocks use the variables
# docs/http.md: a sidecar with HTTP, the queues orders and slow.
for queue in orders slow a; do rabbitmqadmin declare queue name=$queue durable=true >/dev/null; done
{
  servers_yaml
  echo "http: { listen: \"$DOCS_HTTP\" }"
  echo "ladders: { default: [5s, 30s, 1m, 10m, 30m, 1h, 6h, 1d, 2d] }"
} >rung.yaml
sidecar

submitted() {
  curl -s "$U/v1/tasks" -H 'Content-Type: application/json' -d "$1" | grep -o '"retry_id":"[0-9]*"' | head -n 1 | tr -dc 0-9
}
the_task_is_delivered() {
  ID=$(submitted '{"queue": "orders", "body": "x", "delay": 0}')
  until_true prints '"state":"awaiting"' curl -s "$U/v1/tasks/$ID"
}
another_task() { ID=$(submitted '{"queue": "orders", "body": "x", "delay": "30m"}'); }
orders_are_parked() {
  "$PWD/../failed.py" 2000
  until_true prints '^2000$' rung list --queue orders --state parked --count
}
cat >../failed.py <<'PYTHON'
#!/usr/bin/python3
import os
import sys

import pika

channel = pika.BlockingConnection(pika.URLParameters(os.environ["RUNG_TEST_AMQP"])).channel()
channel.confirm_delivery()
for _ in range(int(sys.argv[1])):
    channel.basic_publish("rung.failed", "", b"x", pika.BasicProperties(delivery_mode=2, headers={
        "retry-queue": "orders", "retry-error": "timeout after 2 s", "retry-never": True}))
PYTHON
chmod +x ../failed.py
