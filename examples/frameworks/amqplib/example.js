// amqplib with Rung. usage: node example.js [send [BODY]]; without `send` it consumes.
//
// Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
// two times. With "why": "HTTP 503" (and "after": "2s") the consumer says why, sets the delay, and reports the success.
'use strict';
const amqp = require('amqplib');

const BROKER = process.env.RUNG_EXAMPLE_BROKER || 'amqp://guest:guest@127.0.0.1:5672/%2f';
const QUEUE = process.env.QUEUE || 'amqplib-orders';

// A failure with a reason, and optionally the time of the next attempt.
class ShopError extends Error {
  constructor(text, after) {
    super(text);
    this.after = after;
  }
}

// Your work.
async function handle(order, attempt) {
  if (attempt >= (order.fails ?? 0)) return;
  throw order.why ? new ShopError(order.why, order.after) : new Error('failed');
}

async function publish(channel, exchange, body, properties, routingKey = '') {
  channel.publish(exchange, routingKey, body, { ...properties, persistent: true });
  await channel.waitForConfirms(); // throws if the broker refuses it
}

async function onMessage(channel, message) {
  const headers = message.properties.headers ?? {};
  const attempt = headers['retry-attempt'] ?? 0;
  const order = JSON.parse(message.content);
  const said = `attempt ${attempt} ${message.content}`;
  try {
    await handle(order, attempt);
  } catch (error) {
    if (!(error instanceof ShopError)) {
      channel.nack(message, false, false); // no requeue: the broker dead-letters it to rung.failed
      console.log(`${said} rejected`);
      return;
    }
    // Say why, and where the message came from: all properties and headers, plus these. Ack after the confirm.
    const { exchange, routingKey } = message.fields;
    const origin = { 'retry-origin-exchange': exchange, 'retry-origin-routing-key': routingKey }; // a retry says that itself
    const why = { 'retry-queue': QUEUE, 'retry-error': error.message, 'retry-error-type': error.constructor.name };
    if (error.after) why['retry-after'] = error.after;
    // The broker refuses another user's id, and an expiration could run out in rung.failed.
    const { userId, expiration, ...properties } = message.properties;
    await publish(channel, 'rung.failed', message.content, { ...properties, headers: { ...origin, ...headers, ...why } }, routingKey);
    channel.ack(message);
    console.log(`${said} failed: ${error.message}`);
    return;
  }
  if (attempt && order.why) { // report the success; otherwise silence means success
    const result = { 'retry-result': 'succeeded' };
    for (const name of ['retry-id', 'retry-attempt', 'retry-token']) result[name] = headers[name];
    await publish(channel, 'rung.results', Buffer.alloc(0), { headers: result });
  }
  channel.ack(message);
  console.log(`${said} done`);
}

async function main() {
  const connection = await amqp.connect(BROKER);
  const channel = await connection.createConfirmChannel();
  await channel.prefetch(10);
  await channel.assertQueue(QUEUE, { durable: true, deadLetterExchange: 'rung.failed' });
  if (process.argv[2] === 'send') {
    const body = process.argv[3] ?? '{"order": 17, "fails": 2}';
    channel.sendToQueue(QUEUE, Buffer.from(body), { persistent: true, messageId: `${QUEUE}-${JSON.parse(body).order}` });
    await channel.waitForConfirms();
    console.log('sent', body);
    await connection.close();
    return;
  }
  await channel.consume(QUEUE, (message) => {
    if (message === null) throw new Error('the queue was deleted');
    onMessage(channel, message).catch((error) => { console.error(error); process.exit(1); });
  });
}

main().catch((error) => { console.error(error); process.exit(1); });
