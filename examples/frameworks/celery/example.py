"""Celery with Rung. usage: example.py send [BODY]; the worker: celery -A example worker

Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the task fails the first
two times. With "why": "HTTP 503" (and "after": "2s") the worker says why, sets the delay, and reports the success.
"""
import json
import os
import sys

from celery import Celery, Task
from celery.worker.request import Request
from kombu import Exchange, Queue

BROKER = os.environ.get("RUNG_EXAMPLE_BROKER", "amqp://guest:guest@127.0.0.1:5672/%2f")
QUEUE = os.environ.get("QUEUE", "celery-orders")

app = Celery("example", broker=BROKER)
app.conf.update(
    task_acks_late=True,  # ack after the task has run ...
    task_acks_on_failure_or_timeout=False,  # ... and reject it if it failed: the broker dead-letters it to rung.failed
    task_queues=[Queue(QUEUE, Exchange(""), routing_key=QUEUE, queue_arguments={"x-dead-letter-exchange": "rung.failed"})],
    task_default_queue=QUEUE,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
)


class ShopError(Exception):
    """A failure with a reason, and optionally the time of the next attempt."""

    def __init__(self, text, after=None):
        super().__init__(text, after)  # both are arguments: Celery pickles the exception for the main process


class SaysWhy(Request):
    """Publishes the message, as received, to rung.failed with the reason. It runs in the worker's main process."""

    def on_failure(self, exc_info, *args, **kwargs):
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        if isinstance(error, ShopError):
            text, after = error.args
            exchange, key = self.message.delivery_info["exchange"], self.message.delivery_info["routing_key"]
            # Where it came from first: a retry says that itself.
            headers = {"retry-origin-exchange": exchange, "retry-origin-routing-key": key, **self.message.headers,
                       "retry-queue": QUEUE, "retry-error": text, "retry-error-type": type(error).__name__}
            if after:
                headers["retry-after"] = after
            # The broker refuses another user's id, and an expiration could run out in rung.failed.
            left_out = ("application_headers", "user_id", "expiration")
            properties = {k: v for k, v in self.message.properties.items() if k not in left_out}
            with app.producer_pool.acquire(block=True) as producer:
                producer.publish(self.message.body, exchange="rung.failed", routing_key=key, headers=headers, retry=True, mandatory=True,
                                 **properties)
            self.acknowledge()  # Celery's own reject then does nothing
        return super().on_failure(exc_info, *args, **kwargs)


class RungTask(Task):
    Request = "example:SaysWhy"

    def on_success(self, retval, task_id, args, kwargs):
        """Reports the success; otherwise silence means success."""
        names = ("retry-id", "retry-attempt", "retry-token")
        if self.request.get("retry-attempt") and "why" in args[0]:
            with app.producer_pool.acquire(block=True) as producer:
                producer.publish(b"", exchange="rung.results",
                                 headers={**{name: self.request.get(name) for name in names}, "retry-result": "succeeded"})


@app.task(base=RungTask, bind=True)
def handle(self, order):
    """Your work."""
    attempt = self.request.get("retry-attempt") or 0
    failing = attempt < order.get("fails", 0)
    outcome = "done" if not failing else f"failed: {order['why']}" if "why" in order else "rejected"
    print(f"attempt {attempt} {json.dumps(order)} {outcome}", flush=True)
    if failing:
        raise ShopError(order["why"], order.get("after")) if "why" in order else RuntimeError("failed")


if __name__ == "__main__":
    message = sys.argv[2] if len(sys.argv) > 2 else '{"order": 17, "fails": 2}'
    handle.apply_async([json.loads(message)], message_id=f"{QUEUE}-{json.loads(message)['order']}")
    print("sent", message)
