"""One message of tests/image: rejected once, then expected back as its first retry."""
import os
import sys

import pika

SECONDS = 30


def main() -> None:
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RUNG_TEST_AMQP"]))
    channel = connection.channel()
    if sys.argv[1] == "declare":
        channel.queue_declare("orders", durable=True)
        return
    channel.basic_publish("", "orders", b"17", pika.BasicProperties(message_id="order-17", delivery_mode=2))
    for method, properties, body in channel.consume("orders", inactivity_timeout=SECONDS):
        if method is None:
            sys.exit(f"no delivery within {SECONDS} s")
        headers = properties.headers or {}
        if "retry-attempt" in headers:
            assert (headers["retry-attempt"], properties.message_id, body) == (1, "order-17", b"17"), (headers, body)
            channel.basic_ack(method.delivery_tag)
            return
        channel.basic_reject(method.delivery_tag, requeue=False)


main()
