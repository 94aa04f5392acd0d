"""Shows the quickstart's tasks in MySQL, through the views that any dashboard can use.

usage: watch.py create MYSQL-URL SCHEMA          creates the schema
       watch.py watch  MYSQL-URL SCHEMA N LOG    shows retry_current until N messages have succeeded or are parked
       watch.py id     MYSQL-URL SCHEMA MESSAGE  the retry_id of a message
       watch.py counts MYSQL-URL SCHEMA          retry_by_queue
"""
import sys
import time
import urllib.parse

import pymysql

GIVE_UP_SECONDS = 60
ROWS = """SELECT message_id, state, attempt, level, levels, last_error, finished_by,
                 TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), next_due_at) / 1e6 AS due_in
          FROM retry_current WHERE queue = 'orders' ORDER BY message_id"""


def connect(url, schema=None):
    parts = urllib.parse.urlsplit(url)
    return pymysql.connect(host=parts.hostname, port=parts.port, user=parts.username, password=parts.password or "",
                           database=schema, autocommit=True, cursorclass=pymysql.cursors.DictCursor)


def query(connection, sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def cells(row):
    levels, level = row["levels"], row["level"]
    state = row["state"] + (f" ({row['finished_by']})" if row["finished_by"] else "")
    due = f"in {max(row['due_in'], 0):.1f} s" if row["state"] == "scheduled" and row["due_in"] is not None else ""
    error = " ".join((row["last_error"] or "").split())
    return [row["message_id"], state, str(row["attempt"]), "#" * level + "." * (levels - level), due, error]


HEAD = ["message", "state", "retries", "ladder", "next", "last error"]
WIDTHS = [9, 21, 8, 8, 9, 60]


def line(values):
    return " ".join(value[:width].ljust(width) for value, width in zip(values, WIDTHS)).rstrip()


def redraw(rows, log, drawn):
    """Overwrites the previous output. Returns the number of lines."""
    with open(log, encoding="utf-8", errors="replace") as file:
        consumer_log = file.read().splitlines()[-6:]
    lines = [line(HEAD)] + [line(cells(row)) for row in rows] + ["", "consumer:"] + consumer_log
    sys.stdout.write(f"\033[{drawn}F" if drawn else "")
    sys.stdout.write("".join(text + "\033[K\n" for text in lines) + "\033[J")
    sys.stdout.flush()
    return len(lines)


def tell_changes(rows, known, started):
    for row in rows:
        now = (row["state"], row["attempt"])
        if known.get(row["message_id"]) != now:
            known[row["message_id"]] = now
            print(f"{time.monotonic() - started:5.1f} s  {line(cells(row))}")


def watch(connection, expected, log):
    terminal, drawn, known, started = sys.stdout.isatty(), 0, {}, time.monotonic()
    if not terminal:
        print(" " * 9 + line(HEAD))
    while time.monotonic() - started < GIVE_UP_SECONDS:
        rows = query(connection, ROWS)
        if terminal:
            drawn = redraw(rows, log, drawn)
        else:
            tell_changes(rows, known, started)
        if sum(row["state"] in ("succeeded", "parked") for row in rows) == expected:
            return 0
        time.sleep(0.5 if terminal else 0.2)
    print(f"not all {expected} messages finished within {GIVE_UP_SECONDS} s", file=sys.stderr)
    return 1


def main(command, url, schema, *rest):
    if command == "create":
        query(connect(url), f"CREATE DATABASE IF NOT EXISTS `{schema}`")
        return 0
    connection = connect(url, schema)
    if command == "watch":
        return watch(connection, int(rest[0]), rest[1])
    if command == "id":
        print(query(connection, "SELECT retry_id FROM retry_current WHERE message_id = %s", rest[0])[0]["retry_id"])
        return 0
    rows = query(connection, "SELECT queue, state, tasks, oldest_due_at, overdue FROM retry_by_queue")
    for row in [dict(zip(rows[0], rows[0]))] + rows if rows else []:
        print(" ".join(str("" if value is None else value).ljust(14) for value in row.values()).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
