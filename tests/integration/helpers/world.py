"""Servers, a sidecar, workers and messages for helpers_test.py."""
import contextlib
import datetime
import email.utils
import http.server
import json
import os
import pathlib
import subprocess
import threading
import urllib.parse

import amqp
import pika
from starting import ROOT, Place, npm_modules, until

WORKERS = pathlib.Path(__file__).resolve().parent / "workers"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PYTHON = ["/usr/bin/python3", "-u"]
CLIENTS = {  # the command of each worker; it gets the AMQP URL, the queue and the prefix
    "pika": [*PYTHON, "pika_worker.py"], "aio-pika": [*PYTHON, "aio_pika_worker.py"],
    "celery": [*PYTHON, "celery_worker.py"], "amqplib": ["node", "amqplib_worker.js"],
    "nestjs": ["node", "nestjs_worker.js"], "amqp-ext": ["php", "amqp_ext_worker.php"],
    "php-amqplib": ["php", "php_amqplib_worker.php"], "symfony": ["php", "symfony_worker.php"],
    "bunny": ["ruby", "bunny_worker.rb"], "cpp": ["cpp_worker"]}


def modules():
    """The node_modules of the workers that npm has."""
    return npm_modules(WORKERS, "helpers") / "node_modules"


class Partner(http.server.BaseHTTPRequestHandler):
    """A service that is busy: Retry-After in seconds, or as a date."""

    def do_GET(self):
        seconds = self.path == "/seconds"
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
        self.send_response(429 if seconds else 503)
        self.send_header("Retry-After", "2" if seconds else email.utils.format_datetime(until, usegmt=True))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class World:
    def __init__(self):
        self.place = place = Place("helpers")
        self.schema, self.url, self.folder, self.sql = place.name, place.amqp, place.folder, place.sql
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Partner)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        place.callback(self.server.server_close)
        place.callback(self.server.shutdown)
        subprocess.run(["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic", WORKERS / "cpp_worker.cc", "-o",
                        place.folder / "cpp_worker", "-lrabbitmq"], check=True)
        self.environment = dict(
            os.environ, HTTP_URL=f"http://127.0.0.1:{self.server.server_address[1]}", NODE_PATH=str(modules()), LC_ALL="C.UTF-8",
            PATH=f"{place.folder}:{os.environ['PATH']}",
            PYTHONPATH=str(ROOT / "examples" / "helpers" / "python"), PYTHONDONTWRITEBYTECODE="1")
        parameters = pika.URLParameters(self.url)
        parameters.heartbeat = 0  # nobody serves it while we wait
        self.connection = pika.BlockingConnection(parameters)
        self.channel = self.connection.channel()
        broker = urllib.parse.urlsplit(self.url)
        self.amqp = amqp.Connection(f"{broker.hostname}:{broker.port}", "guest", "guest", virtual_host=self.schema)
        self.amqp.connect()
        self.typed = self.amqp.channel()
        place.write_config(more="ladders: { default: [300ms, 400ms, 4s] }\n"
                                "queues: { default: { success: { presumed_after: 10m } } }")
        place.start_rung()

    def work(self, client, queue, prefix="rung"):
        return self.place.start([*CLIENTS[client], self.url, queue, prefix], f"{queue}.log", cwd=WORKERS, env=self.environment)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def until(self, condition, what, log="rung"):
        until(what, condition, told=lambda: f"--- {log}\n{self.log(log)[-4000:]}")

    def body(self, client, word):
        """The message of a word, as the framework itself would publish it: body, properties, headers."""
        if client == "celery":
            import celery
            app = celery.Celery(broker="memory://")
            headers, properties, body, _ = app.amqp.as_task_v2(f"{client}-{word}", "work", args=(word,))
            fields = {"content_type": "application/json", "content_encoding": "utf-8"}
            return json.dumps(body).encode(), {**fields, "correlation_id": properties["correlation_id"]}, headers
        if client == "nestjs":
            return json.dumps({"pattern": "work", "data": word}).encode(), {"content_type": "application/json"}, {}
        if client == "symfony":
            body = subprocess.run(["php", "symfony_worker.php", "--body", word], cwd=WORKERS, stdout=subprocess.PIPE, check=True)
            return body.stdout, {"content_type": "application/x-php-serialized"}, {}
        return word.encode(), {"content_type": "text/plain"}, {}

    def publish(self, client, queue, word, headers=None, exchange="", key=None, **fields):
        """With py-amqp: pika does not encode floating-point headers. key: the routing key, the queue's name if not given."""
        body, own, framework = self.body(client, word)
        message = amqp.Message(body, message_id=f"{queue}-{word}", **{**own, **fields}, application_headers={
            "traceparent": TRACEPARENT, "tracestate": "congo=t61rcWkgMzE", **framework, **(headers or {})})
        self.typed.basic_publish(message, exchange=exchange, routing_key=queue if key is None else key)
        return message

    def take(self, queue):
        """The messages of a queue; none if there is no queue."""
        with self.amqp.channel() as channel:
            try:
                return list(iter(lambda: channel.basic_get(queue, no_ack=True), None))
            except amqp.exceptions.NotFound:
                return []

    def waiting(self, queue):
        """Messages that are ready."""
        return self.channel.queue_declare(queue, passive=True).method.message_count

    def close(self):
        with contextlib.suppress(pika.exceptions.AMQPError):
            self.connection.close()
        self.amqp.close()
        self.place.close()
