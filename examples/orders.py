#!/usr/bin/python3
"""A producer and a consumer for the README's tutorial: order 4711 fails once, order 13 fails every time.

usage: examples/orders.py [--declare] [AMQP-URL]   (Debian: apt install python3-pika)
Declares the queue `orders`; without --declare it also publishes two orders, and ends when each has been retried once.
"""
import os
import sys
import time

import pika

words = [word for word in sys.argv[1:] if word != "--declare"]
url = words[0] if words else os.environ.get("RUNG_EXAMPLE_BROKER", "amqp://guest:guest@127.0.0.1:5672/%2f")
channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
channel.queue_declare("orders", durable=True)
if "--declare" in sys.argv:
    sys.exit()
channel.confirm_delivery()


def say(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


for order in ("4711", "13"):
    properties = pika.BasicProperties(message_id=order, delivery_mode=2)
    channel.basic_publish("", "orders", f'{{"order": {order}}}'.encode(), properties, mandatory=True)
    say(f"order {order} published")

retried = set()
for method, properties, body in channel.consume("orders"):
    attempt = (properties.headers or {}).get("retry-attempt", 0)
    what = f"order {properties.message_id}, " + (f"retry {attempt}" if attempt else "first delivery")
    if attempt:
        retried.add(properties.message_id)
    if properties.message_id == "4711" and attempt:
        channel.basic_ack(method.delivery_tag)
        say(f"{what}: handled")
    else:
        channel.basic_reject(method.delivery_tag, requeue=False)
        say(f"{what}: rejected")
    if retried >= {"4711", "13"}:
        break
channel.cancel()
channel.connection.close()
