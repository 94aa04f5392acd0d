"""usage: pika_worker.py AMQP-URL QUEUE PREFIX"""
import os
import sys

import pika

os.environ["HTTP_LIBRARY"] = "requests"
from rung_retry import Rung
from rung_retry.pika import consumer
from work import work

url, queue, prefix = sys.argv[1:]


@consumer(queue, Rung(prefix, pause=0.2))
def on_message(channel, method, properties, body):
    work(body.decode(), properties.headers or {})


channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
channel.basic_qos(prefetch_count=10)
channel.basic_consume(queue, on_message)
channel.start_consuming()
