"""aio-pika: @consumer("orders") on the callback of queue.consume()."""
import asyncio
import functools
import weakref
from typing import Any, Awaitable, Callable, Dict

from aio_pika.abc import AbstractIncomingMessage
from aiormq import spec

from . import Rung, log, reason

Callback = Callable[[AbstractIncomingMessage], Awaitable[Any]]
_channels: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()  # of a connection: where we publish


def consumer(queue: str, rung: Rung = Rung()) -> Callable[[Callback], Callback]:
    """The callback returns: a success; it raises: a failure. The decorator acks; the callback must not."""
    def decorate(callback: Callback) -> Callback:
        @functools.wraps(callback)
        async def on_message(message: AbstractIncomingMessage) -> None:
            try:
                await callback(message)
            except Exception as error:
                log.warning("%s: %s: %s", queue, type(error).__name__, error)
                properties = message.properties  # a copy
                properties.headers = rung.failure(queue, message.exchange or "", message.routing_key or "",
                                                  properties.headers, reason(error))
                # user-id: the broker refuses one that is not our user. expiration: it would run out in rung.failed.
                properties.user_id = properties.expiration = None
                properties.delivery_mode = 2
                try:
                    await _publish(message, rung.failed, message.routing_key or "", message.body, properties)
                except Exception as refused:
                    log.error("%s refused a failed message, it is requeued: %r", rung.failed, refused)
                    await asyncio.sleep(rung.pause)
                    await message.nack(requeue=True)
                    return
            else:
                result = rung.success(message.headers)
                if result is not None:
                    try:
                        await _publish(message, rung.results, queue, b"",
                                       spec.Basic.Properties(headers=result, delivery_mode=2))
                    except Exception as refused:  # Rung takes silence as the settings say
                        log.error("%s refused a success: %r", rung.results, refused)
            await message.ack()  # last: a crash before it repeats the delivery
        return on_message
    return decorate


async def _publish(message: Any, exchange: str, routing_key: str, body: bytes,
                   properties: spec.Basic.Properties) -> None:
    """Returns when the broker has confirmed. On a channel of its own: a refusal closes it."""
    connection = message.channel.connection
    own = _channels.get(connection)
    if own is None or own.is_closed:
        own = _channels[connection] = await connection.channel(publisher_confirms=True)
    await own.basic_publish(body, exchange=exchange, routing_key=routing_key, properties=properties, mandatory=True, timeout=30)
