"""pika with Rung. usage: example.py [send [BODY]]; without `send` it consumes.

Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
two times. With "why": "HTTP 503" (and "after": "2s") the consumer says why, sets the delay, and reports the success.
"""
import json
import os
import sys

import pika

BROKER = os.environ.get("RUNG_EXAMPLE_BROKER", "amqp://guest:guest@127.0.0.1:5672/%2f")
QUEUE = os.environ.get("QUEUE", "pika-orders")


class ShopError(Exception):
    """A failure with a reason, and optionally the time of the next attempt."""

    def __init__(self, text, after=None):
        super().__init__(text)
        self.after = after


def handle(order, attempt):
    """Your work."""
    if attempt < order.get("fails", 0):
        raise ShopError(order["why"], order.get("after")) if "why" in order else RuntimeError("failed")


def on_message(channel, method, properties, body):
    headers = dict(properties.headers or {})
    attempt, order = headers.get("retry-attempt", 0), json.loads(body)
    said = f"attempt {attempt} {body.decode()}"
    try:
        handle(order, attempt)
    except ShopError as error:
        # Say why, and where the message came from, unless it is a retry, which says that itself: all headers, plus these.
        # basic_publish returns after the confirm; then ack.
        headers = {"retry-origin-exchange": method.exchange, "retry-origin-routing-key": method.routing_key} | headers
        headers |= {"retry-queue": QUEUE, "retry-error": str(error), "retry-error-type": type(error).__name__}
        if error.after:
            headers["retry-after"] = error.after
        # The broker refuses another user's id, and an expiration could run out in rung.failed.
        properties.headers, properties.user_id, properties.expiration = headers, None, None
        channel.basic_publish("rung.failed", method.routing_key, body, properties, mandatory=True)  # an error if no queue takes it
        channel.basic_ack(method.delivery_tag)
        print(said, "failed:", error, flush=True)
    except Exception:
        channel.basic_reject(method.delivery_tag, requeue=False)  # the broker dead-letters it to rung.failed
        print(said, "rejected", flush=True)
    else:
        if attempt and "why" in order:  # report the success; otherwise silence means success
            result = {name: headers[name] for name in ("retry-id", "retry-attempt", "retry-token")}
            channel.basic_publish("rung.results", "", b"", pika.BasicProperties(headers={**result, "retry-result": "succeeded"}, delivery_mode=2))
        channel.basic_ack(method.delivery_tag)
        print(said, "done", flush=True)


channel = pika.BlockingConnection(pika.URLParameters(BROKER)).channel()
channel.confirm_delivery()
channel.basic_qos(prefetch_count=10)
channel.queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})
if sys.argv[1:2] == ["send"]:
    message = sys.argv[2] if len(sys.argv) > 2 else '{"order": 17, "fails": 2}'
    channel.basic_publish("", QUEUE, message.encode(), pika.BasicProperties(message_id=f"{QUEUE}-{json.loads(message)['order']}", delivery_mode=2))
    print("sent", message)
else:
    channel.basic_consume(QUEUE, on_message)
    print("consuming", flush=True)
    channel.start_consuming()
