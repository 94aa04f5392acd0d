// A consumer with retries by Rung, in Node with amqplib.
//
// usage: npm install && node consumer.js [AMQP-URL [QUEUE]]    default: amqp://guest:guest@127.0.0.1:5672/%2f orders
//
// Bodies to try: "ok"; "busy 2" (succeeds from the second retry on); "broken" (never succeeds);
// "later" (the service sets the delay before the retry).
'use strict';
const amqp = require('amqplib');

const URL = process.argv[2] || 'amqp://guest:guest@127.0.0.1:5672/%2f';
const QUEUE = process.argv[3] || 'orders';
const done = new Set(); // stands for a table with a unique key, written in the same transaction as the work

class Busy extends Error {} // a failure without an error to report

// A failure with an error, or with a time for the retry (retry-* headers for rung.failed).
class Failed extends Error {
  constructor(text, directives = {}) {
    super(text);
    this.headers = { 'retry-error': text, 'retry-error-type': 'Failed', ...directives };
  }
}

// Your work. attempt: 0 = first delivery, 1 = first retry ...
async function work(body, attempt) {
  const [word, number] = body.toString().split(' ');
  if (word === 'busy' && attempt < Number(number)) throw new Busy();
  if (word === 'later' && attempt === 0) throw new Failed('the service is in maintenance', { 'retry-after': '2s' });
  if (word === 'broken') throw new Failed('no such customer');
}

async function publish(channel, exchange, body, properties) {
  channel.publish(exchange, QUEUE, body, { ...properties, persistent: true });
  await channel.waitForConfirms(); // throws if the broker rejects it
}

async function onMessage(channel, message) {
  const headers = message.properties.headers || {};
  const attempt = headers['retry-attempt'] || 0;
  // A crash can repeat a delivery with the same key: the key tells whether the work is already done.
  const key = message.properties.messageId || headers['retry-id'];
  try {
    if (key === undefined || !done.has(key)) {
      await work(message.content, attempt);
      done.add(key);
    }
  } catch (error) {
    if (error instanceof Failed) {
      // 2. Publish it to rung.failed with the error. Forward all headers: retry-id and retry-attempt identify the task.
      //    Wait for the confirm, then ack.
      console.log(`${key}: attempt ${attempt} failed: ${error.message}`);
      const { userId, ...properties } = message.properties; // userId: the broker rejects it if it is not our user
      properties.headers = { ...headers, 'retry-queue': QUEUE, ...error.headers };
      await publish(channel, 'rung.failed', message.content, properties);
      channel.ack(message);
    } else {
      // 1. Reject: RabbitMQ dead-letters the message to rung.failed.
      console.log(`${key}: attempt ${attempt} rejected`);
      channel.reject(message, false);
    }
    return;
  }
  // 3. Report that a retry succeeded. Without the report, silence means success after `presumed_after`.
  console.log(`${key}: attempt ${attempt} done`);
  if (attempt > 0) {
    const result = { 'retry-result': 'succeeded' };
    for (const name of ['retry-id', 'retry-attempt', 'retry-token']) result[name] = headers[name]; // as received
    await publish(channel, 'rung.results', Buffer.alloc(0), { headers: result });
  }
  channel.ack(message);
}

async function main() {
  const connection = await amqp.connect(URL);
  const channel = await connection.createConfirmChannel();
  await channel.prefetch(1); // one at a time: two deliveries of one message must not pass done.has() together
  // This argument attaches a new queue; for an existing queue use a policy (README.md).
  await channel.assertQueue(QUEUE, { durable: true, deadLetterExchange: 'rung.failed' });
  await channel.consume(QUEUE, (message) => {
    if (message === null) process.exit(1); // the queue was deleted
    onMessage(channel, message).catch((error) => { console.error(error); process.exit(1); });
  });
}

main().catch((error) => { console.error(error.message); process.exit(1); });
