#!/usr/bin/python3
"""The shop of docs/redrive.md: the failures of a bad day, and then its consumers. The mails fail until template-is-fixed exists."""
import os
import pathlib

import pika

TEMPLATE = "TemplateError", "mail/receipt.html: unknown variable customer_name"


def failures():
    for n in range(30):
        yield "orders", f"order-{n}", "ServiceUnavailable", f"POST https://bank.example/charges/ch_{n:04x}9e778fec30fae: 503"
    for n in range(12):
        yield "orders", f"again-{n}", "IntegrityError", f"Duplicate entry '{4000 + n}' for key 'orders.number'"
    yield "orders", "order-4711", "KeyError", "'city'"
    for n in range(9):
        yield "invoices", f"invoice-{n}", "ConnectionError", f"connect ECONNREFUSED 10.0.0.{n + 2}:5432"
    for n in range(15):
        yield "mails", f"mail-{n}", *TEMPLATE


channel = pika.BlockingConnection(pika.URLParameters(os.environ["RUNG_TEST_AMQP"])).channel()
channel.confirm_delivery()


def failed(queue, properties, body, error_type, error):
    headers = dict(properties.headers or {})
    headers.update({"retry-queue": queue, "retry-error-type": error_type, "retry-error": error, "retry-never": True})
    properties.headers = headers
    channel.basic_publish("rung.failed", queue, body, properties)


for name, message_id, error_type, error in failures():
    failed(name, pika.BasicProperties(message_id=message_id, delivery_mode=2), b'{"order": 4711}', error_type, error)


def handle(queue):
    def on_message(_, method, properties, body):
        if queue == "mails" and not pathlib.Path("template-is-fixed").exists():
            failed(queue, properties, body, *TEMPLATE)
        channel.basic_ack(method.delivery_tag)
    return on_message


for name in ("orders", "invoices", "mails"):
    channel.basic_consume(name, handle(name))
channel.start_consuming()
