"""Requests drawn from the OpenAPI document: most of them as the document says, some with one thing wrong. Pure, by a seeded random.Random."""
import json
import string
import urllib.parse

TEXTS = ["", "orders", "order-4711", "a" * 300, "grüße", "日本語", "\u202e evil", "a\tb\nc", "%s%n", "'; DROP TABLE rung_tasks; --",
         "<script>alert(1)</script>", "../../etc/passwd", "\x7f", "null", "0", "-1", "/[a-z]+/i", "/(/", "header.x", "*", "#"]
NUMBERS = [0, 1, -1, 2, 50, 1000, 1001, 2**31, 2**53, 2**53 + 1, 2**63, -2**63, 1.5, 1e308]
TIMES = ["2026-11-26T17:05:00Z", "2026-11-26T17:05:00.123+02:00", "1970-01-01T00:00:00Z", "2999-12-31T23:59:59Z", "tomorrow", "2026-13-01T00:00:00Z"]
DURATIONS = ["5s", "30m", "1h30m", "0s", "10y", "-1s", "5 s"]


class Known:
    """What exists on the server: drawn as path parameters, and in bodies."""

    def __init__(self):
        self.values = {"id": [], "bulk": [], "cause": [], "queue": ["orders", "invoices"]}

    def add(self, kind, value):
        values = self.values[kind]
        if value not in values:
            values.append(value)
        del values[:-200]


class Request:
    def __init__(self, method, path, body=None, headers=None):
        self.method, self.path, self.body, self.headers = method, path, body, headers or {}

    def __str__(self):
        shown = b"" if self.body is None else self.body[:300]
        return f"{self.method} {self.path[:300]} {self.headers} {shown!r}"


