"""The servers, the sidecars and the way to them: everything that is started, and its end."""
import glob
import os
import shutil
import signal
import subprocess
import threading
import time

import pika
import pymysql
import starting
from starting import BOUND_SECONDS, until

from . import identity, script
from .proxy import Proxies



def faketime():
    """The library that bends a process's clock; None where it is not installed."""
    return next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)


class Sidecar:
    """`rung run` as a process. Thread: one at a time (whoever holds its lock in `Faults`)."""

    def __init__(self, world, number, own_clock):
        self.world, self.name = world, f"sidecar-{number}"
        self.log_path = os.path.join(world.folder, self.name + ".log")
        self.config = os.path.join(world.folder, self.name + ".yaml")
        self.time_file = os.path.join(world.folder, self.name + ".time") if own_clock else None
        self.process = None
        self.starts = 0
        self.pids = []

    def write_config(self, max_loaded):
        ports = self.world.proxies.ports
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(self.world.config(ports[self.name, "broker"], ports[self.name, "db"], self.name, max_loaded,
                                        f"{script.USER}:{script.PASSWORD}", f"{script.USER}:{script.PASSWORD}"))

    def start(self):
        env = dict(os.environ)
        if self.time_file:
            self.step_clock("+0")
            env.update(LD_PRELOAD=faketime(), FAKETIME_TIMESTAMP_FILE=self.time_file, FAKETIME_CACHE_DURATION="1",
                       FAKETIME_DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_RESET="1", NO_FAKE_STAT="1")
        self.process = starting.start([self.world.rung, "run", "-c", self.config], self.log_path, env=env, start_new_session=True)
        self.starts += 1
        self.pids.append(self.process.pid)

    def step_clock(self, offset):
        with open(self.time_file + ".new", "w", encoding="utf-8") as out:
            out.write(offset + "\n")
        os.replace(self.time_file + ".new", self.time_file)

    def stands(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} did not start:\n{self.log()[-3000:]}")
        return "broker connected" in self.log() and "shards acquired" in self.log()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def log(self):
        with open(self.log_path, "rb") as file:
            return file.read().decode(errors="replace")


