"""Messages of AMQP 1.0 clients: published, rejected by a consumer, retried by Rung, which speaks 0-9-1, received again.

RabbitMQ 4.0 or newer. What it holds is the table of docs/compatibility.md: what changes is the broker's conversion, and
nothing changes further with the second retry.
"""
import pathlib
import subprocess
import uuid

from proton import (Array, Data, Delivery, UNDESCRIBED, byte, char, decimal32, decimal64, decimal128, float32, int32,
                    short, symbol, timestamp, ubyte, uint, ulong, ushort)

import servers
from wire import DATA, SEQUENCE, VALUE, Client, Message, typed

UNBLOCK = pathlib.Path(__file__).resolve().parents[3] / "examples" / "amqp10" / "unblock.py"
GONE = object()
since = servers.broker_since
SOME_UUID = uuid.UUID("c54fde90-2285-4d2f-a329-a9e702ff7f52")
LONG_TEXT = "long " * 60  # above 255 bytes, which is what AMQP 0-9-1 has room for in a property

# name: (value, what comes back); without the second: the same.
APPLICATION = {
    "text": ("grüß dich",), "empty text": ("",), "text of 5000": ("a" * 5000, b"a" * 5000),
    "true": (True,), "false": (False,), "null": (None,),
    "byte": (byte(-128),), "ubyte": (ubyte(255),), "short": (short(-32768),), "ushort": (ushort(65535),),
    "int": (int32(-2**31),), "uint": (uint(2**32 - 1),), "long": (-2**63,), "small long": (3,),
    "ulong": (ulong(2**64 - 1), -1), "small ulong": (ulong(9), 9),
    "float": (float32(1.5),), "double": (0.1,),
    "timestamp": (timestamp(1_700_000_000_123), timestamp(1_700_000_000_000)),
    "binary": (b"\x00\xff",), "binary that is a text": (b"abc", "abc"), "symbol": (symbol("s"), "s"),
    "x-text": ("a name with x-", GONE), "n" * 256: ("its name is longer than 255", GONE),
}
# Left out by the broker; 4.0 could not convert them at all.
LEFT_OUT = {"nan": float("nan"), "infinity": float("inf"), "decimal32": decimal32(7), "decimal64": decimal64(7),
            "decimal128": decimal128(b"1" * 16)}
PROPERTIES = {
    "message_id": [("m-1",), (ulong(7), "7"), (SOME_UUID,), (b"\x00\x01", GONE), (LONG_TEXT, GONE)],
    "correlation_id": [("c-1",), (ulong(7), "7"), (SOME_UUID,), (b"\x00\x01", GONE), (LONG_TEXT, GONE)],
    "to": [("/queues/elsewhere", GONE)], "subject": [("a subject", GONE)],
    "reply_to": [("/queues/answers",), ("/queues/a%2Fb",), ("/exchanges/e/k", "/queues/%2Fexchanges%2Fe%2Fk"),
                 ("a word", "/queues/a%20word")],
    "user_id": [(b"guest", GONE)],
    "content_type": [(symbol("text/plain"),)], "content_encoding": [(symbol("gzip"),)],
    "absolute_expiry_time": [(timestamp(1_900_000_000_123), GONE)],
    "creation_time": [(timestamp(1_700_000_000_123), timestamp(1_700_000_000_000))],
    "group_id": [("a group",), (LONG_TEXT, GONE)], "group_sequence": [(uint(5), GONE)],
    "reply_to_group_id": [("another", GONE)],
}
DEEP = {"a": [1, None, SOME_UUID, {"b": b"\x00"}], "c": char("x"), "d": timestamp(1_700_000_000_123)}
FOOTER = {symbol("x-opt-sum"): "f00"}
# name: (sections, footer, what comes back of both); without the third: the same.
BODIES = {
    "data": ([(DATA, b"\x00\xff")], {}), "empty data": ([(DATA, b"")], {}), "large data": ([(DATA, b"x" * 300_000)], {}),
    "several data": ([(DATA, b"a"), (DATA, b"b")], {}, ([(DATA, b"ab")], {})),
    "value: text": ([(VALUE, "grüß")], {}), "value: null": ([(VALUE, None)], {}), "value: deep": ([(VALUE, DEEP)], {}),
    "value: array": ([(VALUE, Array(UNDESCRIBED, Data.INT, int32(1), int32(2)))], {}),
    "sequence": ([(SEQUENCE, [1, "b", DEEP])], {}), "several sequences": ([(SEQUENCE, [1]), (SEQUENCE, ["x"])], {}),
    "footer, value": ([(VALUE, "v")], FOOTER), "footer, data": ([(DATA, b"v")], FOOTER, ([(DATA, b"v")], {})),
}
# What the broker cannot hand to any AMQP 0-9-1 consumer: its own conversion fails, with 541 INTERNAL_ERROR.
NOT_CONVERTED = {
    "application property: uuid": Message([(DATA, b"")], application={"id": SOME_UUID}),
    "application property: char": Message([(DATA, b"")], application={"c": char("x")}),
    "content-type of 300 bytes": Message([(DATA, b"")], {"content_type": symbol("t" * 300)}),
    "annotation x-opt-: uuid": Message([(DATA, b"")], annotations={symbol("x-opt-a"): SOME_UUID}),
}


