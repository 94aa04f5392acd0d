"""Repairs messages of AMQP 1.0 clients that RabbitMQ cannot deliver to an AMQP 0-9-1 consumer such as Rung.

usage: unblock.py AMQP-URL [QUEUE]        AMQP-URL: as in broker.url; QUEUE: default rung.failed
needs: python3-qpid-proton; RabbitMQ 4.0 or newer

Such a message blocks all messages behind it (docs/compatibility.md). This script reads the queue over AMQP 1.0, which converts
nothing. Messages that can be converted are returned unchanged. In the others, application properties of the types uuid and char
become strings, and values that cannot be converted are removed; the repaired message is published to the queue before the old one
is acknowledged. If the script is stopped in between, both exist. Rung can keep running.
"""
import collections
import sys
import urllib.parse
import uuid

from proton import Data, Delivery, Described, Timeout, char, decimal32, decimal64, decimal128
from proton.handlers import Handshaker, MessagingHandler
from proton.utils import BlockingConnection

ANNOTATIONS, PROPERTIES, APPLICATION = 0x72, 0x73, 0x74
CONTENT_TYPE, CONTENT_ENCODING = 6, 7  # in the list of properties
QUIET_SECONDS = 2  # after this long without a message, the queue is assumed empty


def convertible(value):
    if isinstance(value, dict):
        return all(convertible(v) for v in value.values())
    if isinstance(value, (list, tuple)) and not isinstance(value, Described):
        return all(convertible(v) for v in value)
    if isinstance(value, float):
        return value - value == 0  # neither NaN nor infinite
    return not isinstance(value, (uuid.UUID, char, decimal32, decimal64, decimal128))


def as_text(value):
    return str(value) if isinstance(value, (uuid.UUID, char)) else value


def mended(section):
    """The section with only convertible values."""
    kind, value = int(section.descriptor), section.value
    if kind == APPLICATION:
        value = {name: as_text(v) for name, v in value.items() if convertible(as_text(v))}
    elif kind == ANNOTATIONS:
        value = {name: v for name, v in value.items() if name == "x-opt-deaths" or convertible(v)}
    elif kind == PROPERTIES:
        value = [None if at in (CONTENT_TYPE, CONTENT_ENCODING) and v and len(v) > 255 else v for at, v in enumerate(value)]
    return Described(section.descriptor, value)


def rewritten(octets):
    """None: the message can be converted unchanged."""
    out, changed = b"", False
    while octets:
        data = Data()
        size = data.decode(octets)
        data.rewind()
        data.next()
        section = data.get_object()
        same = section
        if int(section.descriptor) in (ANNOTATIONS, PROPERTIES, APPLICATION):
            same = mended(section)
        if repr(same.value) != repr(section.value):  # a char compares equal to its text
            changed = True
            again = Data()
            again.put_object(same)
            out += again.encode()
        else:
            out += octets[:size]
        octets = octets[size:]
    return out if changed else None


class Receiver(MessagingHandler):
    def __init__(self):
        super().__init__(auto_accept=False, prefetch=0)
        self.handlers = [Handshaker()]  # not the decoding handler: we need the octets
        self.got = collections.deque()

    def on_delivery(self, event):
        delivery = event.delivery
        if delivery.link.is_receiver and delivery.readable and not delivery.partial:
            self.got.append((delivery, delivery.link.recv(delivery.pending)))
            delivery.link.advance()


def main(broker, queue):
    url = urllib.parse.urlsplit(broker)
    vhost = urllib.parse.unquote(url.path[1:]) or "/"
    scheme, port = ("amqps", url.port or 5671) if url.scheme == "amqps" else ("amqp", url.port or 5672)
    connection = BlockingConnection(f"{scheme}://{url.hostname}:{port}", timeout=30, sasl_enabled=True,
                                    user=urllib.parse.unquote(url.username or "guest"),
                                    password=urllib.parse.unquote(url.password or "guest"), allowed_mechs="PLAIN",
                                    allow_insecure_mechs=True, virtual_host=f"vhost:{vhost}")
    address = "/queues/" + urllib.parse.quote(queue, safe="")
    handler = Receiver()
    receiver = connection.create_receiver(address, credit=0, handler=handler)
    sender = connection.create_sender(address)
    held, found = [], 0
    while True:
        receiver.link.flow(1)
        try:
            connection.wait(lambda: handler.got, timeout=QUIET_SECONDS)
        except Timeout:
            break
        delivery, octets = handler.got.popleft()
        better = rewritten(octets)
        if better is None:
            held.append(delivery)  # if released now, it would be delivered again
            continue
        sent = sender.link.delivery(str(found))
        sender.link.stream(better)
        sender.link.advance()
        connection.wait(lambda: sent.settled, timeout=30)
        if sent.remote_state != Delivery.ACCEPTED:
            sys.exit(f"the broker rejected the repaired message: {sent.remote_state}")
        sent.settle()
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        found += 1
    for delivery in held:
        delivery.update(Delivery.RELEASED)
        delivery.settle()
    receiver.close()
    connection.close()
    print(f"{found} messages in {queue} could not be converted and were repaired")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "rung.failed")
