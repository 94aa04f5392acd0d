// rascal with Rung. usage: node example.js [send [BODY]]; without `send` it consumes.
//
// Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
// two times. With "why": "HTTP 503" (and "after": "2s") the consumer says why, sets the delay, and reports the success.
'use strict';
const { BrokerAsPromised, withDefaultConfig } = require('rascal');

const QUEUE = process.env.QUEUE || 'rascal-orders';
const url = new URL(process.env.RUNG_EXAMPLE_BROKER || 'amqp://guest:guest@127.0.0.1:5672/%2f');
const theirs = { type: 'fanout', assert: false, check: true }; // Rung's own: must be there, and is not declared by us

const config = withDefaultConfig({
  vhosts: {
    [decodeURIComponent(url.pathname.slice(1))]: {
      connection: { url: url.href },
      exchanges: { 'rung.failed': theirs, 'rung.results': theirs },
      queues: { [QUEUE]: { options: { arguments: { 'x-dead-letter-exchange': 'rung.failed' } } } },
      publications: {
        orders: { queue: QUEUE },
        failed: { exchange: 'rung.failed' },
        results: { exchange: 'rung.results' },
      },
      subscriptions: { orders: { queue: QUEUE, contentType: 'application/json', prefetch: 10 } },
    },
  },
});

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

// Publishes, and waits for the confirm.
async function publish(broker, publication, body, overrides) {
  const published = await broker.publish(publication, body, overrides);
  await new Promise((resolve, reject) => published.on('success', resolve).on('error', reject));
}

async function onMessage(broker, message, order, ackOrNack) {
  const headers = message.properties.headers;
  const attempt = headers['retry-attempt'] ?? 0;
  const said = `attempt ${attempt} ${message.content}`;
  try {
    await handle(order, attempt);
    if (attempt && order.why) { // report the success; otherwise silence means success
      const result = { 'retry-result': 'succeeded' };
      for (const name of ['retry-id', 'retry-attempt', 'retry-token']) result[name] = headers[name];
      await publish(broker, 'results', '', { options: { headers: result } });
    }
    ackOrNack();
    console.log(`${said} done`);
  } catch (error) {
    if (!(error instanceof ShopError)) {
      ackOrNack(error); // no recovery strategy: nack without requeue, and the broker dead-letters it to rung.failed
      console.log(`${said} rejected`);
      return;
    }
    // Say why: the strategy `forward` publishes the message with its headers and these, waits for the confirm, and acks.
    const why = { 'retry-queue': QUEUE, 'retry-error': error.message, 'retry-error-type': error.constructor.name };
    if (error.after) why['retry-after'] = error.after;
    // Where it came from, unless it is a retry, which says that itself. Rascal keeps the routing key.
    why['retry-origin-exchange'] = headers['retry-origin-exchange'] ?? message.fields.exchange;
    why['retry-origin-routing-key'] = headers['retry-origin-routing-key'] ?? message.fields.routingKey;
    delete message.properties.expiration; // it could run out in rung.failed
    ackOrNack(error, [{ strategy: 'forward', publication: 'failed', options: { options: { headers: why } } }]);
    console.log(`${said} failed: ${error.message}`);
  }
}

async function main() {
  const broker = await BrokerAsPromised.create(config);
  broker.on('error', (error) => console.error(error.message));
  if (process.argv[2] === 'send') {
    const body = process.argv[3] ?? '{"order": 17, "fails": 2}';
    const options = { messageId: `${QUEUE}-${JSON.parse(body).order}`, contentType: 'application/json' };
    await publish(broker, 'orders', Buffer.from(body), { options });
    console.log('sent', body);
    await broker.shutdown();
    return;
  }
  const subscription = await broker.subscribe('orders');
  subscription.on('message', (message, order, ackOrNack) => onMessage(broker, message, order, ackOrNack));
}

main().catch((error) => { console.error(error); process.exit(1); });
