"""pika with a BlockingConnection: @consumer("orders") on the callback of basic_consume."""
import contextlib
import functools
import weakref
from typing import Any, Callable, Dict, Iterator

import pika

from . import Rung, log, reason

Callback = Callable[[Any, Any, Any, bytes], Any]
_channels: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()  # of a connection: where we publish


def consumer(queue: str, rung: Rung = Rung()) -> Callable[[Callback], Callback]:
    """The callback returns: a success; it raises: a failure. The decorator acks; the callback must not."""
    def decorate(callback: Callback) -> Callback:
        @functools.wraps(callback)
        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            with delivery(queue, channel, method, properties, body, rung):
                callback(channel, method, properties, body)
        return on_message
    return decorate


@contextlib.contextmanager
def delivery(queue: str, channel: Any, method: Any, properties: Any, body: bytes, rung: Rung = Rung()) -> Iterator[None]:
    """The same as a context. KeyboardInterrupt and SystemExit pass: the message stays unacked."""
    try:
        yield
    except Exception as error:
        log.warning("%s: %s: %s", queue, type(error).__name__, error)
        # user-id: the broker refuses one that is not our user. expiration: it would run out in rung.failed.
        fields = {**vars(properties), "headers": rung.failure(queue, method.exchange, method.routing_key,
                                                                properties.headers, reason(error)),
                  "user_id": None, "expiration": None, "delivery_mode": 2}
        try:
            _publish(channel, rung.failed, method.routing_key, body, fields)
        except Exception as refused:
            log.error("%s refused a failed message, it is requeued: %r", rung.failed, refused)
            channel.connection.call_later(rung.pause, lambda: channel.basic_nack(method.delivery_tag, requeue=True))
            return
    else:
        result = rung.success(properties.headers)
        if result is not None:
            try:
                _publish(channel, rung.results, queue, b"", {"headers": result, "delivery_mode": 2})
            except Exception as refused:  # Rung has the row, and takes silence as the queue's settings say
                log.error("%s refused a success: %r", rung.results, refused)
    channel.basic_ack(method.delivery_tag)  # last: a crash before it repeats the delivery


def _publish(channel: Any, exchange: str, routing_key: str, body: bytes, fields: Dict[str, Any]) -> None:
    """Returns when the broker has confirmed. On a channel of its own: a refusal closes it."""
    connection = channel.connection
    own = _channels.get(connection)
    if own is None or not own.is_open:
        own = _channels[connection] = connection.channel()
        own.confirm_delivery()
    own.basic_publish(exchange, routing_key, body, pika.BasicProperties(**fields), mandatory=True)
