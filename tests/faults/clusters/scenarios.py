"""What each kind of cluster is made of, and what is done to it."""
import os
import re
import time
import uuid

import pymysql

from torturing import script
from torturing.faults import Faults

from .network import Network
from .nodes import DatabaseNode, RabbitNode
from .world import ClusterWorld, wait_for


class Steps(Faults):
    """One after the other, each at its time. `plan`: (s since the begin, function)."""

    def run(self, seconds):
        began = time.monotonic()
        for at, step in self.plan:
            if self.stop.wait(max(began + at - time.monotonic(), 0)):
                return
            try:
                step()
            except Exception as error:  # the fault could not be made: the run says so and fails
                self.errors.append(f"{step.__name__}: {error!r}")
        self.stop.wait(max(began + seconds - time.monotonic(), 0))

    def join(self):
        pass


class Scenario:
    """`say`: a line for people. `more`: further lines for the report, known at the end."""
    seconds = 60
    needs_all = True

    def __init__(self, roots, folder, say):
        self.roots, self.folder, self.say = roots, folder, say
        self.network = Network()
        self.world = self.ledger = None
        self.detector_ms = None  # RabbitNode.write_config()
        self.more = []

    def root(self, suite):
        return os.path.join(self.roots, suite)

    def nodes_folder(self):
        # Short: a socket's path in it must not be longer than 107 bytes.
        path = os.path.join("/tmp", os.path.basename(self.folder) + ".n")
        os.makedirs(path, exist_ok=True)
        return path

    def start_brokers(self, count):
        brokers = [RabbitNode(self.network, 11 + i, f"rabbit{i + 1}", self.root("sid"), self.nodes_folder())
                   for i in range(count)]
        for broker in brokers:
            broker.write_config([b.address for b in brokers], self.detector_ms)
        for broker in brokers:
            broker.start()
        for broker in brokers:
            broker.wait_ready()
        if count > 1:
            wait_for(lambda: brokers[0].ctl("cluster_status").count("RabbitMQ 4") >= count, "the brokers' cluster", 120)
        return brokers

    def start_databases(self, count, suite, *more):
        databases = [DatabaseNode(self.network, 21 + i, f"db{i + 1}", self.root(suite), self.nodes_folder(), i + 1,
                                  self.options_of(i, more)) for i in range(count)]
        return databases

    def options_of(self, _, more):
        return more

    def make_world(self, options):
        self.detector_ms = options.detector
        brokers, databases = self.servers()
        self.world = ClusterWorld(self.folder, options.rung, options.instances, brokers, databases, self.network)
        return self.world

    # --- faults, noted in the ledger. Their kinds are those that the judge knows: broker and db may repeat a delivery.

    def kill(self, node, kind, back_after=None):
        entry = self.ledger.fault(kind, node.name, "kill -9" + (f", back after {back_after} s" if back_after else ""))
        node.kill()
        if back_after is not None:
            time.sleep(back_after)
            node.start()
            node.wait_ready()
            self.ledger.healed(entry)
        return entry

    def cut_off(self, node, kind, seconds):
        entry = self.ledger.fault(kind, node.name, f"cut off from everybody for {seconds} s")
        self.network.cut_off(node.link, True)
        time.sleep(seconds)
        self.network.cut_off(node.link, False)
        self.ledger.healed(entry)

    def finish(self):
        """After everything has settled, before the sidecars end."""

    def close(self):
        if self.world is None:
            self.network.close()


class Rabbitmq(Scenario):
    """RabbitMQ, 3 nodes, quorum queues; one database. Each node is killed, then the leader of rung.failed; one is cut off
    for 30 s; all are restarted in turn."""
    seconds = 230

    def servers(self):
        databases = self.start_databases(1, "sid")
        databases[0].start()
        brokers = self.start_brokers(3)
        databases[0].wait_ready()
        return brokers, databases

    def steps(self):
        brokers = self.world.brokers
        return [(10 + 25 * i, lambda b=b: self.kill(b, "broker", 8)) for i, b in enumerate(brokers)] + [
            (90, self.kill_the_leader), (120, lambda: self.cut_off(brokers[1], "broker", 30)), (165, self.rolling_restart)]

    def kill_the_leader(self):
        address = self.leader_of("rung.failed")
        self.kill(next(b for b in self.world.brokers if b.address == address), "broker", 8)

    def leader_of(self, queue):
        """Its node's address, by the nodes' logs: rabbitmqctl needs a minute and more on a busy machine."""
        elected = []
        for broker in self.world.brokers:
            with open(broker.log_path(), errors="replace", encoding="utf-8") as log:
                text = log.read()
            of_queue = rf"queue '{re.escape(queue)}' in vhost '/': "
            elected += [(int(term), broker.address) for term in re.findall(of_queue + r"candidate -> leader in term: (\d+)", text)]
            elected += [(int(term), address) for address, term
                        in re.findall(of_queue + r"detected a new leader \{[^,]*,'rung@([^']+)'\} in term (\d+)", text)]
        if not elected:
            raise RuntimeError(f"no node's log names the leader of {queue}")
        return max(elected)[1]

    def rolling_restart(self):
        for broker in self.world.brokers:
            entry = self.ledger.fault("broker", broker.name, "restarted in an orderly way")
            broker.end()
            broker.start()
            broker.wait_ready()
            self.ledger.healed(entry)
            time.sleep(5)


