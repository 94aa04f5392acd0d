"""Requests to a flaky third party on the ladder 5s 30s 1m 10m 30m 1h 6h 1d 2d; it recovers at level 3.

Run it by: examples/cases/run flaky-third-party
"""
import http.server
import json
import sys
import threading
import urllib.request

import pika
from world import World, check

from rung_handlers import Handlers

SCALE = 20  # a minute of the ladder is three seconds here
LADDER = ["250ms", "1500ms", "3s", "30s", "90s", "3m", "18m", "72m", "144m"]  # 5s 30s 1m 10m 30m 1h 6h 1d 2d, by 20
QUEUE = "partner.calls"
SIDECAR = f"""
ladders: {{ default: [{', '.join(LADDER)}] }}
queues: {{ {QUEUE}: {{ success: {{ reported_within: 1m }} }} }}
"""


class Partner:
    """A server that answers the first calls for each request with 503, later ones with 200."""

    def __init__(self, bad_calls):
        calls = self.calls = {}

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                calls[request] = calls.get(request, 0) + 1
                self.send_response(503 if calls[request] <= bad_calls else 200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


# --- the consumer: a separate process

def consume(amqp, url):
    handlers = Handlers()

    @handlers.on("partner.call")
    def call_partner(job):
        urllib.request.urlopen(urllib.request.Request(url, data=job.body), timeout=5).close()
        print(f"{job.message_id}: answered, delivery {job.attempt}", flush=True)

    handlers.run(amqp, QUEUE)


# --- the case

def run_case():
    partner = Partner(bad_calls=3)  # the first delivery, level 1 and level 2 fail; level 3 succeeds
    with World("A flaky third party", f"the ladder's times are divided by {SCALE} here") as w:
        w.sidecar("node-1", SIDECAR)
        print(w.rung("check").split("\n\n")[0], flush=True)
        w.worker("consumer", w.amqp, partner.url)
        channel = w.channel()
        channel.queue_declare(QUEUE, durable=True, arguments={"x-dead-letter-exchange": "rung.failed"})
        for number in (1, 2):
            body = json.dumps({"request": f"r-{number}"}).encode()
            channel.basic_publish("", QUEUE, body, pika.BasicProperties(message_id=f"r-{number}", type="partner.call",
                                                                        delivery_mode=2))
        w.tell("two requests to the partner, which answers 503")

        known = {}

        def ended():
            rows = w.sql("SELECT message_id, state, level, attempt FROM retry_current ORDER BY message_id")
            for row in rows:
                now = (row["state"], row["level"])
                if row["state"] in ("scheduled", "succeeded") and known.get(row["message_id"]) != now:
                    known[row["message_id"]] = now
                    waits = "" if row["state"] == "succeeded" else f", waits {LADDER[row['level'] - 1]}"
                    w.tell(f"{row['message_id']}: {row['state']}, level {row['level']} of {len(LADDER)}{waits}")
            return sum(row["state"] == "succeeded" for row in rows) == 2 and w.known_when()

        w.until(ended, "both requests have succeeded")
        rows = w.sql("SELECT * FROM retry_current ORDER BY message_id")
        check([row["level"] for row in rows] == [3, 3], "both succeeded at level 3")
        check([row["finished_by"] for row in rows] == ["reported"] * 2, "the consumer reported success")
        check(partner.calls == {"r-1": 4, "r-2": 4}, f"four calls each: {partner.calls}")
        w.tell("the history of r-1:")
        history = w.sql("SELECT attempt, level, due_at AS expected, published_at AS actual, late_ms, outcome, "
                        "executor, SUBSTRING_INDEX(error, '\\n', 1) AS error FROM retry_history "
                        "WHERE message_id = 'r-1' ORDER BY attempt")
        w.show(history)
        check([row["outcome"] for row in history] == ["failed", "failed", "succeeded"], "two failures, one success")
        check(all(row["late_ms"] >= 0 for row in history), "no delivery was early")
        check(all(row["executor"] for row in history), "each attempt has an executor")
        stack = w.sql("SELECT error FROM retry_history WHERE message_id = 'r-1' AND attempt = 1")[0]["error"]
        check("call_partner" in stack, "the stack of the failure is recorded")
        w.tell("the stack of the second failure: " + " ... ".join(stack.splitlines()[:2]))
        w.tell("answered at level 3: the 6 higher levels, up to 2 days, were not needed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["consumer"]:
        consume(*sys.argv[2:])
    else:
        run_case()
