"""A partner that is down: a breaker holds back what is due, tests the partner with single messages, and lets go.

Run it by: examples/cases/run partner-down
"""
import http.server
import json
import sys
import threading
import urllib.request

import pika
from world import World, check

from rung_handlers import Handlers

SCALE = 15  # a minute of the breaker's waits is four seconds here
QUEUE = "partner.orders"
ORDERS = 40
SIDECAR = f"""
lease: 3s
ladders: {{ default: [2s, 2s, 2s] }}
queues:
  {QUEUE}:
    success: {{ reported_within: 1m }}
    gate:
      breaker: {{ open_after: 10, of_last: 20, wait: [2s, 8s], close_after: 2 }}  # 30s, 2m, by {SCALE}
"""


class Partner:
    """A server that answers 503 while it is down."""

    def __init__(self):
        self.down = True
        self.calls = 0
        partner = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                partner.calls += 1
                self.send_response(503 if partner.down else 200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


# --- the consumer: a separate process

def consume(amqp, url):
    handlers = Handlers()

    @handlers.on("partner.order")
    def call_partner(job):
        urllib.request.urlopen(urllib.request.Request(url, data=job.body), timeout=5).close()

    handlers.run(amqp, QUEUE)


# --- the case

def gate(w):
    rows = w.sql("SELECT state FROM retry_queues WHERE queue = %s", QUEUE)
    return rows[0]["state"] if rows else "flowing"


def openings(w):
    return w.sql("SELECT COUNT(*) AS n FROM retry_events WHERE kind = 'breaker_opened'")[0]["n"]


def spent(w):
    """Attempts that count; None while a message is on its way."""
    rows = w.sql("SELECT SUM(attempt - uncounted_attempts) AS spent FROM retry_current "
                 "HAVING SUM(state IN ('publishing', 'awaiting')) = 0")
    return rows[0]["spent"] if rows else None


def run_case():
    partner = Partner()
    with World("A partner that is down", f"the breaker's waits are divided by {SCALE} here") as w:
        for node in ("node-1", "node-2", "node-3"):
            w.sidecar(node, SIDECAR)
        channel = w.channel()
        channel.queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})
        w.worker("consumer", w.amqp, partner.url)
        w.consumed(QUEUE)
        for number in range(ORDERS):
            channel.basic_publish("", QUEUE, json.dumps({"order": number}).encode(),
                                  pika.BasicProperties(message_id=f"o-{number}", type="partner.order", delivery_mode=2))
        w.tell(f"{ORDERS} orders; the partner answers 503, and so it does to their first retries")
        w.until(lambda: gate(w) == "breaker_open", "the breaker opens")
        w.until(lambda: spent(w), "what was on its way has failed")
        print(w.rung("queues"), flush=True)
        before = w.until(lambda: spent(w), "no probe is on its way")
        opened, calls = openings(w), partner.calls
        w.until(lambda: openings(w) >= opened + 2, "two probes have failed")
        calls = partner.calls - calls
        # The last one may have called, and its failure is still to be taken in.
        check(calls <= openings(w) - opened + 1, f"only probes reached the partner: {calls}, of {ORDERS} orders and three sidecars")
        w.until(lambda: spent(w) == before, f"they cost no attempt: {before} counted before")

        partner.down = False
        w.tell("the partner is up again")
        w.until(lambda: gate(w) == "flowing", "the breaker closes")
        w.tell("two probes in a row succeeded: the breaker is closed")
        w.until(lambda: w.sql("SELECT COUNT(*) AS n FROM retry_current WHERE state = 'succeeded'")[0]["n"] == ORDERS,
                "all orders are through")
        w.tell("all orders are through")
        w.show(w.sql("SELECT at, kind, subject, SUBSTRING(detail, 1, 60) AS detail FROM retry_events "
                     "WHERE kind LIKE 'breaker%%' ORDER BY at"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["consumer"]:
        consume(*sys.argv[2:])
    else:
        run_case()
