#!/usr/bin/python3
"""The shop whose bad day the console shows.

usage: shop.py queues | fail N | strange | large-id | body ID TEXT | consume SECONDS"""
import json
import os
import sys

import pika

QUEUES = ("orders", "invoices", "mails", "shipments")
TRACE = """com.acme.ShippingException: no route for parcel {n}
\tat com.acme.ship.Router.route(Router.java:{line})
\tat com.acme.ship.Worker.run(Worker.java:41)
Caused by: java.lang.IllegalStateException: depot HAM{depot} is closed
\tat com.acme.ship.Depot.open(Depot.java:77)
\t... 2 more"""
TEMPLATE = ("TemplateError", "mail/receipt.html: unknown variable customer_name")
# Queue, error type, error, and of how many in a hundred it is the cause.
CAUSES = (
    ("orders", "ServiceUnavailable", lambda n: f"POST https://bank.example/charges/ch_{n:05x}e778fec30fae: 503 Service Unavailable", 45),
    ("mails", TEMPLATE[0], lambda n: TEMPLATE[1], 22),
    ("orders", "IntegrityError", lambda n: f"Duplicate entry '{4000 + n}' for key 'orders.number'", 18),
    ("invoices", "ConnectionError", lambda n: f"connect ECONNREFUSED 10.0.0.{n % 250 + 2}:5432", 13),
    ("shipments", "com.acme.ShippingException", lambda n: TRACE.format(n=n, line=n % 90 + 10, depot=n % 9), 2),
)
# Markup, an escape sequence, a right-to-left override: what a stranger may put into a message.
STRANGE = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>\x1b[31mred\x1b[0m \u202egpj.exe\u202c \u200bend"


def channel():
    return pika.BlockingConnection(pika.URLParameters(os.environ["RUNG_TEST_AMQP"])).channel()


def failed(out, queue, error_type, error, body, retries, **properties):
    headers = {"retry-queue": queue, "retry-error-type": error_type, "retry-error": error, **properties.pop("headers", {})}
    if not retries:
        headers["retry-never"] = True
    out.basic_publish("rung.failed", queue, body, pika.BasicProperties(delivery_mode=2, headers=headers, **properties))


def fail(out, total):
    for queue, error_type, error, share in CAUSES:
        for n in range(total * share // 100):
            order = {"order": 4000 + n, "customer": "Ann Lee", "lines": [{"sku": f"SKU-{n % 17}", "qty": n % 4 + 1}], "total": n / 4}
            # Every twelfth still has retries; the others are parked.
            failed(out, queue, error_type, error(n), json.dumps(order).encode(), n % 12 == 11, content_type="application/json",
                   message_id=f"{error_type.split('.')[-1]}-{4000 + n}", type="place-order", headers={"tenant": ("acme", "globex", "initech")[n % 3]})


def main():
    out = channel()
    what = sys.argv[1]
    if what == "queues":
        for queue in QUEUES:
            out.queue_declare(queue, durable=True)
    elif what == "fail":
        fail(out, int(sys.argv[2]))
    elif what == "strange":
        failed(out, "mails", "Strange<b>", STRANGE, STRANGE.encode(), False, message_id="strange-1", headers={"note": STRANGE})
    elif what == "large-id":
        failed(out, "mails", "LargeId", "an id of 64 bits", b'{"id": 9223372036854775807, "city": null, "price": 80.0}', False,
               content_type="application/json", message_id="large-1", headers={"customer": 9007199254740993})
    elif what == "body":
        failed(out, "mails", *TEMPLATE, sys.argv[3].encode(), False, content_type="text/plain", message_id=sys.argv[2])
    elif what == "consume":
        for queue in QUEUES:
            out.basic_consume(queue, lambda ch, method, _, __: ch.basic_ack(method.delivery_tag))
        out.connection.call_later(float(sys.argv[2]), out.stop_consuming)
        out.start_consuming()
    out.connection.close()  # otherwise the broker drops what its channel has not handled yet


main()
