#!/usr/bin/env python3
"""A collector for tests: takes spans by OTLP over HTTP (protobuf), checks each request against the schema and against
OTLP's rules, and writes one JSON line per span to a file.

usage: otlp_recorder.py --port P --file F [--status CODE] [--reject N] [--check FILE...]

--port P      listens on 127.0.0.1:P; 0 = a free port. Prints "listening on 127.0.0.1:P" once it does
--file F      appends to F: {"trace_id", "span_id", "parent_span_id", "trace_state", "name", "kind", "start_ns", "end_ns",
              "attributes", "links", "status", "resource", "scope", "headers"} per span. A request that breaks a rule is
              answered with 400, and becomes the line {"violation": "...", "headers": {...}}
--status CODE answers every request so, and records nothing
--reject N    rejects up to N spans of every request by a partial success, and does not record them
--check F...  no server: checks each file as the body of a request, prints what is wrong, and exits 1 if anything is

Needs protoc, and python3-protobuf of the same version. SIGTERM and SIGINT end it.
"""
import argparse
import gzip
import http.server
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

PROTOS = pathlib.Path(__file__).resolve().parents[2] / "third_party/opentelemetry-proto"
SERVICE = "opentelemetry/proto/collector/trace/v1/trace_service.proto"
# Between 2000 and 2100: milliseconds in place of nanoseconds are found.
EARLIEST_NS, LATEST_NS = 946_684_800 * 10**9, 4_102_444_800 * 10**9
# https://www.w3.org/TR/trace-context-2/#tracestate-header
STATE_MEMBER = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")


class Violation(Exception):
    pass


def need(holds, text):
    if not holds:
        raise Violation(text)


def import_classes():
    """Makes the classes, and returns the module of the trace service and the module of the spans."""
    with tempfile.TemporaryDirectory() as folder:
        protos = [path.relative_to(PROTOS).as_posix() for path in PROTOS.rglob("*.proto")]
        subprocess.run(["protoc", f"--proto_path={PROTOS}", f"--python_out={folder}", *protos], check=True)
        sys.path.insert(0, folder)
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
        from opentelemetry.proto.trace.v1 import trace_pb2
        sys.path.remove(folder)
    return trace_service_pb2, trace_pb2


def check_known(message, where):
    """No field, at any depth, that the schema does not have."""
    from google.protobuf.unknown_fields import UnknownFieldSet
    unknown = sorted({field.field_number for field in UnknownFieldSet(message)})
    need(not unknown, f"{where}: unknown fields {unknown}")
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        several = value if field.label == field.LABEL_REPEATED else [value]
        for one in several:
            check_known(one, f"{where}.{field.name}")


def read_id(value, size, where):
    need(len(value) == size, f"{where}: {len(value)} bytes instead of {size}")
    need(any(value), f"{where}: all zero")
    return value.hex()


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
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [read_value(one, where) for one in value.array_value.values]
    if kind == "kvlist_value":
        return read_attributes(value.kvlist_value.values, where)
    return value.bytes_value.hex() if kind == "bytes_value" else getattr(value, kind)


def read_attributes(attributes, where):
    read = {}
    for attribute in attributes:
        need(attribute.key, f"{where}: an attribute without a key")
        need(attribute.key not in read, f"{where}: attribute {attribute.key} stands there twice")
        read[attribute.key] = read_value(attribute.value, f"{where}.{attribute.key}")
    return read


def read_link(link, where):
    return {"trace_id": read_id(link.trace_id, 16, f"{where}.trace_id"),
            "span_id": read_id(link.span_id, 8, f"{where}.span_id"),
            "trace_state": read_state(link.trace_state, f"{where}.trace_state"),
            "attributes": read_attributes(link.attributes, f"{where}.attributes")}


