"""The quickstart's shop: publishes eight orders and consumes them; the payment service is down at first.

usage: shop.py AMQP-URL
"""
import json
import sys
import time

import pika

QUEUE = "orders"
DOWN_SECONDS = 5.0  # how long the payment service is down
POISON = 4  # this order's amount is not a number, so no retry can succeed


class PaymentServiceDown(Exception):
    pass


def charge(order, started):
    amount = int(order["amount"])  # ValueError for the poison message
    if time.monotonic() - started < DOWN_SECONDS:
        raise PaymentServiceDown(f"payment service: connection refused, {amount} not charged")


def say(text):
    print(time.strftime("%H:%M:%S"), text)


def handle(channel, method, properties, body, started):
    order, headers = json.loads(body), dict(properties.headers or {})
    attempt = headers.get("retry-attempt", 0)
    name = f"{properties.message_id} {'first try' if attempt == 0 else f'retry {attempt}'}:"
    try:
        charge(order, started)
    except PaymentServiceDown:
        # Reject it: RabbitMQ dead-letters it to the sidecar. The consumer needs no code for Rung.
        say(f"{name} payment service down, rejected")
        channel.basic_reject(method.delivery_tag, requeue=False)
        return
    except ValueError as error:
        # Or report the error: publish it with the error text, wait for the confirm, then ack.
        say(f"{name} {error}")
        headers.setdefault("retry-origin-exchange", method.exchange)  # a retry says that itself
        headers.setdefault("retry-origin-routing-key", method.routing_key)
        headers.update({"retry-queue": QUEUE, "retry-error": str(error), "retry-error-type": "ValueError"})
        properties.headers = headers
        channel.basic_publish("rung.failed", method.routing_key, body, properties)
        channel.basic_ack(method.delivery_tag)
        return
    say(f"{name} charged")
    if attempt:
        result = {"retry-id": headers["retry-id"], "retry-attempt": attempt,
                  "retry-token": headers.get("retry-token"), "retry-result": "succeeded"}
        channel.basic_publish("rung.results", QUEUE, b"", pika.BasicProperties(headers=result))
    channel.basic_ack(method.delivery_tag)


def main(url):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    # This argument attaches a new queue; to attach an existing queue, use a policy.
    channel.queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})
    started = time.monotonic()
    channel.basic_qos(prefetch_count=10)
    channel.basic_consume(QUEUE, lambda ch, method, props, body: handle(ch, method, props, body, started))
    for i in range(1, 9):
        order = {"order": i, "amount": "twelve" if i == POISON else str(10 * i)}
        channel.basic_publish("", QUEUE, json.dumps(order).encode(),
                              pika.BasicProperties(message_id=f"order-{i}", delivery_mode=2))
        connection.sleep(0.2)  # consumes in the meantime
    channel.start_consuming()


if __name__ == "__main__":
    main(sys.argv[1])
