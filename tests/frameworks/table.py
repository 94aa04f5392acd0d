"""The frameworks of frameworks_test.py, and how each is started."""
import dataclasses

CONSUME = {"python": ["/usr/bin/python3", "-u", "example.py"], "node": ["node", "example.js"], "ts": ["node", "--import", "tsx", "example.ts"],
           "php": ["php", "example.php"], "ruby": ["ruby", "example.rb"], "go": ["./example"]}


@dataclasses.dataclass
class Framework:
    name: str
    what: str
    language: str
    npm: bool = False
    example: str = ""  # its folder in examples/frameworks, if not the name
    consume: list = None
    send: list = None
    extra: list = dataclasses.field(default_factory=list)  # files of this folder that it needs
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


CELERY = ["/usr/bin/python3", "-m", "celery", "-A"]
WORKER = ["worker", "--loglevel=WARNING", "--concurrency=1", "--without-gossip", "--without-mingle"]
TSX = CONSUME["ts"][:-1]

FRAMEWORKS = [
    Framework("celery", "Celery, failures rejected", "python", consume=[*CELERY, "example", *WORKER]),
    Framework("celery-defaults", "Celery as it comes: failures are acked", "python", example="celery",
              extra=["celery_defaults.py"], consume=[*CELERY, "celery_defaults", *WORKER], check="unseen"),
    Framework("pika", "pika", "python"),
    Framework("kombu", "kombu", "python"),
    Framework("amqplib", "amqplib", "node", npm=True),
    Framework("rascal", "rascal", "node", npm=True),
    Framework("nestjs", "NestJS, RabbitMQ transport", "ts", npm=True),
    Framework("golevelup", "@golevelup/nestjs-rabbitmq", "ts", npm=True),
    Framework("moleculer", "Moleculer with @moleculer/channels", "node", npm=True, queue="shop.{name}"),
    Framework("bunny", "Bunny", "ruby"),
    Framework("symfony", "Symfony Messenger, failures rejected", "php", polls=True),
    Framework("go-amqp091", "Go, amqp091", "go",
              env={"GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}, build=["go", "build", "-o", "example", "example.go"]),
    Framework("golevelup-defaults", "golevelup as it comes: failures are requeued", "ts", npm=True,
              example="golevelup", extra=["golevelup_defaults.ts"], consume=[*TSX, "golevelup_defaults.ts"], check="requeued"),
    Framework("nestjs-defaults", "NestJS as it comes: acked at delivery", "ts", npm=True,
              example="nestjs", extra=["nestjs_defaults.ts"], consume=[*TSX, "nestjs_defaults.ts"], check="unseen"),
    Framework("nestjs-noack-false", "NestJS, noAck: false, no nack: stays unacked", "ts", npm=True,
              example="nestjs", extra=["nestjs_defaults.ts"], consume=[*TSX, "nestjs_defaults.ts"], env={"NO_ACK": "false"}, check="held"),
    Framework("symfony-failure", "Symfony Messenger with a failure transport", "php", example="symfony",
              polls=True, env={"FAILURE_TRANSPORT": "symfony-failure.failed"}, check="error_queue"),
]
