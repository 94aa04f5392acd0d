"""usage: aio_pika_worker.py AMQP-URL QUEUE PREFIX"""
import asyncio
import os
import sys

import aio_pika

os.environ["HTTP_LIBRARY"] = "httpx"
from rung_retry import Rung
from rung_retry.aio_pika import consumer
from work import work

url, queue, prefix = sys.argv[1:]


@consumer(queue, Rung(prefix, pause=0.2))
async def on_message(message):
    work(message.body.decode(), dict(message.headers))


async def main():
    connection = await aio_pika.connect(url)
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=10)
    await (await channel.get_queue(queue)).consume(on_message)
    await asyncio.Future()


asyncio.run(main())
