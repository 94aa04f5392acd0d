"""Runs the commands of docs/backup.md against a server of its own, with two sidecars and traffic: what was in the backup is
there after the restore, a restore to a point in time has everything up to that time, and the sidecars finish it all.

MariaDB, or with RUNG_DB_ROOT the MySQL of another root folder (tests/servers --help)."""
import os
import re
import shutil
import subprocess
import time
import unittest

from machinery import ROOT, Node, Servers, until
from starting import PROGRAM
from traffic import CONFIG, QUEUE, Traffic

HERE = os.path.dirname(os.path.realpath(__file__))
TESTS = os.path.dirname(os.path.dirname(HERE))
DATABASE = "rung"
LADDER = "[1s, 2s, 3s, 3s, 3s, 3s]"  # a failure of a task that the restore took back may skip levels
PROGRAMS = ("mysql", "mysqldump", "mysqlbinlog")  # of MySQL's root folder


def blocks() -> dict[tuple[str, str], str]:
    """The code blocks of docs/backup.md that say what they are: ```sh SERVER NAME."""
    with open(f"{ROOT}/docs/backup.md", encoding="utf-8") as file:
        found = re.findall(r"^( *)```sh (\w+) ([\w-]+)\n(.*?)^ *```$", file.read(), re.M | re.S)
    return {(server, name): re.sub(f"^{indent}", "", text, flags=re.M) for indent, server, name, text in found}


