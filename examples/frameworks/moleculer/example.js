// @moleculer/channels with Rung. usage: node example.js [send [BODY]]; without `send` it consumes.
//
// Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
// two times. With "why": "HTTP 503" (and "after": "2s") the consumer says why, sets the delay, and reports the success.
'use strict';
const { ServiceBroker } = require('moleculer');
const { Middleware } = require('@moleculer/channels');

const BROKER = process.env.RUNG_EXAMPLE_BROKER || 'amqp://guest:guest@127.0.0.1:5672/%2f';
const CHANNEL = process.env.QUEUE || 'moleculer-orders'; // the queue is GROUP.CHANNEL: shop.moleculer-orders

// A failure with a reason, and optionally the time of the next attempt.
class ShopError extends Error {
  constructor(text, after) {
    super(text);
    this.after = after;
  }
}

const broker = new ServiceBroker({
  nodeID: `example-${process.pid}`,
  logger: { type: 'Console', options: { level: 'fatal' } },
  middlewares: [Middleware({
    adapter: {
      type: 'AMQP',
      options: {
        amqp: {
          url: BROKER,
          queueOptions: { arguments: { 'x-dead-letter-exchange': 'rung.failed' } },
          messageOptions: { persistent: true },
        },
        maxRetries: 0, // no retries of its own: they would go back at once, and lose all properties but the headers
        deadLettering: { enabled: false }, // its own dead letters lose all headers, and with them the retry-id
      },
    },
  })],
});

// Publishes on a confirm channel, which the adapter's own is not, and waits for the confirm.
const confirmed = new WeakMap(); // by connection: the adapter opens a new one when it reconnects
async function publish(exchange, body, properties, routingKey = '') {
  const { connection } = broker.channelAdapter;
  if (!confirmed.has(connection)) confirmed.set(connection, connection.createConfirmChannel());
  const channel = await confirmed.get(connection);
  await new Promise((resolve, reject) => channel.publish(exchange, routingKey, body,
    { ...properties, persistent: true }, (refused) => (refused ? reject(refused) : resolve())));
}

// Wraps a handler: says why, and reports the success.
function withRung(handler) {
  return async (order, message) => {
    // The broker refuses another user's id, and an expiration could run out in rung.failed.
    const { userId, expiration, ...properties } = message.properties;
    const headers = properties.headers ?? {};
    const attempt = headers['retry-attempt'] ?? 0;
    try {
      await handler(order, attempt, message.content);
    } catch (error) {
      if (!(error instanceof ShopError)) throw error; // nack without requeue: the broker dead-letters it to rung.failed
      const { exchange, routingKey } = message.fields;
      const origin = { 'retry-origin-exchange': exchange, 'retry-origin-routing-key': routingKey }; // a retry says that itself
      const why = { 'retry-queue': `shop.${CHANNEL}`, 'retry-error': error.message, 'retry-error-type': error.constructor.name };
      if (error.after) why['retry-after'] = error.after;
      await publish('rung.failed', message.content, { ...properties, headers: { ...origin, ...headers, ...why } }, routingKey);
      return; // acked
    }
    if (attempt && order.why) { // otherwise silence means success
      const result = { 'retry-result': 'succeeded' };
      for (const name of ['retry-id', 'retry-attempt', 'retry-token']) result[name] = headers[name];
      await publish('rung.results', Buffer.alloc(0), { headers: result });
    }
  };
}

if (process.argv[2] !== 'send') {
  broker.createService({
    name: 'shop',
    channels: {
      [CHANNEL]: {
        group: 'shop',
        handler: withRung(async (order, attempt, body) => { // your work
          const failing = attempt < (order.fails ?? 0);
          console.log(`attempt ${attempt} ${body} ${!failing ? 'done' : order.why ? `failed: ${order.why}` : 'rejected'}`);
          if (failing) throw order.why ? new ShopError(order.why, order.after) : new Error('failed');
        }),
      },
    },
  });
}

broker.start().then(async () => {
  if (process.argv[2] !== 'send') return;
  const order = JSON.parse(process.argv[3] ?? '{"order": 17, "fails": 2}');
  await broker.sendToChannel(CHANNEL, order, { publishAssertExchange: { enabled: true, exchangeOptions: { durable: true } } });
  console.log('sent', JSON.stringify(order));
  await broker.stop();
});
