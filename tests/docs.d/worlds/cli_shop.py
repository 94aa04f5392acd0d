#!/usr/bin/python3
"""The shop of docs/cli.md. Order 17 is rejected, then the bank does not answer twice; order 18 fails every time."""
import os

import pika

channel = pika.BlockingConnection(pika.URLParameters(os.environ["RUNG_TEST_AMQP"])).channel()
channel.confirm_delivery()
NOBODY, BANK = "no such customer: 0", "bank did not answer in 2 s"


def failed(properties, body):
    headers = dict(properties.headers or {})
    headers.update({"retry-queue": "orders", "retry-error": NOBODY, "retry-executor": "shop-2:8080",
                    "retry-error-type": "ValueError"})
    properties.headers = headers
    channel.basic_publish("rung.failed", "orders", body, properties)


def report(headers, result, error):
    said = {name: headers[name] for name in ("retry-id", "retry-attempt", "retry-token")}
    said.update({"retry-result": result, "retry-executor": "shop-2:8080"}, **({"retry-error": error} if error else {}))
    channel.basic_publish("rung.results", "", b"", pika.BasicProperties(headers=said, delivery_mode=2))


for order in ("18", "17"):
    channel.basic_publish("", "orders", f'{{"order": {order}}}'.encode(), pika.BasicProperties(
        message_id=f"order-{order}", type="order.created", delivery_mode=2, headers={"tenant": "acme"}))
for method, properties, body in channel.consume("orders"):
    headers = properties.headers or {}
    attempt = headers.get("retry-attempt", 0)
    if properties.message_id == "order-18":
        failed(properties, body)
        channel.basic_ack(method.delivery_tag)
    elif attempt == 0:
        channel.basic_reject(method.delivery_tag, requeue=False)
    else:
        report(headers, "failed" if attempt < 3 else "succeeded", BANK if attempt < 3 else None)
        channel.basic_ack(method.delivery_tag)
