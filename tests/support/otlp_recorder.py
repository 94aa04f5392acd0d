#!/usr/bin/env python3
"""A collector for tests: takes spans by OTLP over HTTP (JSON), checks each request against the schema and against
OTLP's rules, and writes one JSON line per span to a file.

usage: otlp_recorder.py --port P --file F

--port P      listens on 127.0.0.1:P; 0 = a free port. Prints "listening on 127.0.0.1:P" once it does
--file F      appends to F: {"trace_id", "span_id", "parent_span_id", "trace_state", "name", "kind", "start_ns", "end_ns",
              "attributes", "links", "status", "resource", "scope", "headers"} per span. A request that breaks a rule is
              answered with 400, and becomes the line {"violation": "...", "headers": {...}}

SIGTERM and SIGINT end it.
"""
import argparse
import http.server
import json
import re
import signal
import sys
import threading

# Between 2000 and 2100: milliseconds in place of nanoseconds are found.
EARLIEST_NS, LATEST_NS = 946_684_800 * 10**9, 4_102_444_800 * 10**9
# https://www.w3.org/TR/trace-context-2/#tracestate-header
STATE_MEMBER = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}
CODES = {0: "UNSET", 1: "OK", 2: "ERROR"}


class Violation(Exception):
    pass


def need(holds, text):
    if not holds:
        raise Violation(text)


def expect_fields(value, where, /, **fields):
    """The value is an object with no other fields than these, and each has its type."""
    need(isinstance(value, dict), f"{where}: {value!r} is not an object")
    for name, one in value.items():
        need(name in fields, f"{where}: unknown field {name}")
        need(isinstance(one, fields[name]) and not isinstance(one, bool), f"{where}.{name}: {one!r} has the wrong type")


def read_id(value, size, where):
    need(isinstance(value, str) and re.fullmatch("[0-9a-f]{%d}" % (2 * size), value), f"{where}: {value!r} is not {size} bytes in hex")
    need(value.strip("0"), f"{where}: all zero")
    return value


def read_int64(value, where):
    need(isinstance(value, str) and re.fullmatch(r"-?\d+", value), f"{where}: {value!r} is not a number written as text")
    return int(value)


def read_state(state, where):
    if not state:
        return state
    members = [member.strip(" \t") for member in state.split(",")]
    filled = [member for member in members if member]
    need(len(members) <= 32, f"{where}: more than 32 members")
    for member in filled:
        need(STATE_MEMBER.fullmatch(member), f"{where}: malformed member {member!r}")
    keys = [member.split("=")[0] for member in filled]
    need(len(keys) == len(set(keys)), f"{where}: a key stands there twice")
    return state


def read_value(value, where):
    expect_fields(value, where, stringValue=str, intValue=str)
    need(len(value) == 1, f"{where}: {len(value)} values")
    return read_int64(value["intValue"], where) if "intValue" in value else value["stringValue"]


def read_attributes(attributes, where):
    read = {}
    for attribute in attributes:
        expect_fields(attribute, where, key=str, value=dict)
        key = attribute.get("key")
        need(key, f"{where}: an attribute without a key")
        need(key not in read, f"{where}: attribute {key} stands there twice")
        read[key] = read_value(attribute["value"], f"{where}.{key}")
    return read


def read_link(link, where):
    expect_fields(link, where, traceId=str, spanId=str, traceState=str, attributes=list)
    return {"trace_id": read_id(link.get("traceId"), 16, f"{where}.traceId"),
            "span_id": read_id(link.get("spanId"), 8, f"{where}.spanId"),
            "trace_state": read_state(link.get("traceState", ""), f"{where}.traceState"),
            "attributes": read_attributes(link.get("attributes", []), f"{where}.attributes")}


