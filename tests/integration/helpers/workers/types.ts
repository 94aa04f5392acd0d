// Compiled by tsc --strict, and not run: what the helpers' types allow and refuse.
import * as amqp from 'amqplib';
import { GiveUp, RetryLater, Rung, failureHeaders, retryAfter } from '../../../../examples/helpers/node';
import { RungInterceptor } from '../../../../examples/helpers/node/nestjs';

export async function consume(): Promise<void> {
  const connection = await amqp.connect('amqp://localhost');
  const channel = await connection.createChannel();
  const rung = new Rung({ connect: () => connection, prefix: 'rung' });
  await channel.consume('orders', rung.consumer(channel, 'orders', async (message) => {
    if (message.content.length === 0) throw new GiveUp('empty');
    throw new RetryLater('later', '30s');
  }));
  const after: string | undefined = retryAfter(new Error());
  const headers: Record<string, unknown> = failureHeaders('orders', { exchange: '', routingKey: 'orders' }, after);
  // @ts-expect-error: a duration is text or a number
  new RetryLater('later', { seconds: 3 });
  // @ts-expect-error: connect is missing
  new Rung({ prefix: 'rung' });
  new RungInterceptor({ connect: () => amqp.connect('amqp://localhost'), queue: 'orders' });
  // @ts-expect-error: the queue is missing
  new RungInterceptor({ connect: () => connection });
  void headers;
}