def rows_of(database):
    """{number of the message: all that the database has of it}; of script.py's messages."""
    out = {}
    for view in ("retry_current", "retry_history"):
        for row in database.rows(f"SELECT * FROM {view} WHERE message_id LIKE 'm-%'", script.SCHEMA):
            out.setdefault(int(row["message_id"].split("-")[1]), set()).add(str(row))
    return out


class Replica(Scenario):
    """MySQL, primary and replica with GTID, semi-synchronous: the primary is killed, the replica promoted."""
    semi = True

    def servers(self):
        databases = self.start_databases(2, "sid", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-format=ROW")
        for database in databases:
            database.start()
        brokers = self.start_brokers(1)
        for database in databases:
            database.wait_ready()
        primary, replica = databases
        if self.semi:
            primary.run("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
                        "SET GLOBAL rpl_semi_sync_source_enabled = 1",
                        "SET GLOBAL rpl_semi_sync_source_timeout = 3600000")
            replica.run("INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'",
                        "SET GLOBAL rpl_semi_sync_replica_enabled = 1")
        replica.run(f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{primary.address}', SOURCE_USER = 'root', "
                    "SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1", "START REPLICA", "SET GLOBAL super_read_only = ON")
        if self.semi:
            wait_for(lambda: primary.rows("SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'")[0]["Value"] == "1",
                     "the semi-synchronous replica")
        return brokers, databases

    def steps(self):
        return [(20, self.fail_over)]

    def before_the_kill(self):
        pass

    def fail_over(self):
        primary, replica = self.world.databases
        self.before_the_kill()
        entry = self.kill(primary, "db")
        time.sleep(1)  # as long as it takes somebody to notice
        replica.run("STOP REPLICA IO_THREAD")
        wait_for(lambda: self.all_applied(replica), "the relay log is applied")
        self.as_replicated = rows_of(replica)
        replica.run("STOP REPLICA", "SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF")
        self.world.primary = replica
        self.ledger.healed(entry)

    @staticmethod
    def all_applied(replica):
        status = replica.rows("SHOW REPLICA STATUS")[0]
        received, executed = status["Retrieved_Gtid_Set"], status["Executed_Gtid_Set"]
        return replica.value(f"SELECT GTID_SUBSET('{received}', '{executed}') AS done") == 1


class Asynchronous(Replica):
    """The same, asynchronous, and the replica does not hear of the primary's last second: what is lost is what was not
    replicated, and nothing else."""
    semi = False

    def before_the_kill(self):
        self.world.databases[1].run("STOP REPLICA IO_THREAD")
        time.sleep(1)

    def finish(self):
        """The old primary is looked at, as what it was when it died."""
        old = self.world.databases[0]
        old.start("--skip-replica-start", "--super-read-only=ON")
        old.wait_ready()
        at_its_death = rows_of(old)
        self.not_replicated = {number for number, rows in at_its_death.items() if self.as_replicated.get(number) != rows}
        new = sum(1 for number in self.not_replicated if number not in self.as_replicated)
        self.more.append(f"  not replicated  what became of {len(self.not_replicated)} messages in the primary's last second; "
                         f"{new} of them were taken in then")

    not_replicated = frozenset()


class Group(Scenario):
    """MySQL Group Replication, single primary, 3 nodes: the primary is killed, another is elected."""

    def options_of(self, i, more):
        seeds = ",".join(f"10.77.{self.network.number}.{21 + k}:33061" for k in range(3))
        return [*more, f"--loose-group-replication-local-address=10.77.{self.network.number}.{21 + i}:33061",
                f"--loose-group-replication-group-seeds={seeds}", f"--report-host=10.77.{self.network.number}.{21 + i}"]

    def servers(self):
        databases = self.start_databases(
            3, "sid", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--plugin-load-add=group_replication.so",
            f"--loose-group-replication-group-name={uuid.uuid4()}", "--loose-group-replication-start-on-boot=OFF",
            "--loose-group-replication-recovery-get-public-key=ON", "--loose-group-replication-ip-allowlist=10.77.0.0/16")
        for database in databases:
            database.start()
        brokers = self.start_brokers(1)
        for database in databases:
            database.wait_ready()
        for i, database in enumerate(databases):
            statements = ["CHANGE REPLICATION SOURCE TO SOURCE_USER = 'root' FOR CHANNEL 'group_replication_recovery'",
                          "START GROUP_REPLICATION"]
            if i == 0:
                statements.insert(1, "SET GLOBAL group_replication_bootstrap_group = ON")
                statements.append("SET GLOBAL group_replication_bootstrap_group = OFF")
            database.run(*statements)
            wait_for(lambda n=i + 1: databases[0].value(
                "SELECT COUNT(*) AS n FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'") == n,
                f"{i + 1} members of the group", 120)
        return brokers, databases

    def steps(self):
        return [(20, self.fail_over)]

    def fail_over(self):
        entry = self.kill(self.world.primary, "db")
        killed = time.monotonic()
        left = [d for d in self.world.databases if d is not self.world.primary]
        elected = []

        def has_primary():
            for node in left:
                try:
                    if node.value("SELECT @@super_read_only AS r") == 0:
                        elected.append(node)
                        return True
                except (pymysql.Error, OSError):
                    pass
            return False
        wait_for(has_primary, "an election", 60)
        self.world.primary = elected[0]
        self.more.append(f"  elected         {elected[0].name} after {time.monotonic() - killed:.1f} s")
        self.ledger.healed(entry)


class Galera(Scenario):
    """MariaDB Galera, 3 nodes, one writer: the others are read_only, as a proxy that knows Galera would have it. The writer is
    killed, and the next one is made the writer."""

    def options_of(self, i, more):
        return [*more, f"--wsrep-node-address=10.77.{self.network.number}.{21 + i}", f"--wsrep-node-name=db{i + 1}",
                *(["--read-only=ON"] if i else [])]

    def servers(self):
        addresses = ",".join(f"10.77.{self.network.number}.{21 + k}" for k in range(3))
        databases = self.start_databases(
            3, "trixie", "--wsrep-on=ON", "--wsrep-provider=/usr/lib/galera/libgalera_smm.so",
            f"--wsrep-cluster-address=gcomm://{addresses}", "--wsrep-cluster-name=rung", "--wsrep-sst-method=rsync",
            "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--default-storage-engine=InnoDB")
        databases[0].start("--wsrep-new-cluster")
        brokers = self.start_brokers(1)
        databases[0].wait_ready()
        for i, database in enumerate(databases[1:], 2):
            database.start()
            database.wait_ready()
            wait_for(lambda n=i: databases[0].rows("SHOW STATUS LIKE 'wsrep_cluster_size'")[0]["Value"] == str(n),
                     f"{i} nodes of Galera", 120)
            wait_for(lambda d=database: d.rows("SHOW STATUS LIKE 'wsrep_local_state_comment'")[0]["Value"] == "Synced",
                     f"{database.name} in step", 120)
        return brokers, databases

    def steps(self):
        return [(20, self.fail_over)]

    def fail_over(self):
        entry = self.kill(self.world.databases[0], "db")
        following = self.world.databases[1]
        wait_for(lambda: following.rows("SHOW STATUS LIKE 'wsrep_cluster_size'")[0]["Value"] == "2"
                 and following.rows("SHOW STATUS LIKE 'wsrep_ready'")[0]["Value"] == "ON", "the rest of the cluster")
        following.run("SET GLOBAL read_only = OFF")
        self.world.primary = following
        self.ledger.healed(entry)


ALL = {"rabbitmq": Rabbitmq, "replica": Replica, "asynchronous": Asynchronous, "group": Group, "galera": Galera}


def away_times(world):
    """{what: ms, sorted} of all sidecars, by their logs."""
    out = {}
    for sidecar in world.sidecars:
        for what, ms in re.findall(r"(broker|database) (?:reconnected|available again).*?away_ms=(\d+)", sidecar.log()):
            out.setdefault(what, []).append(int(ms))
    return {what: sorted(times) for what, times in out.items()}
