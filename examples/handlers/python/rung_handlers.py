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
import os
import socket
import sys
import time
import traceback

import pika
from pika.exceptions import AMQPError

EXECUTOR = f"{socket.gethostname()}:{os.getpid()}"  # recorded in retry_history: who handled the attempt
RECONNECT_SECONDS = 0.5


class Never(Exception):
    """A permanent failure: Rung parks the task at once."""


class Later(Exception):
    """A failure with a delay before the retry: Later("in maintenance", "30s")."""

    def __init__(self, text, after):
        super().__init__(text)
        self.after = after


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
        self.prefix, self.log, self.by_tag = prefix, log, {}

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
        channel.confirm_delivery()  # basic_publish waits for the confirm, or raises
        channel.basic_qos(prefetch_count=10)
        channel.queue_declare(queue, durable=True, arguments={"x-dead-letter-exchange": f"{self.prefix}.failed"})
        channel.basic_consume(queue, lambda *delivery: self._on_message(queue, *delivery))
        channel.start_consuming()

    def _on_message(self, queue, channel, method, properties, body):
        headers = dict(properties.headers or {})
        job = Job(properties.type or "", body, headers, properties.message_id or "", headers.get("retry-id", ""),
                  headers.get("retry-attempt", 0), headers.get("retry-level", 0))
        try:
            self._call(job)
        except Exception as error:  # report any exception
            self.log(f"{job.tag} {job.key}: attempt {job.attempt} failed: {error}")
            self._report_failure(channel, queue, properties, job, error)
        else:
            if job.retry_id:
                self._report(channel, job, {"retry-result": "succeeded"})
        channel.basic_ack(method.delivery_tag)  # last: a crash before it repeats the delivery but loses nothing

    def _call(self, job):
        if job.tag not in self.by_tag:
            raise LookupError(f"no handler for tag {job.tag!r} in {sorted(self.by_tag)}")
        self.by_tag[job.tag](job)

    def _report(self, channel, job, result):
        result = {"retry-id": job.retry_id, "retry-attempt": job.attempt, "retry-executor": EXECUTOR,
                  "retry-token": job.headers.get("retry-token", ""), **result}
        channel.basic_publish(f"{self.prefix}.results", "", b"", pika.BasicProperties(headers=result, delivery_mode=2))

    def _report_failure(self, channel, queue, properties, job, error):
        why = {"retry-error": stack_of(error), "retry-error-type": type(error).__name__, "retry-executor": EXECUTOR}
        if isinstance(error, Never):
            why["retry-never"] = True
        if isinstance(error, Later):
            why["retry-after"] = error.after
        if job.retry_id:
            # Rung has the message: the result is enough.
            self._report(channel, job, {"retry-result": "failed", **why})
            return
        # Rung does not have the message yet: send it, with the error.
        properties.headers = {**job.headers, "retry-queue": queue, **why}
        properties.user_id = None  # the broker rejects a user-id that is not our user
        channel.basic_publish(f"{self.prefix}.failed", queue, job.body, properties)


def stack_of(error):
    """The stack without this file's frames; the error itself first, because lists shorten the end."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    lines = "".join(traceback.format_list(frames)).rstrip()
    return f"{type(error).__name__}: {error}" + (f"\n{lines}" if lines else "")


def main(handlers, argv=None):
    """usage: FILE [AMQP-URL [QUEUE]]"""
    argv = sys.argv[1:] if argv is None else argv
    handlers.run(argv[0] if argv else "amqp://guest:guest@127.0.0.1:5672/%2f", argv[1] if len(argv) > 1 else "jobs")
