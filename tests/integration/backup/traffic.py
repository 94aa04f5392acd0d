"""Traffic while a database is backed up and restored: messages that fail once, twice or three times and then succeed."""
from __future__ import annotations

import threading

import pika
from machinery import PREFIX, Servers, until

QUEUE = "backup-orders"
CONFIG = f"queues:\n  {QUEUE}: {{ success: {{ presumed_after: 4s }} }}\n"


class Traffic:
    """A producer and a consumer, each with a thread and a connection."""

    def __init__(self, servers: Servers, rate: float) -> None:
        self.servers, self.rate = servers, rate
        self.ending = threading.Event()
        self.errors: list[str] = []
        self.deliveries = 0
        with servers.broker() as connection:
            connection.channel().queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": f"{PREFIX}.failed"})

    def begin(self) -> None:
        """REQUIRES: a sidecar has declared the exchanges."""
        for work in (self.produce, self.consume):
            threading.Thread(target=self.guarded, args=(work,), daemon=True).start()

    def guarded(self, work) -> None:
        try:
            work()
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(f"{work.__name__}: {error!r}")

    def produce(self) -> None:
        connection = self.servers.broker()
        channel = connection.channel()
        channel.confirm_delivery()
        count = 0
        while not self.ending.is_set():
            channel.basic_publish("", QUEUE, b'{"order": 4711}', pika.BasicProperties(message_id=f"u-{count}", delivery_mode=2))
            count += 1
            connection.sleep(1 / self.rate)
        connection.close()

    def consume(self) -> None:
        connection = self.servers.broker()
        channel = connection.channel()
        channel.basic_qos(prefetch_count=100)
        channel.basic_consume(QUEUE, self.delivered)
        while not self.ending.is_set():
            connection.process_data_events(0.2)
        connection.close()

    def delivered(self, channel, method, properties, _body) -> None:
        self.deliveries += 1
        headers = properties.headers or {}
        number = int(properties.message_id.split("-")[1])
        if int(headers.get("retry-attempt", 0)) < 1 + number % 3:
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        # Every second success is reported; silence means success for the others.
        if number % 2 == 0:
            channel.basic_publish(f"{PREFIX}.results", "", b"", pika.BasicProperties(delivery_mode=2, headers={
                name: headers[name] for name in ("retry-id", "retry-attempt", "retry-token")} | {"retry-result": "succeeded"}))
        channel.basic_ack(method.delivery_tag)

    def wait(self, count: int) -> None:
        """Until the consumer has had `count` more deliveries."""
        goal = self.deliveries + count
        until(f"{count} more deliveries", lambda: self.errors or self.deliveries >= goal)
