"""RabbitMQ 4.3's own delayed retry and Rung together: the broker for seconds, Rung for longer.

RabbitMQ 4.3 or newer. What docs/compatibility.md says of it.
"""
import time

import pika

import servers

LIMIT, LEAST = 2, 0.3  # deliveries beyond the first, seconds


class DelayedRetry(servers.Sidecar):
    ladder = "[3s, 3s]"

    def setUp(self):
        self.queue = self.id().rsplit("_", 1)[-1]
        self.declare(self.queue, x_dead_letter_exchange="rung.failed", x_delivery_limit=LIMIT,
                     x_delayed_retry_type="failed", x_delayed_retry_min=int(LEAST * 1000), x_delayed_retry_max=1000)
        connection = pika.BlockingConnection(pika.URLParameters(self.amqp))
        self.addCleanup(connection.close)
        self.channel = connection.channel()

    def publish(self, name):
        self.channel.basic_publish("", self.queue, b"body", pika.BasicProperties(message_id=name, delivery_mode=2))

    def next(self):
        """(tag, Rung's attempt, the broker's count of failures, when)"""
        got = []

        def came():
            method, properties, _ = self.channel.basic_get(self.queue)
            if method:
                headers = properties.headers or {}
                got.append((method.delivery_tag, headers.get("retry-attempt", 0), headers.get("x-delivery-count", 0),
                            time.monotonic()))
            return bool(method)

        self.until(came, "a delivery")
        return got[0]

    def test_together(self):
        """Each attempt of Rung is LIMIT + 1 deliveries of the broker; a reject that is requeued counts."""
        self.publish("both")
        seen = []
        for _ in range(2 * (LIMIT + 1)):
            tag, attempt, failures, when = self.next()
            seen.append((attempt, failures))
            if len(seen) > 1:
                waited, least = when - before, 3 if failures == 0 else LEAST * failures
                self.assertGreaterEqual(waited, least, seen)
            before = time.monotonic()
            self.channel.basic_reject(tag, requeue=True)
        self.assertEqual(seen, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)])
        tag, attempt, _, _ = self.next()
        self.assertEqual(attempt, 2)
        self.channel.basic_ack(tag)
        row, = self.sql("SELECT retry_id, attempt, last_error FROM retry_current WHERE message_id = 'both'")
        self.assertEqual(row["last_error"], f"dead-lettered: delivery_limit (queue {self.queue})")
        history = self.sql("SELECT attempt, outcome FROM retry_history WHERE retry_id = %s ORDER BY attempt", row["retry_id"])
        self.assertEqual([(h["attempt"], h["outcome"]) for h in history][:1], [(1, "failed")])