class Generator:
    def __init__(self, document, known, draw):
        self.document, self.known, self.draw = document, known, draw
        self.operations = [(method, path, operation) for path, item in document["paths"].items()
                           for method, operation in item.items()
                           if method in ("get", "post") and "text/event-stream" not in str(operation["responses"])]

    def request(self):
        method, template, operation = self.draw.choice(self.operations)
        wrong = self.draw.random() < 0.4  # one thing of this request
        path, query, headers = template, [], {}
        for parameter in map(self.resolve, operation.get("parameters", [])):
            value = self.parameter(template, parameter)
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", urllib.parse.quote(value, safe=""))
            elif self.draw.random() < 0.3:
                if parameter["in"] == "header":
                    headers[parameter["name"]] = self.draw.choice(['"0"', '"1"', "*", "W/\"1\"", "1"])
                else:
                    name = "header.tenant" if parameter["name"] == "headers" else parameter["name"]
                    query.append((name, value))
        if wrong and method == "get":
            query.append(self.draw.choice([("unknown", "1"), ("limit", "0"), ("limit", "9" * 30), ("cursor", "x" * 50), ("limit", ""),
                                           ("state", "gone"), ("queue", "a"), ("queue", "b")]))
        if query:
            path += "?" + urllib.parse.urlencode(query, errors="surrogatepass")
        body = None
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is not None and (operation["requestBody"].get("required") or self.draw.random() < 0.8):
            value = self.plausible(path) if self.draw.random() < 0.3 else self.value(content["schema"])
            if wrong:
                value = self.mutated(value)
            body = json.dumps(value, ensure_ascii=self.draw.random() < 0.5).encode("utf-8", "surrogatepass")
            headers["Content-Type"] = "application/json"
            if wrong and self.draw.random() < 0.25:
                body, headers["Content-Type"] = self.draw.choice([
                    (body[: len(body) // 2], "application/json"), (b"\xff\xfe" + body, "application/json"), (body, "text/plain"),
                    (b"[" * 5000, "application/json"), (b"", "application/json"), (b"{}{}", "application/json"),
                    (b'{"a":1,"a":2}', "application/json"), (b"NaN", "application/json")])
        return Request(method.upper(), path, body, headers)

    def plausible(self, path):
        """A body that is accepted: what the schema says alone rarely makes sense."""
        queue = self.draw.choice(self.known.values["queue"])
        if path == "/v1/tasks":
            return {"queue": queue, "body": "hello", "delay": self.draw.choice(["0s", "1h"]), "headers": {"tenant": "acme"}}
        if path == "/v1/bulks":
            return {"action": self.draw.choice(["cancel", "fire", "redrive", "discard"]), "filter": {"queue": queue}, "reason": "fuzz",
                    "dry_run": self.draw.random() < 0.3}
        return {}

    def resolve(self, schema):
        while "$ref" in schema:
            node = self.document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                node = node[part]
            schema = node
        return schema

    def parameter(self, template, parameter):
        known = self.known.values
        if parameter["in"] == "path":
            kind = "bulk" if "/bulks/" in template else parameter["name"]
            if known[kind] and self.draw.random() < 0.85:
                return self.draw.choice(known[kind])
            return self.draw.choice(["1", "0", "999999999999", "x", "18446744073709551616", "ab" * 6, *TEXTS[1:]]) or "x"
        if parameter["name"] in known and self.draw.random() < 0.7:
            return self.draw.choice(known[parameter["name"]] or ["x"])
        value = self.value(parameter["schema"])
        if isinstance(value, list):
            return ",".join(str(one) for one in value)
        return value if isinstance(value, str) else json.dumps(value)

    def value(self, written, depth=0):
        schema = self.resolve(written)
        for many in ("oneOf", "anyOf"):
            if many in schema:
                return self.value(self.draw.choice(schema[many]), depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.draw.choice(schema["enum"])
        kind = schema.get("type", "any")
        if isinstance(kind, list):
            kind = self.draw.choice(kind)
        if kind == "object":
            return self.object(schema, depth)
        if kind == "array":
            most = 0 if depth > 4 else self.draw.choice([1, 1, 2, 5])
            return [self.value(schema.get("items", {}), depth + 1) for _ in range(max(most, schema.get("minItems", 0)))]
        if kind == "string":
            return self.text(schema)
        if kind == "integer":
            low, high = schema.get("minimum", -5), schema.get("maximum", 10**6)
            return self.draw.choice([low, high, self.draw.randint(low, high)])
        if kind == "number":
            return self.draw.choice([1, 0.5, 10, schema.get("minimum", 0)])
        if kind == "boolean":
            return self.draw.random() < 0.5
        if kind == "null":
            return None
        return self.draw.choice(["5s", "30m", 1000, "text", {"a": [1, None]}, True, None])

    def object(self, schema, depth):
        out = {}
        for name, one in schema.get("properties", {}).items():
            if name in schema.get("required", []) or self.draw.random() < (0.35 if depth < 3 else 0.1):
                out[name] = self.named(name, one, depth)
        if not schema.get("properties") and depth < 4:
            for _ in range(self.draw.choice([0, 1, 3])):
                out[self.draw.choice(["tenant", "x-a", "n"])] = self.draw.choice(["acme", 5, True, None, {"!i32": 5}, [1, "a"], 2**63])
        return out

    # Properties whose name says more than their schema.
    def named(self, name, schema, depth):
        ids = {"retry_id": "id", "id": "id", "cause": "cause", "queue": "queue"}
        if name in ids and self.known.values[ids[name]] and self.draw.random() < 0.6:
            return self.draw.choice(self.known.values[ids[name]])
        if name in ("delay", "watch", "for", "duration") and self.draw.random() < 0.8:
            return self.draw.choice(DURATIONS)
        return self.value(schema, depth + 1)

    def text(self, schema):
        if schema.get("format") == "date-time" or "time" in schema.get("description", "").lower():
            return self.draw.choice(TIMES)
        if schema.get("contentEncoding") == "base64":
            return self.draw.choice(["aGVsbG8=", "aGVsbG8", "", "*"])
        if self.draw.random() < 0.3:
            return self.draw.choice(TEXTS)
        return "".join(self.draw.choice(string.ascii_lowercase) for _ in range(self.draw.randint(1, 12)))

    def mutated(self, value):
        """The same with one thing changed, somewhere."""
        if isinstance(value, dict) and value and self.draw.random() < 0.7:
            name = self.draw.choice(list(value))
            return {**value, name: self.mutated(value[name])}
        if isinstance(value, list) and value and self.draw.random() < 0.7:
            at = self.draw.randrange(len(value))
            return value[:at] + [self.mutated(value[at])] + value[at + 1:]
        if isinstance(value, dict):
            return self.draw.choice([{**value, "unknown": 1}, {}, {name.upper(): one for name, one in value.items()}, [value]])
        return self.draw.choice([*TEXTS, *NUMBERS, None, True, [], {}, "x" * 100_000, [[]] * 100, {"!i32": "x"}, {"!": 1}])
