"""The frameworks of tests/frameworks: what each needs, and how it is started."""
import dataclasses
import json
import subprocess

CONSUME = {"python": ["/usr/bin/python3", "-u", "example.py"], "node": ["node", "example.js"], "ts": ["node", "--import", "tsx", "example.ts"],
           "php": ["php", "example.php"], "ruby": ["ruby", "example.rb"], "go": ["./example"]}


@dataclasses.dataclass
class Framework:
    name: str
    what: str  # for --list
    language: str
    apt: list = dataclasses.field(default_factory=list)
    npm: str = ""  # the npm package whose version is printed
    example: str = ""  # its folder in examples/frameworks, if not the name
    consume: list = None
    send: list = None
    extra: list = dataclasses.field(default_factory=list)  # files of tests/frameworks.d that it needs
    env: dict = dataclasses.field(default_factory=dict)
    build: list = None
    queue: str = "{name}"  # Rung's name for the queue
    polls: bool = False  # it has no consumer: it asks for messages
    check: str = "ladder"  # the function of checks.py
    error_type: str = "ShopError"

    def __post_init__(self):
        self.example = self.example or self.name
        self.consume = self.consume or CONSUME[self.language]
        self.send = self.send or [*CONSUME[self.language], "send"]
        self.queue = self.queue.format(name=self.name)

    def version(self, folder):
        if self.npm:
            return json.loads((folder / "node_modules" / self.npm / "package.json").read_text())["version"]
        done = subprocess.run(["dpkg-query", "-W", "-f", "${source:Upstream-Version}", self.apt[0]], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout


CELERY = ["/usr/bin/python3", "-m", "celery", "-A"]
WORKER = ["worker", "--loglevel=WARNING", "--concurrency=1", "--without-gossip", "--without-mingle"]
TSX = CONSUME["ts"][:-1]
SYMFONY = ["php-symfony-amqp-messenger", "php-amqp", "php-cli", "php-symfony-event-dispatcher", "php-symfony-serializer"]

FRAMEWORKS = [
    Framework("celery", "Celery, failures rejected", "python", ["python3-celery"], consume=[*CELERY, "example", *WORKER]),
    Framework("celery-defaults", "Celery as it comes: failures are acked", "python", ["python3-celery"], example="celery",
              extra=["celery_defaults.py"], consume=[*CELERY, "celery_defaults", *WORKER], check="unseen"),
    Framework("pika", "pika", "python", ["python3-pika"]),
    Framework("kombu", "kombu", "python", ["python3-kombu"]),
    Framework("amqplib", "amqplib", "node", npm="amqplib"),
    Framework("rascal", "rascal", "node", npm="rascal"),
    Framework("nestjs", "NestJS, RabbitMQ transport", "ts", npm="@nestjs/microservices"),
    Framework("golevelup", "@golevelup/nestjs-rabbitmq", "ts", npm="@golevelup/nestjs-rabbitmq"),
    Framework("moleculer", "Moleculer with @moleculer/channels", "node", npm="@moleculer/channels", queue="shop.{name}"),
    Framework("bunny", "Bunny", "ruby", ["ruby-bunny"]),
    Framework("symfony", "Symfony Messenger, failures rejected", "php", SYMFONY, polls=True),
    Framework("go-amqp091", "Go, amqp091", "go", ["golang-github-rabbitmq-amqp091-go-dev", "golang-go"],
              env={"GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}, build=["go", "build", "-o", "example", "example.go"]),
    Framework("golevelup-defaults", "golevelup as it comes: failures are requeued", "ts", npm="@golevelup/nestjs-rabbitmq",
              example="golevelup", extra=["golevelup_defaults.ts"], consume=[*TSX, "golevelup_defaults.ts"], check="requeued"),
    Framework("nestjs-defaults", "NestJS as it comes: acked at delivery", "ts", npm="@nestjs/microservices",
              example="nestjs", extra=["nestjs_defaults.ts"], consume=[*TSX, "nestjs_defaults.ts"], check="unseen"),
    Framework("nestjs-noack-false", "NestJS, noAck: false, no nack: stays unacked", "ts", npm="@nestjs/microservices",
              example="nestjs", extra=["nestjs_defaults.ts"], consume=[*TSX, "nestjs_defaults.ts"], env={"NO_ACK": "false"}, check="held"),
    Framework("symfony-failure", "Symfony Messenger with a failure transport", "php", SYMFONY, example="symfony",
              polls=True, env={"FAILURE_TRANSPORT": "symfony-failure.failed"}, check="error_queue"),
]