def read_span(span, classes):
    need(span.name, "span without a name")
    where = f"span {span.name!r}"
    read = {"trace_id": read_id(span.trace_id, 16, f"{where}.trace_id"),
            "span_id": read_id(span.span_id, 8, f"{where}.span_id"), "parent_span_id": None}
    if span.parent_span_id:
        read["parent_span_id"] = read_id(span.parent_span_id, 8, f"{where}.parent_span_id")
        need(span.parent_span_id != span.span_id, f"{where}: is its own parent")
    kinds, codes = classes.Span.SpanKind, classes.Status.StatusCode
    need(span.kind in kinds.values() and span.kind != 0, f"{where}.kind: {span.kind}")
    need(span.status.code in codes.values(), f"{where}.status.code: {span.status.code}")
    need(span.status.code == classes.Status.STATUS_CODE_ERROR or not span.status.message,
         f"{where}.status: a message, but no error")
    for name in ("start_time_unix_nano", "end_time_unix_nano"):
        time = getattr(span, name)
        need(EARLIEST_NS <= time < LATEST_NS, f"{where}.{name}: {time} is not in ns since 1970, of our days")
    need(span.end_time_unix_nano >= span.start_time_unix_nano, f"{where}: ends before it starts")
    for event in span.events:
        need(event.name and event.time_unix_nano, f"{where}: an event without a name or a time")
        read_attributes(event.attributes, f"{where}.events")
    read |= {"trace_state": read_state(span.trace_state, f"{where}.trace_state"), "name": span.name,
             "kind": kinds.Name(span.kind).removeprefix("SPAN_KIND_"), "start_ns": span.start_time_unix_nano,
             "end_ns": span.end_time_unix_nano,
             "attributes": read_attributes(span.attributes, f"{where}.attributes"),
             "links": [read_link(link, f"{where}.links[{i}]") for i, link in enumerate(span.links)],
             "status": {"code": codes.Name(span.status.code).removeprefix("STATUS_CODE_"),
                        "message": span.status.message}}
    return read


def read_request(body, service, classes):
    """The spans of a request. Raises Violation."""
    from google.protobuf.message import DecodeError
    request = service.ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except (DecodeError, UnicodeDecodeError) as error:
        raise Violation(f"not an ExportTraceServiceRequest: {error}") from error
    check_known(request, "request")
    spans = []
    for group in request.resource_spans:
        resource = read_attributes(group.resource.attributes, "resource.attributes")
        need(resource.get("service.name"), "resource.attributes: no service.name")
        need(group.scope_spans, "resource_spans without scope_spans")
        for scope_spans in group.scope_spans:
            need(scope_spans.spans, "scope_spans without spans")
            scope = {"name": scope_spans.scope.name, "version": scope_spans.scope.version}
            spans += [read_span(span, classes) | {"resource": resource, "scope": scope} for span in scope_spans.spans]
    need(spans, "a request without spans")
    return spans


def status_body(text):
    """google.rpc.Status with this message, field 2: what OTLP has in the answer of a failure."""
    data = text.encode()[:127]
    return bytes([0x12, len(data)]) + data


def make_handler(options, out, service, classes):
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
            body = self.read_body()
            headers = {name.lower(): value for name, value in self.headers.items()}
            if options.status:
                return self.answer(options.status, status_body("as --status says"))
            try:
                need(self.path == "/v1/traces", f"path {self.path} instead of /v1/traces")
                need(headers.get("content-type") == "application/x-protobuf",
                     f"content-type {headers.get('content-type')} instead of application/x-protobuf")
                if headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                spans = read_request(body, service, classes)
            except (Violation, OSError, EOFError) as violation:
                print(f"otlp_recorder: {violation}", file=sys.stderr, flush=True)
                write([{"violation": str(violation), "headers": headers}])
                return self.answer(400, status_body(str(violation)))
            rejected = min(options.reject, len(spans))
            write([span | {"headers": headers} for span in spans[rejected:]])
            response = service.ExportTraceServiceResponse()
            if rejected:
                response.partial_success.rejected_spans = rejected
                response.partial_success.error_message = "as --reject says"
            return self.answer(200, response.SerializeToString())

        def read_body(self):
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()  # we expect no trailers
            return b"".join(parts)

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def check_files(paths, service, classes):
    problems = 0
    for path in paths:
        try:
            read_request(pathlib.Path(path).read_bytes(), service, classes)
        except Violation as violation:
            problems += 1
            print(f"{path}: {violation}")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description="records spans that come by OTLP over HTTP")
    parser.add_argument("--port", type=int)
    parser.add_argument("--file")
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--reject", type=int, default=0)
    parser.add_argument("--check", nargs="+", metavar="FILE")
    options = parser.parse_args()
    service, classes = import_classes()
    if options.check:
        return check_files(options.check, service, classes)
    if options.port is None or options.file is None:
        parser.error("--port and --file, or --check")
    with open(options.file, "a", encoding="utf-8") as out:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port),
                                                 make_handler(options, out, service, classes))
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever(poll_interval=0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
