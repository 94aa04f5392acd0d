"""RabbitMQ 4.3 cancels a consumer that keeps a message unacked for too long: Rung's own consumes again, and loses nothing.

RabbitMQ 4.3 or newer.
"""
import urllib.parse

import pika
import pymysql

import servers


class ConsumerTimeout(servers.Sidecar):
    queue_type = "quorum"

    @classmethod
    def before_start(cls):
        servers.admin("PUT", f"policies/{cls.name}/timeout", {
            "pattern": "^rung\\.failed$", "definition": {"consumer-timeout": 1000}, "apply-to": "queues"})

    def test_intake_goes_on(self):
        channel = pika.BlockingConnection(pika.URLParameters(self.amqp)).channel()
        for n in range(5):
            self.publish(channel, f"before-{n}")
        self.until(lambda: self.known() == 5, "what comes in is stored")
        url = urllib.parse.urlsplit(servers.os.environ["RUNG_TEST_MYSQL"])
        blocker = pymysql.connect(host=url.hostname, port=url.port, user=url.username, database=self.name)
        self.addCleanup(blocker.close)
        before = self.cancelled()
        with blocker.cursor() as cursor:
            cursor.execute("LOCK TABLES rung_tasks WRITE")
            for n in range(5):
                self.publish(channel, f"during-{n}")
            try:
                servers.until("the broker cancels our consumer, again and again",
                              lambda: self.poked(channel) and self.cancelled() > before + 2, told=self.log.read_text)
            finally:
                cursor.execute("UNLOCK TABLES")
        self.publish(channel, "after")
        self.until(lambda: self.known() == 12, "everything is stored")
        self.until(lambda: channel.queue_declare("rung.failed", passive=True).method.consumer_count == 1, "it consumes")
        self.until(lambda: servers.admin("GET", f"queues/{self.name}/rung.failed").get("messages") == 0, "all is acked")
        self.assertEqual(self.count("message_id NOT IN ('', 'poke')"), 11, "each once, however often it came")
        self.assertNotIn("broker unavailable", self.log.read_text(), "on the connection that stood all the while")

    def poked(self, channel):
        """4.3.6 looks for time-outs when something happens in the queue, at times not before."""
        self.publish(channel, "poke")
        return True

    def publish(self, channel, name):
        channel.basic_publish("rung.failed", "", b"body", pika.BasicProperties(
            message_id=name, delivery_mode=2, headers={"retry-queue": "elsewhere", "retry-never": True}))

    def known(self):
        return self.sql("SELECT COUNT(DISTINCT message_id) n FROM retry_current WHERE message_id <> ''")[0]["n"]

    def count(self, condition):
        return self.sql(f"SELECT COUNT(*) n FROM retry_current WHERE {condition}")[0]["n"]

    def cancelled(self):
        """Not as a queue that had to be declared again: a basic.cancel doesn't say why, but the queue is as it was."""
        self.assertNotIn('missing="queue rung.failed"', self.log.read_text())
        return self.log.read_text().count('missing="consumer of queue rung.failed"')
