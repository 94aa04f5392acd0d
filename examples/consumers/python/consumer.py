"""A consumer with retries by Rung, in Python with pika (Debian: python3-pika).

usage: consumer.py [AMQP-URL [QUEUE]]      default: amqp://guest:guest@127.0.0.1:5672/%2f orders

Bodies to try: "ok"; "busy 2" (succeeds from the second retry on); "broken" (never succeeds);
"later" (the service sets the delay before the retry).
"""
import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2f"
QUEUE = sys.argv[2] if len(sys.argv) > 2 else "orders"
done = set()  # stands for a table with a unique key, written in the same transaction as the work


class Busy(Exception):
    """A failure without an error to report."""


class Failed(Exception):
    """A failure with an error, or with a time for the retry (retry-* headers for rung.failed)."""

    def __init__(self, text, **directives):
        super().__init__(text)
        self.headers = {"retry-error": text, "retry-error-type": type(self).__name__}
        self.headers.update({"retry-" + name.replace("_", "-"): value for name, value in directives.items()})


def work(body, attempt):
    """Your work. attempt: 0 = first delivery, 1 = first retry ..."""
    word, _, number = body.decode().partition(" ")
    if word == "busy" and attempt < int(number):
        raise Busy
    if word == "later" and attempt == 0:
        raise Failed("the service is in maintenance", after="2s")
    if word == "broken":
        raise Failed("no such customer")


def on_message(channel, method, properties, body):
    headers = dict(properties.headers or {})
    attempt = headers.get("retry-attempt", 0)
    # A crash can repeat a delivery with the same key: the key tells whether the work is already done.
    key = properties.message_id or headers.get("retry-id")
    try:
        if key is None or key not in done:
            work(body, attempt)
            done.add(key)
    except Busy:
        # 1. Reject: RabbitMQ dead-letters the message to rung.failed.
        print(f"{key}: attempt {attempt} rejected", flush=True)
        channel.basic_reject(method.delivery_tag, requeue=False)
        return
    except Failed as error:
        # 2. Publish it to rung.failed with the error. Forward all headers: retry-id and retry-attempt identify the task.
        #    Wait for the confirm, then ack.
        print(f"{key}: attempt {attempt} failed: {error}", flush=True)
        properties.headers = {**headers, "retry-queue": QUEUE, **error.headers}
        properties.user_id = None  # the broker rejects a user-id that is not our user
        channel.basic_publish("rung.failed", QUEUE, body, properties)
        channel.basic_ack(method.delivery_tag)
        return
    # 3. Report that a retry succeeded. Without the report, silence means success after `presumed_after`.
    print(f"{key}: attempt {attempt} done", flush=True)
    if attempt > 0:
        result = {"retry-id": headers["retry-id"], "retry-attempt": attempt,
                  "retry-token": headers.get("retry-token"), "retry-result": "succeeded"}
        channel.basic_publish("rung.results", QUEUE, b"", pika.BasicProperties(headers=result, delivery_mode=2))
    channel.basic_ack(method.delivery_tag)


channel = pika.BlockingConnection(pika.URLParameters(URL)).channel()
channel.confirm_delivery()  # basic_publish waits for the confirm, or raises
channel.basic_qos(prefetch_count=10)
# This argument attaches a new queue; for an existing queue use a policy (README.md).
channel.queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})
channel.basic_consume(QUEUE, on_message)
channel.start_consuming()
