"""Functions for messages by their tag (AMQP's property `type`): the registry, and the consumer that calls them.

    handlers = Handlers()

    @handlers.on("order.close")
    def close_order(job):
        ...                                  # exceptions are reported, with their stack

    handlers.run("amqp://guest:guest@127.0.0.1:5672/%2f", "orders.close")

Uses pika (Debian: python3-pika). One thread; reconnects when the connection is lost.
"""
import dataclasses
import json
import pathlib
import sys
import time

import pika
from pika.exceptions import AMQPError

# Here from its folder; in your project: pip install examples/helpers/python
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "helpers" / "python"))
from rung_retry import GiveUp, RetryLater, Rung
from rung_retry.pika import delivery

RECONNECT_SECONDS = 0.5


Never, Later = GiveUp, RetryLater  # raise Never("..."): parks the task at once. Later("...", "30s"): retries after that


@dataclasses.dataclass
class Job:
    tag: str
    body: bytes
    headers: dict
    message_id: str
    retry_id: str  # "" = not a delivery from Rung
    attempt: int   # Rung's count of its deliveries; 0 = not from Rung
    level: int     # 0 = it has not failed before

    def json(self):
        return json.loads(self.body)

    @property
    def key(self):
        """The same for repeated deliveries: a unique key for your work."""
        return self.message_id or self.retry_id


class Handlers:
    def __init__(self, prefix="rung", log=lambda text: print(text, flush=True)):
        self.rung, self.log, self.by_tag = Rung(prefix), log, {}

    def on(self, tag):
        def register(function):
            if tag in self.by_tag:
                raise ValueError(f"two handlers for {tag}")
            self.by_tag[tag] = function
            return function
        return register

    def run(self, url, queue):
        """Consumes until the process ends."""
        while True:
            try:
                self._consume(url, queue)
            except AMQPError as error:
                self.log(f"connection lost ({type(error).__name__}), reconnecting")
                time.sleep(RECONNECT_SECONDS)

    def _consume(self, url, queue):
        channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
        channel.basic_qos(prefetch_count=10)
        channel.queue_declare(queue, durable=True, arguments={"x-dead-letter-exchange": self.rung.failed})
        channel.basic_consume(queue, lambda *args: self._on_message(queue, *args))
        channel.start_consuming()

    def _on_message(self, queue, channel, method, properties, body):
        headers = dict(properties.headers or {})
        job = Job(properties.type or "", body, headers, properties.message_id or "", headers.get("retry-id", ""),
                  headers.get("retry-attempt", 0), headers.get("retry-level", 0))
        with delivery(queue, channel, method, properties, body, self.rung):  # reports how it ends, and acks
            try:
                self._call(job)
            except Exception as error:
                self.log(f"{job.tag} {job.key}: attempt {job.attempt} failed: {error}")
                raise

    def _call(self, job):
        if job.tag not in self.by_tag:
            raise LookupError(f"no handler for tag {job.tag!r} in {sorted(self.by_tag)}")
        self.by_tag[job.tag](job)


def main(handlers, argv=None):
    """usage: FILE [AMQP-URL [QUEUE]]"""
    argv = sys.argv[1:] if argv is None else argv
    handlers.run(argv[0] if argv else "amqp://guest:guest@127.0.0.1:5672/%2f", argv[1] if len(argv) > 1 else "jobs")