def left_out(name):
    return Message([(DATA, b"x")], application={name: LEFT_OUT[name]})


def cases():
    """name: (what is sent, what is to come back)"""
    body = [(DATA, b"x")]
    out = {}
    if since(4, 3):
        out = {name: (left_out(name), Message(body)) for name in LEFT_OUT}
    for name, (value, *back) in APPLICATION.items():
        out[f"application {name}"] = (Message(body, application={name: value}),
                                      Message(body, application={name: back[0] if back else value}))
    for name, values in PROPERTIES.items():
        for value, *back in values:
            if name == "reply_to" and not since(4, 3):
                back = []  # 4.0 hands it on as it is
            out[f"{name} {typed(value)}"] = (Message(body, {name: value}),
                                             Message(body, {name: back[0] if back else value}))
    bodies = dict(BODIES)
    if since(4, 3):  # 4.0 ends the session of the AMQP 1.0 consumer that it should come back to
        bodies["value: decimal"] = ([(VALUE, decimal64(1))], {})
    for name, (sections, footer, *back) in bodies.items():
        expected = back[0] if back else (sections, footer)
        out[f"body {name}"] = (Message(sections, footer=footer), Message(expected[0], footer=expected[1]))
    annotations = {symbol("x-opt-mine"): "kept in the row", symbol("x-opt-delivery-time"): timestamp(4_000_000_000_000)}
    out["annotations x-opt-"] = (Message(body, annotations=annotations), Message(body))
    for name, (sent, back) in out.items():
        sent.application["case"] = back.application["case"] = name
        for part in (back.application, back.properties):
            for key in [key for key, value in part.items() if value is GONE]:
                del part[key]
    return out


def comparable(message):
    """What a consumer sees, without what Rung adds; with types."""
    application = {name: value for name, value in message.application.items() if not name.startswith("retry-")}
    return {"body": typed(message.body), "properties": typed(message.properties), "application": typed(application),
            "footer": typed(message.footer)}


