"""A consumer with retries by Rung, in Python with pika (Debian: python3-pika).

usage: consumer.py [AMQP-URL [QUEUE]]      default: amqp://guest:guest@127.0.0.1:5672/%2f orders

Bodies to try: "ok"; "busy 2" (the service answers from the second retry on); "broken" (no retry ever helps);
"later" (the service says when to come back).
"""
import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2f"
QUEUE = sys.argv[2] if len(sys.argv) > 2 else "orders"
done = set()  # stands for a table with a unique key, written in the same transaction as the work


class Busy(Exception):
    """A failure that needs no words."""


class Failed(Exception):
    """A failure that wants to say why, or when to try again (retry-* headers for rung.failed)."""

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
    # A crash, anybody's, can repeat a delivery: the key that stays the same says whether the work is done already.
    key = properties.message_id or headers.get("retry-id")
    try:
        if key is None or key not in done:
            work(body, attempt)
            done.add(key)
    except Busy:
        # 1. Reject and forget: RabbitMQ dead-letters the message to rung.failed.
        print(f"{key}: attempt {attempt} rejected", flush=True)
        channel.basic_reject(method.delivery_tag, requeue=False)
        return
    except Failed as error:
        # 2. Publish it to rung.failed with the reason. All its headers go along: retry-id and retry-attempt say
        #    which climb it belongs to. Confirmed first, acked then.
        print(f"{key}: attempt {attempt} failed: {error}", flush=True)
        properties.headers = {**headers, "retry-queue": QUEUE, **error.headers}
        properties.user_id = None  # the publisher's; the broker would refuse ours under that name
        channel.basic_publish("rung.failed", QUEUE, body, properties)
        channel.basic_ack(method.delivery_tag)
        return
    # 3. Report that a retry succeeded. Left out, silence means success after `presumed_after`.
    print(f"{key}: attempt {attempt} done", flush=True)
    if attempt > 0:
        word = {"retry-id": headers["retry-id"], "retry-attempt": attempt,
                "retry-token": headers.get("retry-token"), "retry-result": "succeeded"}
        channel.basic_publish("rung.results", QUEUE, b"", pika.BasicProperties(headers=word, delivery_mode=2))
    channel.basic_ack(method.delivery_tag)


channel = pika.BlockingConnection(pika.URLParameters(URL)).channel()
channel.confirm_delivery()  # basic_publish returns when the broker has it, or raises
channel.basic_qos(prefetch_count=10)
# A new queue attaches itself by this argument; one that exists, by a policy (README.md).
channel.queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})
channel.basic_consume(QUEUE, on_message)
channel.start_consuming()
