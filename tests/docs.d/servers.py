"""Private servers for the docs, and programs that lead a page's commands to them."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import starting  # noqa: E402

# The programs of the servers find their own clients by the original PATH.
WRAPPERS = {
    "rung": 'exec {program} "$@"\n',
    "sudo": 'exec "$@"\n',
    "rabbitmqctl": 'PATH={path} exec {ctl} -q "$@" </dev/null\n',
    "rabbitmqadmin": 'exec /usr/bin/python3 {dir}/rabbitmqadmin -H 127.0.0.1 -P {management} "$@"\n',
    "mariadb": 'PATH={path} exec {sql} "$@"\n',
    "mysql": 'PATH={path} exec {sql} "$@"\n',
    "mariadb-dump": 'PATH={path} exec {dump} "$@"\n',
    # Its status and body are compared with what the page shows: compare.py.
    "curl": "out=$(mktemp)\ncode=0\nhttp=$(/usr/bin/curl -o \"$out\" -w '%{{http_code}}' \"$@\") || code=$?\n"
            'echo "$http" >>"$DOCS_FOLDER/$DOCS_LINE.http"\ncat "$out"\nrm -f "$out"\nexit "$code"\n',
}


class Servers:
    def __init__(self, program):
        self.program = os.path.abspath(program)
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="rung-docs."))
        self.servers, self.environment = None, {}

    def __enter__(self):
        try:
            self.servers = starting.Servers(self.dir / "servers", "--management")
            self.environment = os.environ | self.servers.env
            self._ports()
            self._programs()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.servers:
            self.servers.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _ports(self):
        amqp, mysql = self.servers.broker_port, self.servers.db_port
        management = int(self.environment["RUNG_TEST_MANAGEMENT"].rpartition(":")[2])
        # tests/servers has a block of 20 ports, of which the seventh to tenth are free.
        self.ports = {5672: amqp, 3306: mysql, 15672: management, 8025: amqp + 6}

    def _programs(self):
        with urllib.request.urlopen(f"{self.environment['RUNG_TEST_MANAGEMENT']}/cli/rabbitmqadmin") as answer:
            (self.dir / "rabbitmqadmin").write_bytes(answer.read())
        folder = self.dir / "bin"
        folder.mkdir()
        values = {"program": self.program, "ctl": self.environment["RUNG_TEST_RABBITMQCTL"], "dir": self.dir,
                  "management": self.ports[15672], "sql": self.environment["RUNG_TEST_SQL"],
                  "dump": self.environment["RUNG_TEST_DUMP"], "path": shlex.quote(self.environment["PATH"])}
        for name, text in WRAPPERS.items():
            (folder / name).write_text("#!/bin/bash\n" + text.format(**values))
            (folder / name).chmod(0o755)
        self.environment["DOCS_HTTP"] = f"127.0.0.1:{self.ports[8025]}"
        self.environment["RUNG_EXAMPLE_BROKER"] = self.environment["RUNG_TEST_AMQP"]
        self.environment["PATH"] = f"{folder}:{self.environment['PATH']}"

    def local(self, text):
        """The text with the servers' ports instead of the usual ones. The management API's is no longer the usual one beside the
        broker's."""
        text = re.sub(r'(broker: \{ url: "amqp://[^"]*")( \})', rf'\1, management: "http://127.0.0.1:{self.ports[15672]}"\2', text)
        return re.sub(r"\b(127\.0\.0\.1|localhost):(\d+)\b",
                      lambda match: f"{match[1]}:{self.ports.get(int(match[2]), match[2])}", text)

    def manage(self, method, path, body=None):
        starting.admin(method, path, body, self.environment["RUNG_TEST_MANAGEMENT"])

    def sql(self, statement, schema=()):
        return subprocess.run([self.environment["RUNG_TEST_SQL"], *schema, "-e", statement], capture_output=True, text=True,
                              check=False)

    def reset(self):
        """A broker and a database as if new."""
        for _ in range(50):
            try:
                self.manage("DELETE", "vhosts/%2f")
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise
            try:
                self.manage("PUT", "vhosts/%2f", {})
                self.manage("PUT", "permissions/%2f/guest", {"configure": ".*", "write": ".*", "read": ".*"})
                break
            except urllib.error.HTTPError:
                time.sleep(0.2)  # the old one is still being removed
        self.sql("DROP DATABASE IF EXISTS rung; CREATE DATABASE rung; DROP USER IF EXISTS rung@'127.0.0.1';"
                 "CREATE USER rung@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO rung@'127.0.0.1'")
