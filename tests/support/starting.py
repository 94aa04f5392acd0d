"""What Python's tests start: private servers, a place of one's own on given ones, programs; and waiting for what they do."""
import base64
import concurrent.futures
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVERS = ROOT / "tests/servers"
BUILD = pathlib.Path(os.environ.get("RUNG_TEST_BUILD") or ROOT / "build/dev").absolute()
PROGRAM = os.path.abspath(os.environ.get("RUNG_PROGRAM") or BUILD / "rung")
BOUND_SECONDS = 120  # for anything that is waited for
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
# The kernel means the thread that started the process when it says "parent": this one lives as long as ours.
STARTER = concurrent.futures.ThreadPoolExecutor(1, "starter")


def until(what, condition, seconds=None, told=lambda: "", away=()):
    """What the condition finds. `told`: more, for the error. `away`: exceptions that mean "not yet"."""
    seconds = seconds or BOUND_SECONDS
    deadline = time.monotonic() + seconds
    while True:
        error = None
        try:
            if found := condition():
                return found
        except away as why:
            error = why
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}\n{told()}") from error
        time.sleep(0.05)


def free_port():
    """Below the ports that the kernel gives to clients, so that it is still free after a restart."""
    while True:
        port = random.SystemRandom().randrange(24000, 32000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def start(command, log, **more):
    """A process that ends with this one. `log`: a path, appended to."""
    with open(log, "ab") as out:
        return STARTER.submit(subprocess.Popen, command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                              preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), **more).result()


def end(process, seconds=BOUND_SECONDS):
    """Its exit code."""
    process.terminate()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


NPM_CI = ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--fetch-retries=2",
          "--fetch-retry-maxtimeout=10000", "--fetch-timeout=60000"]
# As npm names them. A package that is missing, or is not what the lock file says, is an error of ours.
NPM_AWAY = re.compile("code (E(AI_AGAIN|NOTFOUND|NETUNREACH|HOSTUNREACH|CONN[A-Z]+|TIMEDOUT|SOCKETTIMEDOUT|429|5[0-9]{2})"
                      "|ERR_SOCKET_TIMEOUT|FETCH_ERROR)")


class Unavailable(Exception):
    """npm's registry does not answer, or there is no Node.js: nothing can be tested."""


