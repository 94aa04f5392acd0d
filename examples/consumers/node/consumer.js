// A consumer with retries by Rung, in Node with amqplib.
//
// usage: npm install && node consumer.js [AMQP-URL [QUEUE]]    default: amqp://guest:guest@127.0.0.1:5672/%2f orders
//
// Bodies to try: "ok"; "busy 2" (succeeds from the second retry on); "broken" (never succeeds);
// "later" (the service sets the delay before the retry).
'use strict';
const amqp = require('amqplib');
const { Rung, RetryLater } = require('../../helpers/node'); // in your project: require('rung-retry')

const URL = process.argv[2] || 'amqp://guest:guest@127.0.0.1:5672/%2f';
const QUEUE = process.argv[3] || 'orders';
const done = new Set(); // stands for a table with a unique key, written in the same transaction as the work

// Your work: it returns, or throws. attempt: 0 = first delivery, 1 = first retry ...
async function work(body, attempt) {
  const [word, number] = body.toString().split(' ');
  if (word === 'busy' && attempt < Number(number)) throw new Error('the warehouse is busy');
  if (word === 'later' && attempt === 0) throw new RetryLater('the service is in maintenance', '2s');
  if (word === 'broken') throw new RangeError('no such customer');
}

async function onMessage(message) {
  if (message === null) process.exit(1); // the queue was deleted
  const headers = message.properties.headers || {};
  const attempt = headers['retry-attempt'] || 0;
  // A crash can repeat a delivery with the same key: the key tells whether the work is already done.
  const key = message.properties.messageId || headers['retry-id'];
  if (key === undefined || !done.has(key)) {
    await work(message.content, attempt);
    done.add(key);
  }
  console.log(`${key}: attempt ${attempt} done`);
}

async function main() {
  const connection = await amqp.connect(URL);
  const channel = await connection.createChannel();
  await channel.prefetch(1); // one at a time: two deliveries of one message must not pass done.has() together
  // This argument attaches a new queue; for an existing queue use a policy (README.md).
  await channel.assertQueue(QUEUE, { durable: true, deadLetterExchange: 'rung.failed' });
  // Reports an error to rung.failed, or the success of a retry to rung.results; then acks.
  const rung = new Rung({ connect: () => connection });
  await channel.consume(QUEUE, rung.consumer(channel, QUEUE, onMessage));
}

main().catch((error) => { console.error(error.message); process.exit(1); });
