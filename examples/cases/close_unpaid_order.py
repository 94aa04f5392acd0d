"""An unpaid order is closed after 30 minutes, and its stock is returned exactly once.

Run it by: examples/cases/run close-unpaid-order
"""
import json
import sys

import pymysql
from world import World, check

from rung_handlers import Handlers

SECONDS = 3  # stands for 30 minutes
QUEUE = "orders.close"
SIDECAR = f"""
ladders: {{ default: [500ms, 1s] }}
queues: {{ {QUEUE}: {{ success: {{ reported_within: 30s }} }} }}
"""


# --- the shop's own tables

def make_shop(world):
    world.sql("CREATE TABLE shop_stock (item VARCHAR(20) PRIMARY KEY, units INT NOT NULL)")
    world.sql("CREATE TABLE shop_orders (id INT PRIMARY KEY, item VARCHAR(20) NOT NULL, "
              "state ENUM('unpaid', 'paid', 'closed') NOT NULL DEFAULT 'unpaid')")
    world.sql("INSERT INTO shop_stock VALUES ('lamp', 10)")


def stock(world):
    return world.sql("SELECT units FROM shop_stock WHERE item = 'lamp'")[0]["units"]


def place(world, order):
    """Reserves the stock, and submits a task that closes the order if it stays unpaid."""
    world.sql("UPDATE shop_stock SET units = units - 1 WHERE item = 'lamp'")
    world.sql("INSERT INTO shop_orders (id, item) VALUES (%s, 'lamp')", order)
    # The message-id makes this idempotent: repeating the call after a lost response creates no second task.
    return world.rung_json("submit", "--queue", QUEUE, "--tag", "order.close", "--message-id", f"close-{order}",
                           "--delay", f"{SECONDS}s", "--body", json.dumps({"order": order}))["retry_id"]


def pay(world, order):
    """Returns whether the order is now paid. The order's row decides, whatever the state of the task."""
    with world.db.cursor() as cursor:
        return cursor.execute("UPDATE shop_orders SET state = 'paid' WHERE id = %s AND state = 'unpaid'", [order]) == 1


# --- the consumer: a separate process

def consume(amqp, host, port, schema):
    handlers = Handlers()
    db = pymysql.connect(host=host, port=int(port), user="root", database=schema)
    crashed = set()

    @handlers.on("order.close")
    def close_order(job):
        order = job.json()["order"]
        with db.cursor() as cursor:  # one transaction: close the order and return the stock, or neither
            closed = cursor.execute("UPDATE shop_orders SET state = 'closed' WHERE id = %s AND state = 'unpaid'",
                                    [order])
            if closed:
                cursor.execute("UPDATE shop_stock SET units = units + 1 WHERE item = "
                               "(SELECT item FROM shop_orders WHERE id = %s)", [order])
        db.commit()
        print(f"order {order}: {'closed, stock returned' if closed else 'nothing to do'} (delivery {job.attempt})",
              flush=True)
        if order == 3 and order not in crashed:
            crashed.add(order)
            tell_customer(order)  # after the commit: the task is retried

    handlers.run(amqp, QUEUE)


def tell_customer(order):
    raise ConnectionError(f"mail server: connection refused, customer of order {order} not notified")


# --- the case

def run_case():
    with World("Close an unpaid order", f"30 minutes are {SECONDS} s here; the ladder is 500ms, 1s") as w:
        make_shop(w)
        w.sidecar("node-1", SIDECAR)
        w.worker("consumer", w.amqp, w.db.host, str(w.db.port), w.schema)
        w.consumed(QUEUE)
        w.tell(f"stock: {stock(w)} lamps")
        tasks = {order: place(w, order) for order in (1, 2, 3, 4)}
        w.tell(f"orders 1, 2, 3, 4 placed: stock {stock(w)}, four tasks scheduled")
        check(stock(w) == 6, "four lamps are reserved")

        check(pay(w, 2), "order 2 was unpaid")
        w.tell("order 2 is paid: " + w.rung("cancel", tasks[2], "--reason", "paid").strip())
        check(pay(w, 4), "order 4 was unpaid")
        w.tell("order 4 is paid, and the shop crashes before it cancels the task")

        def ends():
            return {row["message_id"]: row for row in w.sql("SELECT * FROM retry_current")}

        w.until(lambda: sum(row["state"] in ("succeeded", "cancelled") for row in ends().values()) == 4
                and w.known_when(), "all four tasks have ended")
        for line in w.log("consumer").splitlines():
            if line.startswith("order"):
                w.tell("consumer: " + " ".join(line.split())[:110])

        found = ends()
        check(found["close-2"]["state"] == "cancelled" and found["close-2"]["attempt"] == 0, "the task of order 2 was never sent")
        check(found["close-3"]["attempt"] == 2, "the task of order 3 was retried after its failure")
        late = w.sql("SELECT MIN(late_ms) AS least FROM retry_history")[0]["least"]
        check(late >= 0, "no delivery was early")
        w.tell("the shop's orders and their tasks:")
        w.show(w.sql("SELECT o.id AS `order`, o.state, c.state AS task, c.attempt AS deliveries, c.finished_by, "
                     "c.last_error FROM shop_orders o JOIN retry_current c ON c.message_id = CONCAT('close-', o.id) "
                     "ORDER BY o.id"))
        states = {row["id"]: row["state"] for row in w.sql("SELECT id, state FROM shop_orders")}
        check(states == {1: "closed", 2: "paid", 3: "closed", 4: "paid"}, f"the orders ended as {states}")
        check(stock(w) == 8, f"two lamps sold, two returned, each once: {stock(w)} left")
        w.tell(f"stock: {stock(w)} lamps: two sold, two returned, each once, although order 3's task was delivered twice")


if __name__ == "__main__":
    if sys.argv[1:2] == ["consumer"]:
        consume(*sys.argv[2:])
    else:
        run_case()