def npm_modules(folder, name):
    """A folder with the node_modules that the lock file of `folder` names, installed once. `name`: of its cache."""
    if not (shutil.which("node") and shutil.which("npm")):
        raise Unavailable("Node.js or npm is missing: tests/packages openapi")
    lock = (folder / "package-lock.json").read_bytes()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    found = pathlib.Path(home) / "rung" / f"{name}-{hashlib.sha256(lock).hexdigest()[:16]}"
    if found.exists():
        return found
    found.parent.mkdir(parents=True, exist_ok=True)
    # Two runs at once don't meet, and an install that is cut off leaves nothing that looks whole.
    new = pathlib.Path(tempfile.mkdtemp(prefix=found.name, dir=found.parent))
    try:
        for one in ("package.json", "package-lock.json"):
            shutil.copy(folder / one, new)
        done = subprocess.run(NPM_CI, cwd=new, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0 and NPM_AWAY.search(done.stdout):
            raise Unavailable("npm's registry did not answer")
        if done.returncode != 0:
            raise RuntimeError(f"npm could not install {name}: {done.stdout[-500:]}")
        if not found.exists():
            new.rename(found)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return found


class Servers:
    """A RabbitMQ and a MariaDB or MySQL of this run alone: those that RUNG_BROKER_ROOT and RUNG_DB_ROOT name
    (tests/servers --help), else the system's. They end with this process. No terminal's Ctrl-C reaches them."""

    def __init__(self, folder, *options, quiet=False):
        self.folder, self.quiet = pathlib.Path(folder), quiet
        try:
            self._run("start", *options, "--owner-pid", str(os.getpid()))
        except BaseException:
            self.stop()
            raise
        self.env = dict(re.findall(r"(RUNG_TEST_\w+)=(\S+)", (self.folder / "env").read_text()))
        self.amqp, self.mysql = self.env["RUNG_TEST_AMQP"], self.env["RUNG_TEST_MYSQL"]
        self.broker_port, self.db_port = (urllib.parse.urlsplit(url).port for url in (self.amqp, self.mysql))
        self.rabbitmqctl = self.env["RUNG_TEST_RABBITMQCTL"]

    def _run(self, command, *options, check=True, env=None):
        done = subprocess.run([SERVERS, command, self.folder, *options], check=False, env=env, start_new_session=True, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE if self.quiet else None)
        if check and done.returncode != 0:
            raise RuntimeError(f"tests/servers {command} exited {done.returncode}: {(done.stderr or '')[-2000:]}")

    def control(self, command, env=None):
        """kill-db, start-db, kill-broker, start-broker."""
        self._run(command, env=env)

    def stop(self):
        self._run("stop", check=False)


def admin(method, path, body=None, url=None):
    """By the management API: rabbitmqctl starts an Erlang for each call, seconds on a busy machine."""
    request = urllib.request.Request(f"{url or os.environ['RUNG_TEST_MANAGEMENT']}/api/{path}",
                                     None if method == "GET" else json.dumps(body or {}).encode(),
                                     {"Content-Type": "application/json"}, method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    with urllib.request.urlopen(request, timeout=BOUND_SECONDS) as answer:
        return json.loads(answer.read() or b"null")


class Place(contextlib.ExitStack):
    """A vhost, a schema and a folder of one's own on the servers of RUNG_TEST_*. close() removes them, and ends what was
    started. `cursor`: pymysql's class, if not that of dictionaries."""

    def __init__(self, name, cursor=None):
        super().__init__()
        import pymysql  # what needs no database needs no package
        self.name = f"{name}_{os.getpid()}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"rung-{name.replace('_', '-')}."))
        self.callback(shutil.rmtree, self.folder)
        admin("PUT", f"vhosts/{self.name}")
        self.callback(admin, "DELETE", f"vhosts/{self.name}")
        admin("PUT", f"permissions/{self.name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        self.amqp = os.environ["RUNG_TEST_AMQP"].replace("%2f", self.name)
        self.mysql = f"{os.environ['RUNG_TEST_MYSQL']}/{self.name}"
        url = urllib.parse.urlsplit(self.mysql)
        self.db = pymysql.connect(host=url.hostname, port=url.port, user=url.username, autocommit=True,
                                  cursorclass=cursor or pymysql.cursors.DictCursor)
        self.callback(self.db.close)
        self.sql(f"CREATE DATABASE {self.name}")
        self.callback(self.sql, f"DROP DATABASE IF EXISTS {self.name}")
        self.sql(f"USE {self.name}")
        self.config, self.log = self.folder / "rung.yaml", self.folder / "rung.log"

    def sql(self, text, *values):
        with self.db.cursor() as cursor:
            cursor.execute(text, values or None)
            return list(cursor.fetchall())

    def write_config(self, broker="", more=""):
        """`broker`: further keys of it, with a comma before them."""
        self.config.touch(mode=0o600)
        self.config.write_text(f'broker: {{ url: "{self.amqp}"{broker} }}\nstore: {{ url: "{self.mysql}" }}\n'
                               f"node: {self.name}\n{more}\n")

    def start(self, command, log="rung.log", **more):
        process = start(command, self.folder / log, **more)
        self.callback(end, process)
        return process

    def start_rung(self):
        """`rung run`, until `rung stats` is content."""
        process = self.start([PROGRAM, "run", "-c", self.config])
        until("the sidecar stands", lambda: subprocess.run([PROGRAM, "stats", "-c", self.config], stdout=subprocess.DEVNULL,
                                                           stderr=subprocess.DEVNULL, check=False).returncode == 0,
              told=self.logs)
        return process

    def logs(self):
        return "".join(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}" for log in self.folder.glob("*.log"))