class Backup(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["RUNG_DB_OPTIONS"] = os.environ.get("RUNG_DB_OPTIONS", "") + " --log-bin=binlog --server-id=1"
        cls.servers = Servers()
        cls.addClassCleanup(cls.end)
        cls.servers.mysql = cls.servers.mysql.replace("/rung_bench", f"/{DATABASE}")
        (version,), = cls.servers.rows("SELECT VERSION()")
        cls.kind = "mariadb" if "MariaDB" in version else "mysql"
        cls.blocks, cls.ran = blocks(), set()
        cls.make_environment()
        for number in (1, 2):
            Node(cls.servers, number, more=CONFIG + "lease: 5s\ndrain: 3s\n", ladder=LADDER, binary=PROGRAM)
        cls.run_block("start")
        until("both sidecars run", lambda: cls.servers.rows("SHOW DATABASES LIKE %s", DATABASE) and cls.balanced())
        cls.servers.rows(f"USE {DATABASE}")
        cls.traffic = Traffic(cls.servers, 30)
        cls.traffic.begin()

    @classmethod
    def make_environment(cls):
        """What the commands of the page expect: an administrator's login in ~/.my.cnf, programs on the PATH, variables."""
        folder = cls.servers.dir
        home, programs = f"{folder}/home", f"{folder}/programs"
        os.makedirs(home)
        os.makedirs(programs)
        with open(f"{home}/.my.cnf", "w", encoding="utf-8") as file:
            file.write(f"[client]\nhost=127.0.0.1\nport={cls.servers.port}\nuser=root\n")
        shutil.copy(f"{HERE}/systemctl", f"{programs}/systemctl")
        if root := os.environ.get("RUNG_DB_ROOT"):
            for name in PROGRAMS:
                with open(f"{programs}/{name}", "w", encoding="utf-8") as file:
                    file.write(f'#!/bin/sh\nexec {TESTS}/in_root {root} {folder} /usr/bin/{name} "$@"\n')
                os.chmod(f"{programs}/{name}", 0o755)
        with open(f"{folder}/env", encoding="utf-8") as file:
            (sql,) = re.findall(r"RUNG_TEST_SQL=(\S+)", file.read())
        cls.env = dict(os.environ, HOME=home, PATH=f"{programs}:{os.environ['PATH']}", SERVERS=folder, RUNG=PROGRAM,
                       SERVERS_SCRIPT=f"{TESTS}/servers", RUNG_TEST_SQL=sql, BACKUP=f"{folder}/copy",
                       DATADIR=f"{folder}/db/data", BINLOGS=f"{folder}/db/data")

    @classmethod
    def end(cls):
        try:
            cls.traffic.ending.set()
            subprocess.run([f"{cls.servers.dir}/programs/systemctl", "stop", "rung"], env=cls.env, check=False, timeout=300)
        finally:
            cls.servers.stop()

    @classmethod
    def balanced(cls):
        try:
            held = cls.servers.rows(f"SELECT owner FROM {DATABASE}.rung_shards WHERE expires_at > UTC_TIMESTAMP(3)")
        except Exception:  # pylint: disable=broad-except
            return False  # the schema is being made
        return len(held) == 64 and len(set(held)) == 2

    @classmethod
    def run_block(cls, name, **variables):
        key = next(key for key in ((cls.kind, name), ("both", name)) if key in cls.blocks)
        cls.ran.add(key)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", cls.blocks[key]], cwd=cls.servers.dir, check=False,
                              env=cls.env | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(f"docs/backup.md, {key}: exit code {done.returncode}\n{done.stdout[-2000:]}")

    def ids(self):
        """The message-ids of all tasks."""
        return {row[0] for row in self.servers.rows(f"SELECT message_id FROM {DATABASE}.rung_tasks")}

    def flow(self, count=100):
        """The consumer gets that many deliveries."""
        self.traffic.wait(count)
        self.assertEqual(self.traffic.errors, [])

    def expect_whole(self):
        """Each task has its body and its last attempt. A claim may be in the attempts alone until its confirm, and what was
        answered while a restored row was behind skips attempts."""
        broken = self.servers.rows(
            f"SELECT t.id, t.state, t.attempt, b.task_id, GROUP_CONCAT(a.attempt ORDER BY a.attempt) "
            f"FROM {DATABASE}.rung_tasks t LEFT JOIN {DATABASE}.rung_bodies b ON b.task_id = t.id "
            f"LEFT JOIN {DATABASE}.rung_attempts a ON a.task_id = t.id GROUP BY t.id, t.state, t.attempt, b.task_id "
            "HAVING b.task_id IS NULL OR COALESCE(MAX(a.attempt), 0) NOT IN (t.attempt, t.attempt + 1) "
            "OR t.attempt > 0 AND NOT COALESCE(MAX(a.attempt = t.attempt), 0)")
        self.assertEqual(broken, [])

    def expect_finished(self, restored):
        """Each of these has one task, which comes to its end."""
        def unfinished():
            return [row for row in self.servers.rows(
                f"SELECT message_id, state, attempt, level, next_due_at, last_error FROM {DATABASE}.rung_tasks WHERE queue = %s "
                "AND state <> 'succeeded'", QUEUE) if row[0] in restored]
        try:
            until("the restored tasks have succeeded", lambda: self.traffic.errors or not unfinished())
        except SystemExit as error:
            raise AssertionError(f"{error}: {unfinished()[:10]}") from error
        self.assertEqual(self.traffic.errors, [])
        self.assertEqual(restored - self.ids(), set())
        twice = self.servers.rows(f"SELECT message_id FROM {DATABASE}.rung_tasks WHERE queue = %s GROUP BY message_id "
                                  "HAVING COUNT(*) > 1", QUEUE)
        self.assertEqual([row[0] for row in twice if row[0] in restored], [])

    def test_1_dump_and_point_in_time(self):
        self.flow()
        dumped = self.ids()
        self.run_block("dump")
        self.flow()
        kept = self.ids()
        (now,), = self.servers.rows("SELECT UNIX_TIMESTAMP()")
        stop = int(now) + 1  # what is in `kept` was committed before this second
        until("the accident's second", lambda: int(self.servers.rows("SELECT UNIX_TIMESTAMP()")[0][0]) > stop + 1)
        self.flow()
        lost = self.ids() - kept
        self.servers.rows(f"DROP DATABASE {DATABASE}")
        self.flow(20)  # deliveries that were under way; the sidecars wait for their tables

        self.run_block("stop")
        self.run_block("import")
        self.assertEqual(dumped - self.ids(), set(), "a task that was in the backup is missing")
        after_dump = kept - self.ids()
        self.assertTrue(after_dump, "nothing was taken in after the dump: nothing for the binary log to restore")
        self.run_block("replay", STOP=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stop)))
        replayed = self.ids()
        self.assertEqual(kept - replayed, set(), "a task from before the point in time is missing")
        self.assertTrue(lost - replayed, "the replay did not stop at the time")
        (newest,), = self.servers.rows(f"SELECT UNIX_TIMESTAMP(MAX(created_at)) FROM {DATABASE}.rung_tasks")
        self.assertLess(float(newest), stop)
        self.expect_whole()
        self.run_block("start")
        self.flow()
        self.expect_finished(replayed)
        print(f"dump: {len(dumped)} tasks; binary log: {len(replayed) - len(dumped)} more up to the time; "
              f"{len(lost - replayed)} after it", flush=True)

    def test_2_physical_copy(self):
        self.flow()
        copied = self.ids()
        self.run_block("physical")
        self.flow()
        self.servers.rows(f"DROP DATABASE {DATABASE}")
        self.servers.db.close()
        self.servers.db = None
        self.run_block("physical-restore")
        restored = self.ids()
        self.assertEqual(copied - restored, set(), "a task that was in the backup is missing")
        self.expect_whole()
        self.flow()
        self.expect_finished(restored)
        print(f"physical copy: {len(restored)} tasks", flush=True)

    def test_3_each_block_of_this_server_was_run(self):
        self.assertEqual({key for key in self.blocks if key[0] in (self.kind, "both")} - self.ran, set())

