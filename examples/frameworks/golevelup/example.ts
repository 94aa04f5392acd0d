// @golevelup/nestjs-rabbitmq with Rung. usage: node --import tsx example.ts [send [BODY]]; without `send` it consumes.
//
// Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
// two times. With "why": "HTTP 503" (and "after": "2s") the consumer says why, sets the delay, and reports the success.
import 'reflect-metadata';
import { AmqpConnection, MessageErrorHandler, RabbitMQModule, RabbitSubscribe, defaultNackErrorHandler } from '@golevelup/nestjs-rabbitmq';
import { Inject, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

const BROKER = process.env.RUNG_EXAMPLE_BROKER || 'amqp://guest:guest@127.0.0.1:5672/%2f';
const QUEUE = process.env.QUEUE || 'golevelup-orders';

interface Order { order: number; fails?: number; why?: string; after?: string }

// A failure with a reason, and optionally the time of the next attempt.
export class ShopError extends Error {
  constructor(text: string, readonly after?: string) { super(text); }
}

// Says why, by publishing to rung.failed with all properties and headers. Other errors: nack without requeue.
export const rungErrorHandler: MessageErrorHandler = async (channel, message, error) => {
  for (const m of Array.isArray(message) ? message : [message]) {
    if (!(error instanceof ShopError)) {
      await defaultNackErrorHandler(channel, m, error);
      continue;
    }
    const { exchange, routingKey } = m.fields;
    const origin = { 'retry-origin-exchange': exchange, 'retry-origin-routing-key': routingKey }; // a retry says that itself
    const why: Record<string, unknown> = { 'retry-queue': QUEUE, 'retry-error': error.message, 'retry-error-type': error.constructor.name };
    if (error.after) why['retry-after'] = error.after;
    // The broker refuses another user's id, and an expiration could run out in rung.failed.
    const { userId, expiration, headers, ...properties } = m.properties;
    // The library's channel is a confirm channel: ack when the broker has taken the copy.
    await new Promise<void>((resolve, reject) => (channel as any).publish('rung.failed', routingKey, m.content,
      { ...properties, persistent: true, headers: { ...origin, ...headers, ...why } }, (refused: unknown) => (refused ? reject(refused) : resolve())));
    channel.ack(m);
  }
};

@Injectable()
class Orders {
  constructor(@Inject(AmqpConnection) private readonly amqp: AmqpConnection) {}

  // The default errorBehavior is REQUEUE: the message would come back at once, for ever. Name a handler, or NACK.
  @RabbitSubscribe({ queue: QUEUE, queueOptions: { durable: true, deadLetterExchange: 'rung.failed' }, errorHandler: rungErrorHandler })
  async onOrder(order: Order, message: any, headers: Record<string, any> = {}) {
    const attempt = headers['retry-attempt'] ?? 0;
    const failing = attempt < (order.fails ?? 0);
    console.log(`attempt ${attempt} ${message.content} ${!failing ? 'done' : order.why ? `failed: ${order.why}` : 'rejected'}`);
    if (failing) throw order.why ? new ShopError(order.why, order.after) : new Error('failed');
    if (attempt && order.why) { // report the success; otherwise silence means success
      const result: Record<string, unknown> = { 'retry-result': 'succeeded' };
      for (const name of ['retry-id', 'retry-attempt', 'retry-token']) result[name] = headers[name];
      await this.amqp.publish('rung.results', '', '', { headers: result, persistent: true });
    }
  }
}

const sending = process.argv[2] === 'send';

@Module({
  imports: [RabbitMQModule.forRoot({ uri: BROKER, prefetchCount: 10, connectionInitOptions: { wait: true } })],
  providers: sending ? [] : [Orders],
})
class App {}

const app = await NestFactory.createApplicationContext(App, { logger: ['error'] });
if (sending) {
  const body = process.argv[3] ?? '{"order": 17, "fails": 2}';
  await app.get(AmqpConnection).publish('', QUEUE, Buffer.from(body), { messageId: `${QUEUE}-${JSON.parse(body).order}`, persistent: true });
  console.log('sent', body);
  await app.close();
}
