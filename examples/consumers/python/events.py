#!/usr/bin/env python3
"""Prints Rung's events (docs/event-exchange.md), one a line: what happened, where, and why.

  events.py                                  all events, to the end
  events.py --bind 'task_parked.orders'      only what is parked of one queue
  events.py --count 1                        ends after the first one

The sidecar's config needs `events: [cause_appeared, cause_worse, task_parked, bulk_ended]`."""
import argparse
import json

import pika


def text_of(event):
    if event.get("task"):
        task = event["task"]
        return f"task {task['retry_id']} of {event['queue']} is parked: {task['last_error']}"
    if event.get("cause"):
        cause = event["cause"]
        what = "got worse" if event["type"] == "cause_worse" else "is new"
        return f"cause {cause['cause_id']} of {event['queue']} {what}: {cause['sample']}"
    if event.get("bulk"):
        bulk = event["bulk"]
        return f"bulk {bulk['id']} ({bulk['action']}) is {bulk['state']}: {bulk['done']} of {bulk['total']} processed"
    return f"{event['type']}: deleted since"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="amqp://guest:guest@127.0.0.1:5672/%2f")
    parser.add_argument("--exchange", default="rung.events")
    parser.add_argument("--queue", default="ops.events", help="declared, durable, and bound to the exchange")
    parser.add_argument("--bind", default="#", help="routing key: EVENT.QUEUE, with the wildcards of a topic exchange")
    parser.add_argument("--count", type=int, default=0, help="end after so many events")
    options = parser.parse_args()

    channel = pika.BlockingConnection(pika.URLParameters(options.url)).channel()
    channel.queue_declare(options.queue, durable=True)
    channel.queue_bind(options.queue, options.exchange, options.bind)
    channel.basic_qos(prefetch_count=10)
    seen = 0
    for method, _, body in channel.consume(options.queue):
        event = json.loads(body)  # a repeated event has the id of the first: a real consumer remembers it
        print(event["id"], event["at"], text_of(event), flush=True)
        channel.basic_ack(method.delivery_tag)
        seen += 1
        if options.count and seen >= options.count:
            return


if __name__ == "__main__":
    main()