class RoundTrip(servers.Sidecar):
    maxDiff = None

    def setUp(self):
        self.client = Client(self.amqp)
        self.addCleanup(self.client.close)
        self.queue = self.id().rsplit("_", 1)[-1]
        self.declare(self.queue, x_dead_letter_exchange="rung.failed", x_delivery_limit=3)

    def test_unchanged(self):
        all_cases = cases()
        for sent, _ in all_cases.values():
            self.client.send(self.queue, sent)
        first = {}
        for fall in range(3):
            # All are received before one is given back: it may be here again soon.
            deliveries = []
            for _ in all_cases:
                delivery, message = self.client.receive(self.queue)
                deliveries.append(delivery)
                name = message.application["case"]
                self.assertEqual(message.application.get("retry-attempt", 0), fall, name)
                if fall == 1:
                    first[name] = message
                elif fall == 2:
                    self.assertEqual(comparable(message), comparable(first[name]), f"{name}: the second retry differs")
            for delivery in deliveries:
                if fall == 0:
                    self.client.settle(delivery, Delivery.REJECTED)
                elif fall == 1:  # to be handled elsewhere: dead-lettered as well
                    self.client.settle(delivery, Delivery.MODIFIED, failed=True, elsewhere=True)
                else:
                    self.client.settle(delivery, Delivery.ACCEPTED)
        self.assertEqual(set(first), set(all_cases))
        for name, (_, expected) in all_cases.items():
            with self.subTest(name):
                self.assertEqual(comparable(first[name]), comparable(expected))
                self.assertNotIn("x-opt-delivery-time", {str(key) for key in first[name].annotations})
                self.assertNotIn("x-opt-mine", {str(key) for key in first[name].annotations})
        origin = self.sql("SELECT origin FROM rung_bodies WHERE origin LIKE '%x-opt-delivery-time%'")
        self.assertEqual(len(origin), 1)
        self.assertIn("kept in the row", str(origin[0]["origin"]))
        self.assertEqual({row["last_error"] for row in
                          self.sql("SELECT last_error FROM retry_current WHERE queue = %s", self.queue)},
                         {f"dead-lettered: rejected (queue {self.queue})"})

    def test_outcomes(self):
        """released and modified give the message back to the broker; from the delivery limit on it is Rung's."""
        self.client.send(self.queue, Message([(VALUE, "v")], {"message_id": "limit"}))
        delivery, _ = self.client.receive(self.queue)
        self.client.settle(delivery, Delivery.RELEASED)
        for deliveries in range(100):
            delivery, message = self.client.receive(self.queue)
            if "retry-attempt" in message.application:
                break
            self.client.settle(delivery, Delivery.MODIFIED, failed=True, elsewhere=False)
        # Since 4.3 `released` doesn't count to the delivery limit; nor does basic.nack.
        self.assertEqual(deliveries, 4 if since(4, 3) else 3)
        self.client.settle(delivery, Delivery.ACCEPTED)
        self.assertEqual(typed(message.body), typed([(VALUE, "v")]))
        self.assertEqual(message.application["retry-reason"], "delivery_limit")
        row, = self.sql("SELECT * FROM retry_current WHERE queue = %s", self.queue)
        self.assertEqual(row["message_id"], "limit")

    def test_unblock(self):
        """One of those in rung.failed stops the intake. examples/amqp10/unblock.py mends it."""
        def plain(name):
            return Message([(DATA, b"x")], {"message_id": name})

        bad = [Message(m.body, {**m.properties, "message_id": name}, m.application, m.annotations)
               for name, m in NOT_CONVERTED.items()]
        for message in [*bad, plain("behind them")]:
            self.client.send(self.queue, message)
            delivery, _ = self.client.receive(self.queue)
            self.client.settle(delivery, Delivery.REJECTED)
        self.until(lambda: "cannot convert a message" in self.log.read_text(), "the log says why nothing comes in")
        known = "SELECT message_id FROM retry_current WHERE queue = %s"
        came = {row["message_id"] for row in self.sql(known, self.queue)}
        self.assertEqual(came - {"behind them"}, set())  # that one may slip by where the others are on their way back
        told = ""

        def all_there():
            nonlocal told
            if len(self.sql(known, self.queue)) > len(bad):
                return True
            told += subprocess.run(["/usr/bin/python3", str(UNBLOCK), self.amqp], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, timeout=300, check=True).stdout
            return False

        self.until(all_there, "what was mended comes in")  # Rung asks for the same messages meanwhile: more than once, maybe
        self.assertIn("messages in rung.failed could not be converted and were repaired", told)
        got = {}
        while len(got) <= len(bad):
            delivery, message = self.client.receive(self.queue)
            got[message.properties["message_id"]] = message
            self.client.settle(delivery, Delivery.ACCEPTED)
        self.assertEqual(got["application property: uuid"].application["id"], str(SOME_UUID))
        self.assertEqual(got["application property: char"].application["c"], "x")
        self.assertEqual({row["last_error"] for row in self.sql("SELECT last_error FROM retry_current WHERE queue = %s", self.queue)},
                         {f"dead-lettered: rejected (queue {self.queue})"}, told)
