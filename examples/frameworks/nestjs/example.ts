// NestJS' RabbitMQ transport with Rung. usage: node --import tsx example.ts [send [BODY]]; without `send` it consumes.
//
// Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
// two times. With "why": "HTTP 503" (and "after": "2s") the consumer says why, sets the delay, and reports the success.
import 'reflect-metadata';
import { CallHandler, Controller, ExecutionContext, Injectable, Module, NestInterceptor, UseInterceptors } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClientProxyFactory, Ctx, EventPattern, Payload, RmqContext, RmqRecordBuilder, Transport } from '@nestjs/microservices';
import { EMPTY, Observable, catchError, concatMap, from, lastValueFrom } from 'rxjs';

const BROKER = process.env.RUNG_EXAMPLE_BROKER || 'amqp://guest:guest@127.0.0.1:5672/%2f';
const QUEUE = process.env.QUEUE || 'nestjs-orders';
const queueOptions = { durable: true, arguments: { 'x-dead-letter-exchange': 'rung.failed' } };

interface Order { order: number; fails?: number; why?: string; after?: string }

// A failure with a reason, and optionally the time of the next attempt.
class ShopError extends Error {
  constructor(text: string, readonly after?: string) { super(text); }
}

// Nest's channel is a confirm channel: resolves when the broker has taken the message.
function publish(channel: any, exchange: string, body: Buffer, properties: object, routingKey = '') {
  return new Promise<void>((resolve, reject) => channel.publish(exchange, routingKey, body, { ...properties, persistent: true },
    (refused: unknown) => (refused ? reject(refused) : resolve())));
}

// Nest acks nothing by itself once noAck is false. This acks what succeeded, and gives what failed to Rung.
@Injectable()
class RungInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const rmq = context.switchToRpc().getContext<RmqContext>();
    return next.handle().pipe(
      concatMap(() => from(this.succeeded(rmq.getChannelRef(), rmq.getMessage(), context.switchToRpc().getData()))),
      catchError((error) => from(this.failed(rmq.getChannelRef(), rmq.getMessage(), error)).pipe(concatMap(() => EMPTY))),
    );
  }

  // Reports the success of a retry; without the report, silence means success.
  private async succeeded(channel: any, message: any, order: Order) {
    const headers = message.properties.headers;
    if (headers['retry-attempt'] && order.why) {
      const result: Record<string, unknown> = { 'retry-result': 'succeeded' };
      for (const name of ['retry-id', 'retry-attempt', 'retry-token']) result[name] = headers[name];
      await publish(channel, 'rung.results', Buffer.alloc(0), { headers: result });
    }
    channel.ack(message);
  }

  private async failed(channel: any, message: any, error: unknown) {
    if (!(error instanceof ShopError)) return channel.nack(message, false, false); // the broker dead-letters it to rung.failed
    const { exchange, routingKey } = message.fields;
    const origin = { 'retry-origin-exchange': exchange, 'retry-origin-routing-key': routingKey }; // a retry says that itself
    const why: Record<string, unknown> = { 'retry-queue': QUEUE, 'retry-error': error.message, 'retry-error-type': error.constructor.name };
    if (error.after) why['retry-after'] = error.after;
    // The broker refuses another user's id, and an expiration could run out in rung.failed.
    const { userId, expiration, headers, ...properties } = message.properties;
    await publish(channel, 'rung.failed', message.content, { ...properties, headers: { ...origin, ...headers, ...why } }, routingKey);
    channel.ack(message); // after the confirm
  }
}

@Controller()
@UseInterceptors(RungInterceptor)
class Orders {
  @EventPattern('order')
  onOrder(@Payload() order: Order, @Ctx() context: RmqContext) {
    const attempt = context.getMessage().properties.headers['retry-attempt'] ?? 0;
    const failing = attempt < (order.fails ?? 0);
    console.log(`attempt ${attempt} ${JSON.stringify(order)} ${!failing ? 'done' : order.why ? `failed: ${order.why}` : 'rejected'}`);
    if (failing) throw order.why ? new ShopError(order.why, order.after) : new Error('failed');
  }
}

@Module({ controllers: [Orders] })
class App {}

const transport = { urls: [BROKER], queue: QUEUE, queueOptions, noAck: false, prefetchCount: 10 };
if (process.argv[2] === 'send') {
  const order = JSON.parse(process.argv[3] ?? '{"order": 17, "fails": 2}');
  const client = ClientProxyFactory.create({ transport: Transport.RMQ, options: { ...transport, noAck: true } });
  const record = new RmqRecordBuilder(order).setOptions({ messageId: `${QUEUE}-${order.order}`, persistent: true }).build();
  await lastValueFrom(client.emit('order', record));
  console.log('sent', JSON.stringify(order));
  await client.close();
} else {
  const app = await NestFactory.createMicroservice(App, { transport: Transport.RMQ, options: transport, logger: ['error'] });
  await app.listen();
}
