"""Servers of a cluster, each in a namespace of its own: RabbitMQ, MySQL and MariaDB, from a root folder."""
import contextlib
import os
import signal
import socket
import subprocess

import pymysql
from starting import until

HERE = os.path.dirname(os.path.realpath(__file__))
IN_ROOT = os.path.join(HERE, "..", "..", "in_root")
AMQP, MANAGEMENT, MYSQL = 5672, 15672, 3306


class Node:
    """One server as a process group. Thread: one at a time."""

    def __init__(self, network, host, name, root, folder):
        self.name, self.root = name, root
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        self.space, self.address, self.link = network.add(host)
        self.process = None

    def command(self, *words):
        return ["ip", "netns", "exec", self.space, IN_ROOT, self.root, self.folder, *words]

    def launch(self, *words):
        with open(os.path.join(self.folder, "out"), "ab") as out:
            self.process = subprocess.Popen(self.command(*words), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True)

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def kill(self):
        """kill -9."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def end(self, within=60):
        """As an administrator does it."""
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} has ended:\n{self.said()}")
        socket.create_connection((self.address, self.port), 1).close()
        return True

    def is_there(self):
        with contextlib.suppress(RuntimeError, OSError):
            return self.answers()

    def said(self):
        with open(os.path.join(self.folder, "out"), errors="replace", encoding="utf-8") as out:
            return out.read()[-3000:]

    def wait_ready(self):
        until(f"{self.name} answers", self.answers, told=self.said, away=(pymysql.Error, OSError))


class RabbitNode(Node):
    port = AMQP

    def write_config(self, addresses, detector_ms=None):
        """`addresses`: of all nodes of the cluster, this one's too. `detector_ms`: how often a node asks whether the others
        are alive; else as RabbitMQ has it, 5000."""
        lines = ["listeners.tcp.1 = 0.0.0.0:5672", "loopback_users = none",
                 "cluster_formation.peer_discovery_backend = classic_config"]
        lines += [f"cluster_formation.classic_config.nodes.{i + 1} = rung@{a}" for i, a in enumerate(addresses)]
        if detector_ms:
            lines += [f"raft.adaptive_failure_detector.poll_interval = {detector_ms}"]
        for name, text in (("rabbitmq.conf", "\n".join(lines)), ("enabled_plugins", "[rabbitmq_management]."), (".erlang.cookie", "rungcluster")):
            path = os.path.join(self.folder, name)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text + "\n" if name != ".erlang.cookie" else text)
            os.chmod(path, 0o600)
        settings = {"HOME": self.folder, "RABBITMQ_USE_LONGNAME": "true", "RABBITMQ_NODENAME": f"rung@{self.address}",
                    "RABBITMQ_CONF_ENV_FILE": "/dev/null", "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq",
                    "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/enabled_plugins",
                    "RABBITMQ_MNESIA_BASE": f"{self.folder}/mnesia", "RABBITMQ_LOG_BASE": f"{self.folder}/log",
                    "RABBITMQ_PID_FILE": f"{self.folder}/pid",
                    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none"}
        self.environment = ["env", *(f"{name}={value}" for name, value in settings.items())]

    def log_path(self):
        return f"{self.folder}/log/rung@{self.address}.log"

    def start(self):
        self.launch(*self.environment, "/usr/lib/rabbitmq/bin/rabbitmq-server")

    def ctl(self, *arguments, program="rabbitmqctl", timeout=60):
        return subprocess.run(self.command(*self.environment, f"/usr/lib/rabbitmq/bin/{program}", "-q", *arguments), check=True,
                              text=True, capture_output=True, timeout=timeout).stdout


class DatabaseNode(Node):
    """MySQL or MariaDB. `more`: further options of the server."""
    port = MYSQL

    def __init__(self, network, host, name, root, folder, number, more=()):
        super().__init__(network, host, name, root, folder)
        self.number = number
        self.is_mariadb = os.path.exists(root + "/usr/sbin/mariadbd")
        self.more = list(more)
        data, init = f"{self.folder}/data", f"{self.folder}/init.sql"
        if self.is_mariadb:
            subprocess.run(self.command("mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={data}",
                                        "--skip-test-db", "--skip-name-resolve",
                                        "--auth-root-authentication-method=normal"), check=True, capture_output=True)
            statements = ["CREATE USER IF NOT EXISTS root@'%'", "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION"]
        else:
            subprocess.run(self.command("mysqld", "--no-defaults", "--initialize-insecure", "--user=root",
                                        f"--datadir={data}"), check=True, capture_output=True)
            statements = ["SET sql_log_bin = 0", "SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF",
                          "CREATE USER IF NOT EXISTS root@'%'", "GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION"]
        with open(init, "w", encoding="utf-8") as out:
            out.write("".join(s + ";\n" for s in statements))
        if self.is_mariadb:  # not as root: Galera's rsync would change to nobody
            subprocess.run(self.command("chown", "-R", "mysql", self.folder), check=True)

    def start(self, *more):
        options = ["--no-defaults", "--user=" + ("mysql" if self.is_mariadb else "root"), f"--datadir={self.folder}/data", f"--socket={self.folder}/s",
                   f"--port={MYSQL}", "--bind-address=0.0.0.0", "--skip-name-resolve", f"--server-id={self.number}",
                   "--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--max-connections=300",
                   "--innodb-buffer-pool-size=128M", *self.more, *more]
        for name in ("s", "s.lock"):  # of a server that was killed
            if os.path.lexists(f"{self.folder}/{name}"):
                os.remove(f"{self.folder}/{name}")
        first = not os.path.exists(f"{self.folder}/started")
        if first:
            options.append(f"--init-file={self.folder}/init.sql")
            with open(f"{self.folder}/started", "w", encoding="utf-8"):
                pass
        self.launch("mariadbd" if self.is_mariadb else "mysqld", *options, *([] if self.is_mariadb else ["--mysqlx=OFF"]))

    def answers(self):
        return super().answers() and self.value("SELECT 1")

    def connect(self, database=None):
        return pymysql.connect(host=self.address, port=MYSQL, user="root", database=database, autocommit=True,
                               connect_timeout=3, read_timeout=20, init_command="SET time_zone = '+00:00'",
                               cursorclass=pymysql.cursors.DictCursor)

    def run(self, *statements):
        with self.connect() as db, db.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, statement, database=None):
        with self.connect(database) as db, db.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def value(self, statement, database=None):
        rows = self.rows(statement, database)
        return next(iter(rows[0].values())) if rows else None
