"""Requests drawn from the OpenAPI document against a live sidecar: whatever they say, the answer is one that the document
describes, to its last member, and the sidecar goes on.

RUNG_FUZZ_SECONDS (20), RUNG_FUZZ_SEED (drawn): a failure prints it, and the request. Every request is sent on one of two tokens: of an admin, and of a reader that has one queue.
"""
import http.client
import json
import os
import random
import subprocess
import time

import jsonschema
import pymysql
import pytest
from drawn_requests import Generator, Known, Request
from starting import PROGRAM, Place, end, free_port, until

SECONDS = float(os.environ.get("RUNG_FUZZ_SECONDS", "20"))
SEED = int(os.environ.get("RUNG_FUZZ_SEED", random.SystemRandom().randrange(10**6)))
ANSWER_SECONDS = 300  # far more than any answer takes on a loaded machine
TOKENS = {"admin": "a" * 40, "reader": "r" * 40}


class Sidecar:
    def __init__(self):
        self.place = place = Place("http_fuzz", pymysql.cursors.Cursor)
        self.sql, self.port = place.sql, free_port()
        (place.folder / "tokens.yaml").write_text(
            f"- {{ name: ann, token: {TOKENS['admin']}, role: admin }}\n"
            f"- {{ name: ray, token: {TOKENS['reader']}, role: reader, queues: [orders] }}\n")
        (place.folder / "tokens.yaml").chmod(0o600)
        place.write_config(more=f"""
index_headers: [tenant]
http: {{ listen: "127.0.0.1:{self.port}", tokens_file: tokens.yaml, timeout: 4m }}
ladders: {{ default: [1s, 1h] }}
queues: {{ orders: {{ success: {{ presumed_after: 1s }} }} }}
""")
        self.process = place.start([PROGRAM, "run", "-c", place.config])

    def close(self):
        code = end(self.process)
        self.place.close()
        return code

    def send(self, request, token):
        """Status, media type, body. A connection of its own for each: what one leaves behind does not matter to the next."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        try:
            connection.request(request.method, request.path, request.body, {**request.headers, "Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, (answer.headers.get("Content-Type") or "").split(";")[0], answer.read()
        finally:
            connection.close()

    def is_ready(self):
        return self.send(Request("GET", "/readyz"), TOKENS["admin"])[0] == 200


class Checker:
    def __init__(self, document):
        self.document = document
        self.validators = {}

    def operation(self, request):
        path = request.path.split("?")[0]
        for template, item in self.document["paths"].items():
            wanted, got = template.split("/"), path.split("/")
            if len(wanted) == len(got) and all(one.startswith("{") or one == other for one, other in zip(wanted, got)):
                return item.get(request.method.lower())
        return None

    def complaint(self, request, status, media, body):
        """Why the document does not describe this answer; "" if it does."""
        operation = self.operation(request)
        response = operation["responses"].get(str(status))
        if response is None:
            return f"status {status} is not in the document"
        response = self.resolve(response)
        if media not in response["content"]:
            return f"media type {media!r} is not in the document for {status}"
        if not media.endswith("json"):
            return ""
        try:
            value = json.loads(body)
        except ValueError as error:
            return f"the body is not JSON: {error}"
        schema = response["content"][media]["schema"]
        key = json.dumps(schema)
        if key not in self.validators:
            self.validators[key] = jsonschema.Draft202012Validator({**schema, "components": self.document["components"]})
        wrong = next(self.validators[key].iter_errors(value), None)
        return "" if wrong is None else f"at {'/'.join(map(str, wrong.absolute_path)) or '(top)'}: {wrong.message[:300]}"

    def resolve(self, node):
        while "$ref" in node:
            found = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = found
        return node


def learn(known, value):
    """Ids in an answer, for the requests to come."""
    if isinstance(value, list):
        for one in value[:20]:
            learn(known, one)
    if isinstance(value, dict):
        for name, kind in (("retry_id", "id"), ("cause_id", "cause"), ("queue", "queue")):
            if isinstance(value.get(name), str) and 0 < len(value[name]) < 200:
                known.add(kind, value[name])
        if "action" in value and isinstance(value.get("id"), str):
            known.add("bulk", value["id"])
        for one in value.values():
            learn(known, one)


def seed_tasks(sidecar, known):
    """Tasks in several states, and causes."""
    for number in range(6):
        task = {"queue": "orders" if number % 2 else "nowhere", "body": f"body {number}", "delay": "0s" if number < 4 else "1h",
                "message_id": f"order-{number}", "headers": {"tenant": "acme"}}
        answer = sidecar.send(Request("POST", "/v1/tasks", json.dumps(task).encode(), {"Content-Type": "application/json"}),
                              TOKENS["admin"])
        learn(known, json.loads(answer[2]))
    # Nobody has declared the queue "nowhere": these are returned, which is a failure with a cause.
    for (cause,) in until("a cause is known", lambda: sidecar.sql("SELECT cause_id FROM retry_causes")):
        known.add("cause", cause)


def draw(sidecar):
    """Sends requests; how many answers the document does not describe."""
    document = json.loads(subprocess.run([PROGRAM, "__openapi"], check=True, capture_output=True, text=True).stdout)
    known, checker = Known(), Checker(document)
    seed_tasks(sidecar, known)
    generator = Generator(document, known, random.Random(SEED))
    answers, complaints = {}, 0
    # It has to see what it should: successes of reads and changes, and refusals. A busy machine needs longer.
    wanted = {200, 201, 202, 400, 403, 404, 409} if SECONDS >= 15 else set()
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline or (wanted - set(answers) and time.monotonic() < deadline + ANSWER_SECONDS):
        request = generator.request()
        who = "admin" if generator.draw.random() < 0.85 else "reader"
        try:
            status, media, body = sidecar.send(request, TOKENS[who])
        except (OSError, http.client.HTTPException) as error:
            status, media, body, wrong = 0, "", b"", f"no answer: {error!r}"
        else:
            wrong = checker.complaint(request, status, media, body)
            if status == 503:
                wrong = "broker and database are there"
        answers[status] = answers.get(status, 0) + 1
        if status == 200 or status == 201:
            try:
                learn(known, json.loads(body))
            except ValueError:
                pass
        if wrong:
            complaints += 1
            print(f"seed {SEED}, {who}: {request}\n  {status} {media} {body[:500]!r}\n  {wrong}\n")
            if complaints >= 10:
                break
    assert sidecar.process.poll() is None, "the sidecar has ended"
    assert sidecar.is_ready(), "the sidecar is not ready any more"
    print(f"{sum(answers.values())} requests, seed {SEED}: " + ", ".join(f"{n} x {status}" for status, n in sorted(answers.items())))
    for status in wanted - set(answers):
        print(f"no answer was {status}: the requests do not reach far enough")
        complaints += 1
    return complaints


@pytest.mark.usefixtures("servers")
def test_each_answer_is_as_the_document_says():
    sidecar = Sidecar()
    try:
        until("the sidecar is ready", sidecar.is_ready, away=OSError)
        assert draw(sidecar) == 0
    finally:
        print(sidecar.place.logs())
        assert sidecar.close() == 0, "how the sidecar ended on SIGTERM"