class World:
    """REQUIRES: __init__ runs before any thread is started, since it forks the proxies."""

    standing_still = threading.Event()  # the consumer of the queue with a length limit
    idle = threading.Event()  # the queue mails is to have no consumer ...
    left = threading.Event()  # ... and its consumer has left

    def __init__(self, folder, rung, instances, bend_a_clock):
        self.folder, self.rung = folder, rung
        self.sidecars, self.proxies = [], None
        self.servers = starting.Servers(os.path.join(folder, "servers"), "--management", quiet=True)
        self.amqp, self.rabbitmqctl = self.servers.amqp, self.servers.rabbitmqctl
        os.environ["RUNG_TEST_MANAGEMENT"] = self.servers.env["RUNG_TEST_MANAGEMENT"]  # of starting.admin()
        self.broker_port, self.db_port = self.servers.broker_port, self.servers.db_port
        self.management = self.servers.env["RUNG_TEST_MANAGEMENT"].replace("http://", "http://guest:guest@")
        self.create_users()
        names = [f"sidecar-{i + 1}" for i in range(instances)]
        self.proxies = Proxies({(n, kind): port for n in names
                                for kind, port in (("broker", self.broker_port), ("db", self.db_port))})
        for i in range(instances):
            # One clock is bent at a time; the last instance bears it. One heap is small, to be refilled all the time.
            self.sidecars.append(Sidecar(self, i + 1, bend_a_clock and i == instances - 1))
            self.sidecars[-1].write_config(50 if i == 1 else 1_000_000)
        self.ctl = os.path.join(folder, "ctl.yaml")
        with open(self.ctl, "w", encoding="utf-8") as out:
            out.write(self.config(self.broker_port, self.db_port, "ctl", 1000))

    def config(self, broker_port, db_port, node, max_loaded, login="root", broker_login="guest:guest"):
        return (f"broker: {{ url: \"amqp://{broker_login}@127.0.0.1:{broker_port}/%2f\", prefix: {script.PREFIX},"
                f" heartbeat: {int(script.HEARTBEAT_S)}s, prefetch: 200, management: \"{self.management}\","
                f" attachment_check: 10s }}\n"
                f"store: {{ url: \"mysql://{login}@127.0.0.1:{db_port}/{script.SCHEMA}\","
                f" timeout: {int(script.STORE_TIMEOUT_S)}s }}\n"
                f"node: {node}\nlease: {int(script.LEASE_S)}s\nwindow: 5s\ndrain: {BOUND_SECONDS}s\nmax_loaded: {max_loaded}\n"
                f"log: {{ level: debug }}\nladders:\n{script.LADDERS}queues:\n{script.queues_yaml()}")

    def start_sidecars(self):
        for sidecar in self.sidecars:
            sidecar.start()
        for sidecar in self.sidecars:
            until(f"{sidecar.name} starts", sidecar.stands, told=lambda one=sidecar: one.log()[-3000:])

    def declare_queues(self):
        with self.connect() as connection:
            channel = connection.channel()
            channel.exchange_declare(script.EXCHANGE, "topic", durable=True)
            for queue in script.QUEUES.values():
                channel.queue_declare(queue.name, durable=True, arguments=queue.arguments())
                if queue.by_topic:
                    channel.queue_bind(queue.name, script.EXCHANGE, f"{queue.name}.#")
            identity.declare_queues(channel)
        for queue in script.QUEUES.values():
            if queue.by_policy:
                self.set_policy("base", f"^{queue.name}$", {"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"})
                self.attachment("attach", queue.name)

    def attachment(self, *arguments):
        """`rung attach` or `rung detach`. Until it is done: the database may be away by another fault."""
        until(f"rung {' '.join(arguments)}", lambda: self.ctl_run(*arguments).returncode == 0,
              told=lambda: self.ctl_run(*arguments).stderr)

    def connect(self):
        """A connection to the broker past the proxies. No heartbeat: a broker that is killed is noticed by the RST."""
        parameters = pika.URLParameters(self.amqp + "?heartbeat=0&socket_timeout=5&stack_timeout=10")
        return pika.BlockingConnection(parameters)

    def create_users(self):
        """The sidecars', so that their rights can be revoked without hurting the harness."""
        self.add_user_at_broker()
        self.permit_at_broker(".*")
        with self.db(None) as db, db.cursor() as cursor:
            cursor.execute(f"CREATE USER '{script.USER}'@'%' IDENTIFIED BY '{script.PASSWORD}'")
            cursor.execute(f"GRANT ALL ON {script.SCHEMA}.* TO '{script.USER}'@'%'")

    # By the management API: rabbitmqctl starts an Erlang for each call, minutes on a busy machine.

    @staticmethod
    def admin(method, path, body=None):
        """Until it answers: the broker may just have been started."""
        return until(f"{method} {path}", lambda: [starting.admin(method, path, body)], away=OSError)[0]

    def add_user_at_broker(self):
        self.admin("PUT", f"users/{script.USER}", {"password": script.PASSWORD, "tags": "policymaker"})

    def permit_at_broker(self, pattern):
        self.admin("PUT", f"permissions/%2f/{script.USER}", {"configure": pattern, "write": pattern, "read": pattern})

    def set_policy(self, name, pattern, definition):
        self.admin("PUT", f"policies/%2f/{name}", {"pattern": pattern, "definition": definition, "apply-to": "queues"})

    def clear_policy(self, name):
        self.admin("DELETE", f"policies/%2f/{name}")

    def queues(self):
        """name -> (type, messages). The numbers are up to five seconds old."""
        return {q["name"]: (q["type"], q.get("messages", 0)) for q in self.admin("GET", "queues/%2f?columns=name,type,messages")}

    def db(self, database=script.SCHEMA):
        return pymysql.connect(host="127.0.0.1", port=self.db_port, user="root", database=database,
                               autocommit=True, connect_timeout=20, read_timeout=60,
                               init_command="SET time_zone = '+00:00'", cursorclass=pymysql.cursors.DictCursor)

    def clock_differs(self):
        """How far the database's clock is from ours at most, in ms."""
        with self.db() as db, db.cursor() as cursor:
            best = 1e9
            for _ in range(20):
                before = time.time() * 1000
                cursor.execute("SELECT UNIX_TIMESTAMP(UTC_TIMESTAMP(3)) * 1000 AS t")
                theirs = float(cursor.fetchone()["t"])
                after = time.time() * 1000
                # Truncated to a ms, and read somewhere between before and after.
                best = min(best, max(before - 1 - theirs, theirs - after, 0))
        return best

    def server(self, command):
        self.servers.control(command)

    def ctl_run(self, *arguments, timeout=BOUND_SECONDS):
        return subprocess.run([self.rung, *arguments, "-c", self.ctl], capture_output=True, text=True, timeout=timeout,
                              start_new_session=True, check=False)

    def rabbit(self, *arguments):
        return subprocess.run([self.rabbitmqctl, "-q", *arguments], capture_output=True, text=True, timeout=5 * BOUND_SECONDS,
                              start_new_session=True, check=True).stdout

    def inlet_is_quorum(self):
        return self.queues()[script.FAILED][0] == "quorum"

    def terminate_sidecars(self, within=2 * BOUND_SECONDS):
        """SIGTERM to all at once; the exit codes, None where it did not end in time."""
        for sidecar in self.sidecars:
            sidecar.process.send_signal(signal.SIGTERM)
        codes = {}
        deadline = time.monotonic() + within
        for sidecar in self.sidecars:
            try:
                codes[sidecar.name] = sidecar.process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                codes[sidecar.name] = None
        return codes

    def save_server_logs(self):
        for name in ("broker.out", "db.out"):
            path = os.path.join(self.servers.folder, name)
            if os.path.exists(path):
                shutil.copy(path, os.path.join(self.folder, name))
        logs = os.path.join(self.servers.folder, "rabbit", "log")
        if os.path.isdir(logs):
            shutil.copytree(logs, os.path.join(self.folder, "rabbit-log"), dirs_exist_ok=True)

    def close(self):
        for sidecar in self.sidecars:
            if sidecar.process and sidecar.process.poll() is None:
                sidecar.process.kill()  # also ends a stopped one
                sidecar.process.wait()
            for pid in sidecar.pids if sidecar.time_file else []:
                for path in (f"/dev/shm/faketime_shm_{pid}", f"/dev/shm/sem.faketime_sem_{pid}"):
                    if os.path.exists(path):
                        os.remove(path)
        if self.proxies:
            self.proxies.close()
        self.servers.stop()