def read_span(span):
    expect_fields(span, "span", traceId=str, spanId=str, traceState=str, parentSpanId=str, name=str, kind=int,
                  startTimeUnixNano=str, endTimeUnixNano=str, attributes=list, links=list, status=dict)
    need(span.get("name"), "span without a name")
    where = f"span {span['name']!r}"
    parent = span.get("parentSpanId")
    if parent is not None:
        read_id(parent, 8, f"{where}.parentSpanId")
        need(parent != span.get("spanId"), f"{where}: is its own parent")
    status = span.get("status", {})
    expect_fields(status, f"{where}.status", code=int, message=str)
    code = status.get("code", 0)
    need(span.get("kind") in KINDS, f"{where}.kind: {span.get('kind')}")
    need(code in CODES, f"{where}.status.code: {code}")
    need(CODES[code] == "ERROR" or not status.get("message"), f"{where}.status: a message, but no error")
    start, end = (read_int64(span.get(name), f"{where}.{name}") for name in ("startTimeUnixNano", "endTimeUnixNano"))
    for time in (start, end):
        need(EARLIEST_NS <= time < LATEST_NS, f"{where}: {time} is not in ns since 1970, of our days")
    need(end >= start, f"{where}: ends before it starts")
    return {"trace_id": read_id(span.get("traceId"), 16, f"{where}.traceId"),
            "span_id": read_id(span.get("spanId"), 8, f"{where}.spanId"), "parent_span_id": parent,
            "trace_state": read_state(span.get("traceState", ""), f"{where}.traceState"), "name": span["name"],
            "kind": KINDS[span["kind"]], "start_ns": start, "end_ns": end,
            "attributes": read_attributes(span.get("attributes", []), f"{where}.attributes"),
            "links": [read_link(link, f"{where}.links[{i}]") for i, link in enumerate(span.get("links", []))],
            "status": {"code": CODES[code], "message": status.get("message", "")}}


def read_request(body):
    """The spans of a request. Raises Violation."""
    try:
        request = json.loads(body.decode("utf-8"))
    except ValueError as error:
        raise Violation(f"not JSON in UTF-8: {error}") from error
    expect_fields(request, "request", resourceSpans=list)
    spans = []
    for group in request.get("resourceSpans", []):
        expect_fields(group, "resourceSpans", resource=dict, scopeSpans=list)
        expect_fields(group.get("resource"), "resource", attributes=list)
        resource = read_attributes(group["resource"].get("attributes", []), "resource.attributes")
        need(resource.get("service.name"), "resource.attributes: no service.name")
        need(group.get("scopeSpans"), "resourceSpans without scopeSpans")
        for scope_spans in group["scopeSpans"]:
            expect_fields(scope_spans, "scopeSpans", scope=dict, spans=list)
            need(scope_spans.get("spans"), "scopeSpans without spans")
            scope = scope_spans.get("scope", {})
            expect_fields(scope, "scope", name=str, version=str)
            spans += [read_span(span) | {"resource": resource, "scope": scope} for span in scope_spans["spans"]]
    need(spans, "a request without spans")
    return spans


def make_handler(out):
    writing = threading.Lock()

    def write(rows):
        with writing:
            out.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            out.flush()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60
        disable_nagle_algorithm = True

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                need(self.path == "/v1/traces", f"path {self.path} instead of /v1/traces")
                need(headers.get("content-type") == "application/json",
                     f"content-type {headers.get('content-type')} instead of application/json")
                spans = read_request(body)
            except Violation as violation:
                print(f"otlp_recorder: {violation}", file=sys.stderr, flush=True)
                write([{"violation": str(violation), "headers": headers}])
                return self.answer(400, {"message": str(violation)})
            write([span | {"headers": headers} for span in spans])
            return self.answer(200, {})

        def answer(self, status, body):
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    return Handler


def main():
    parser = argparse.ArgumentParser(description="records spans that come by OTLP over HTTP")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--file", required=True)
    options = parser.parse_args()
    with open(options.file, "a", encoding="utf-8") as out:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), make_handler(out))
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever(poll_interval=0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
