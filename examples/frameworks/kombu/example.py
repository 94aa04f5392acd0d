"""kombu with Rung. usage: example.py [send [BODY]]; without `send` it consumes.

Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
two times. With "why": "HTTP 503" (and "after": "2s") the consumer says why, sets the delay, and reports the success.
"""
import json
import os
import sys

from kombu import Connection, Exchange, Queue
from kombu.mixins import ConsumerProducerMixin

BROKER = os.environ.get("RUNG_EXAMPLE_BROKER", "amqp://guest:guest@127.0.0.1:5672/%2f")
QUEUE = Queue(os.environ.get("QUEUE", "kombu-orders"), queue_arguments={"x-dead-letter-exchange": "rung.failed"})


class ShopError(Exception):
    """A failure with a reason, and optionally the time of the next attempt."""

    def __init__(self, text, after=None):
        super().__init__(text)
        self.after = after


def handle(order, attempt):
    """Your work."""
    if attempt < order.get("fails", 0):
        raise ShopError(order["why"], order.get("after")) if "why" in order else RuntimeError("failed")


class Worker(ConsumerProducerMixin):
    def __init__(self, connection):
        self.connection = connection

    def get_consumers(self, Consumer, channel):
        return [Consumer([QUEUE], on_message=self.on_message, prefetch_count=10)]

    def on_consume_ready(self, *_, **__):
        print("consuming", flush=True)

    def on_message(self, message):
        attempt, order = message.headers.get("retry-attempt", 0), json.loads(message.body)
        body = message.body if isinstance(message.body, str) else bytes(message.body).decode()
        said = f"attempt {attempt} {body}"
        try:
            handle(order, attempt)
        except ShopError as error:
            self.say_why(message, error)
            message.ack()
            print(said, "failed:", error, flush=True)
        except Exception:
            message.reject()  # the broker dead-letters it to rung.failed
            print(said, "rejected", flush=True)
        else:
            if attempt and "why" in order:  # report the success; otherwise silence means success
                result = {name: message.headers[name] for name in ("retry-id", "retry-attempt", "retry-token")}
                self.producer.publish(b"", exchange="rung.results", headers={**result, "retry-result": "succeeded"})
            message.ack()
            print(said, "done", flush=True)

    def say_why(self, message, error):
        """The same bytes, properties and headers, plus these. publish() waits for the confirm."""
        exchange, key = message.delivery_info["exchange"], message.delivery_info["routing_key"]
        # Where it came from first: a retry says that itself.
        headers = {"retry-origin-exchange": exchange, "retry-origin-routing-key": key, **message.headers,
                   "retry-queue": QUEUE.name, "retry-error": str(error), "retry-error-type": type(error).__name__}
        if error.after:
            headers["retry-after"] = error.after
        # The broker refuses another user's id, and an expiration could run out in rung.failed.
        left_out = ("application_headers", "user_id", "expiration")
        properties = {k: v for k, v in message.properties.items() if k not in left_out}
        self.producer.publish(message.body, exchange="rung.failed", routing_key=key, headers=headers, mandatory=True, **properties)


# Without confirm_publish, kombu does not wait for confirms.
with Connection(BROKER, transport_options={"confirm_publish": True}) as broker:
    if sys.argv[1:2] == ["send"]:
        sent = sys.argv[2] if len(sys.argv) > 2 else '{"order": 17, "fails": 2}'
        broker.Producer().publish(sent.encode(), routing_key=QUEUE.name, declare=[QUEUE], content_type="application/json",
                                  content_encoding="utf-8", message_id=f"{QUEUE.name}-{json.loads(sent)['order']}")
        print("sent", sent)
    else:
        Worker(broker).run()
