"""The torture run's world, with clusters for servers: several brokers, several databases, one of which is written."""
import os
import random
import shutil

import pika
import pymysql
import starting
from starting import until

from torturing import script
from torturing.world import Sidecar, World

from .nodes import AMQP, MANAGEMENT, MYSQL


class NoProxies:
    """Cluster runs hurt servers and links, not single connections."""
    ports = {}

    def do(self, *_):
        pass

    def close(self):
        pass


class ClusterSidecar(Sidecar):
    def write_config(self, max_loaded):
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(self.world.config_of(self.name, max_loaded))


class ClusterWorld(World):
    """`brokers`, `databases`: running nodes. `primary`: the database that is written, which the scenario moves."""

    def __init__(self, folder, rung, instances, brokers, databases, network):  # pylint: disable=super-init-not-called
        self.folder, self.rung, self.network = folder, rung, network
        self.brokers, self.databases, self.primary = brokers, databases, databases[0]
        self.sidecars, self.proxies = [], NoProxies()
        self.create_users()
        for i in range(instances):
            self.sidecars.append(ClusterSidecar(self, i + 1, False))
            self.sidecars[-1].write_config(1_000_000)
        self.ctl = os.path.join(folder, "ctl.yaml")
        with open(self.ctl, "w", encoding="utf-8") as out:
            out.write(self.config_of("ctl", 1000))

    def config_of(self, node, max_loaded):
        amqp = ", ".join(f'"amqp://{script.USER}:{script.PASSWORD}@{b.address}:{AMQP}/%2f"' for b in self.brokers)
        mysql = ", ".join(f'"mysql://{script.USER}:{script.PASSWORD}@{d.address}:{MYSQL}/{script.SCHEMA}"'
                          for d in self.databases)
        return (f"broker: {{ urls: [{amqp}], prefix: {script.PREFIX}, heartbeat: {int(script.HEARTBEAT_S)}s, prefetch: 200,"
                f" queue_type: quorum }}\n"
                f"store: {{ urls: [{mysql}], timeout: {int(script.STORE_TIMEOUT_S)}s }}\n"
                f"node: {node}\nlease: {int(script.LEASE_S)}s\nwindow: 5s\ndrain: 10s\nmax_loaded: {max_loaded}\n"
                f"log: {{ level: debug }}\nladders:\n{script.LADDERS}queues:\n{script.queues_yaml()}")

    def connect(self):
        """To any broker that answers."""
        error = None
        for broker in random.sample(self.brokers, len(self.brokers)):
            try:
                return pika.BlockingConnection(pika.URLParameters(
                    f"amqp://guest:guest@{broker.address}:{AMQP}/%2f?heartbeat=2&socket_timeout=2&stack_timeout=4"
                    "&blocked_connection_timeout=20"))
            except (pika.exceptions.AMQPError, OSError) as failed:
                error = failed
        raise error

    def db(self, database=script.SCHEMA):
        return self.primary.connect(database)

    def admin(self, method, path, body=None):
        """Of any broker that answers."""
        def ask():
            os.environ["RUNG_TEST_MANAGEMENT"] = f"http://{random.choice(self.brokers).address}:{MANAGEMENT}"
            return [starting.admin(method, path, body)]
        return until(f"{method} {path}", ask, away=OSError)[0]

    def rabbit(self, *arguments):
        broker = next((b for b in self.brokers if b.is_there()), self.brokers[0])
        return broker.ctl(*arguments)

    def server(self, command):
        raise NotImplementedError(command)

    def save_server_logs(self):
        for node in self.brokers + self.databases:
            path = os.path.join(node.folder, "out")
            if os.path.exists(path):
                shutil.copy(path, os.path.join(self.folder, node.name + ".out"))
        for broker in self.brokers:
            if os.path.exists(broker.log_path()):
                shutil.copy(broker.log_path(), os.path.join(self.folder, broker.name + ".log"))

    def close(self):
        for sidecar in self.sidecars:
            if sidecar.process and sidecar.process.poll() is None:
                sidecar.process.kill()
                sidecar.process.wait()
        self.network.close()
        for node in self.brokers + self.databases:
            shutil.rmtree(node.folder, ignore_errors=True)
            for at in (node.root + node.folder, node.root + os.path.dirname(node.folder)):
                try:
                    os.rmdir(at)
                except OSError:
                    pass


def wait_for(condition, what, within=60):
    until(what, condition, within, away=(pymysql.Error, OSError))
