"""What passes through the sidecars meanwhile: a consumer whose answers the faults set, and some messages a second."""
import threading
import time

import pika
import pika.exceptions

QUEUES = ("orders", "payments", "invoices", "mails")
PERIOD_SECONDS = 0.3


class Traffic:
    """`answers`: what the consumer does with each queue's messages: ack (and report success), reject, or retry: reject
    at first, ack what comes back. A lost connection is made anew."""

    def __init__(self, amqp):
        self.parameters = pika.URLParameters(amqp + "?heartbeat=0&socket_timeout=2&blocked_connection_timeout=2")
        self.answers = {"orders": "ack", "payments": "ack", "invoices": "ack", "mails": "retry"}
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._keep, args=(work,), daemon=True) for work in (self._consume, self._produce)]

    def declare(self):
        with pika.BlockingConnection(self.parameters) as connection:
            for queue in QUEUES:
                connection.channel().queue_declare(queue, durable=True)

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(10)

    def send(self, queue, messages, headers=None):
        with pika.BlockingConnection(self.parameters) as connection:
            channel = connection.channel()
            for number in range(messages):
                channel.basic_publish("", queue, f"{queue} {number}", pika.BasicProperties(headers=headers))

    def _keep(self, work):
        while not self.stopping.is_set():
            try:
                with pika.BlockingConnection(self.parameters) as connection:
                    work(connection)
            except (pika.exceptions.AMQPError, OSError):
                time.sleep(0.2)

    def _produce(self, connection):
        channel = connection.channel()
        while not self.stopping.wait(PERIOD_SECONDS):
            channel.basic_publish("", "mails", "a mail")
            if self.answers["orders"] == "reject":
                channel.basic_publish("", "orders", "an order")
            connection.process_data_events(0)

    def _consume(self, connection):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=50)
        for queue in QUEUES:
            channel.basic_consume(queue, lambda *delivery, queue=queue: self._answer(queue, *delivery))
        while not self.stopping.is_set():
            connection.process_data_events(0.2)

    def _answer(self, queue, channel, method, properties, _body):
        headers = properties.headers or {}
        answer = self.answers[queue]
        if answer == "reject" or (answer == "retry" and "retry-id" not in headers):
            channel.basic_reject(method.delivery_tag, requeue=False)
            return
        channel.basic_ack(method.delivery_tag)
        if "retry-id" in headers:
            report = {key: headers[key] for key in ("retry-id", "retry-attempt", "retry-token")}
            channel.basic_publish("", "rung.results", "", pika.BasicProperties(headers={**report, "retry-result": "succeeded"}))
