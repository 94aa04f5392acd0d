"""AMQP 1.0 as it is on the wire: a message is its sections, with the types of their values.

proton's own Message knows one body section and hides types. Here sections are written and read one by one.
"""
import collections
import time
import urllib.parse

from proton import Data, Delivery, Described, ulong
from proton.handlers import Handshaker, MessagingHandler
from proton.utils import BlockingConnection

HEADER, DELIVERY_ANNOTATIONS, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, SEQUENCE, VALUE, FOOTER = range(0x70, 0x79)
FIELDS = ("message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding",
          "absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id")
BODIES = (DATA, SEQUENCE, VALUE)
BOUND_SECONDS = 60


def encode(value):
    data = Data()
    data.put_object(value)
    return data.encode()


class Message:
    """properties: by the names above. body: a list of (section, value). Equal when type and value of each thing are."""

    def __init__(self, body, properties=None, application=None, annotations=None, footer=None, header=None):
        self.body, self.properties, self.application = body, properties or {}, application or {}
        self.annotations, self.footer, self.header = annotations or {}, footer or {}, header or [True]

    def encoded(self):
        sections = [(HEADER, self.header), (ANNOTATIONS, self.annotations),
                    (PROPERTIES, [self.properties.get(name) for name in FIELDS]), (APPLICATION, self.application),
                    *self.body, (FOOTER, self.footer)]
        return b"".join(encode(Described(ulong(kind), value)) for kind, value in sections if value or kind in BODIES)

    @classmethod
    def decoded(cls, octets):
        message = cls([])
        while octets:
            data = Data()
            octets = octets[data.decode(octets):]
            data.rewind()
            data.next()
            section = data.get_object()
            kind, value = int(section.descriptor), section.value
            if kind in BODIES:
                message.body.append((kind, value))
            elif kind == PROPERTIES:
                message.properties = {name: v for name, v in zip(FIELDS, value) if v is not None}
            elif kind == APPLICATION:
                message.application = value
            elif kind == ANNOTATIONS:
                message.annotations = value
            elif kind == FOOTER:
                message.footer = value
            elif kind == HEADER:
                message.header = value
        return message


def typed(value):
    """Something that is equal only where the types are, too: 1, True, ubyte(1) and long(1) are all equal to Python."""
    if isinstance(value, dict):
        return {typed(k): typed(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and type(value).__name__ in ("list", "tuple"):
        return [typed(v) for v in value]
    if isinstance(value, memoryview):
        value = bytes(value)
    return f"{type(value).__name__} {value!r}"


class Receiver(MessagingHandler):
    def __init__(self):
        super().__init__(auto_accept=False, prefetch=0)
        self.handlers = [Handshaker()]  # not the one that decodes: it stops at the second body section
        self.got = collections.deque()

    def on_delivery(self, event):
        delivery = event.delivery
        if delivery.link.is_receiver and delivery.readable and not delivery.partial:
            self.got.append((delivery, delivery.link.recv(delivery.pending)))
            delivery.link.advance()


class Client:
    def __init__(self, amqp_url):
        url = urllib.parse.urlsplit(amqp_url)
        vhost = urllib.parse.unquote(url.path[1:])
        self.connection = BlockingConnection(f"{url.hostname}:{url.port}", timeout=BOUND_SECONDS, user=url.username,
                                             password=url.password, sasl_enabled=True, allowed_mechs="PLAIN",
                                             allow_insecure_mechs=True, virtual_host=f"vhost:{vhost}")
        self.receivers = {}

    def close(self):
        self.connection.close()

    def send(self, queue, message):
        sender = self.connection.create_sender(f"/queues/{urllib.parse.quote(queue, safe='')}")
        link = sender.link
        delivery = link.delivery(f"{time.monotonic_ns()}")
        link.stream(message.encoded())
        link.advance()
        self.connection.wait(lambda: delivery.settled, msg="the broker settles what was sent")
        state = delivery.remote_state
        delivery.settle()
        sender.close()
        assert state == Delivery.ACCEPTED, state

    def receive(self, queue):
        """The next message as (delivery, Message); waits."""
        if queue not in self.receivers:
            handler = Receiver()
            link = self.connection.create_receiver(f"/queues/{urllib.parse.quote(queue, safe='')}", credit=0,
                                                   handler=handler)
            self.receivers[queue] = (handler, link)
        handler, receiver = self.receivers[queue]
        if not handler.got:
            receiver.link.flow(1)
            self.connection.wait(lambda: handler.got, msg=f"a message from {queue}")
        delivery, octets = handler.got.popleft()
        return delivery, Message.decoded(octets)

    def settle(self, delivery, outcome, failed=None, elsewhere=None):
        if failed is not None:
            delivery.local.failed = failed
        if elsewhere is not None:
            delivery.local.undeliverable = elsewhere
        delivery.update(outcome)
        delivery.settle()
        # An answer is not asked for; a round trip sees to it that it was sent.
        self.connection.wait(lambda: self.connection.conn.transport.pending() == 0, msg="an outcome is sent")
