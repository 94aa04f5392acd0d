"""A consumer with retries by Rung, in Python with pika (Debian: python3-pika).

usage: consumer.py [AMQP-URL [QUEUE]]      default: amqp://guest:guest@127.0.0.1:5672/%2f orders

Bodies to try: "ok"; "busy 2" (succeeds from the second retry on); "broken" (never succeeds);
"later" (the service sets the delay before the retry).
"""
import logging
import pathlib
import sys

import pika

# Here from its folder; in your project: pip install examples/helpers/python
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "helpers" / "python"))
from rung_retry import RetryLater
from rung_retry.pika import consumer

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2f"
QUEUE = sys.argv[2] if len(sys.argv) > 2 else "orders"
done = set()  # stands for a table with a unique key, written in the same transaction as the work


def work(body, attempt):
    """Your work: it returns, or raises. attempt: 0 = first delivery, 1 = first retry ..."""
    word, _, number = body.decode().partition(" ")
    if word == "busy" and attempt < int(number):
        raise RuntimeError("the warehouse is busy")
    if word == "later" and attempt == 0:
        raise RetryLater("the service is in maintenance", "2s")
    if word == "broken":
        raise LookupError("no such customer")


@consumer(QUEUE)  # reports an exception to rung.failed, or the success of a retry to rung.results; then acks
def on_message(channel, method, properties, body):
    headers = properties.headers or {}
    attempt = headers.get("retry-attempt", 0)
    # A crash can repeat a delivery with the same key: the key tells whether the work is already done.
    key = properties.message_id or headers.get("retry-id")
    if key is None or key not in done:
        work(body, attempt)
        done.add(key)
    print(f"{key}: attempt {attempt} done", flush=True)


logging.basicConfig()  # the helper logs each failure
channel = pika.BlockingConnection(pika.URLParameters(URL)).channel()
channel.basic_qos(prefetch_count=10)
# This argument attaches a new queue; for an existing queue use a policy (README.md).
channel.queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})
channel.basic_consume(QUEUE, on_message)
channel.start_consuming()
