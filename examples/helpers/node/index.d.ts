import type { Channel, ChannelModel, ConsumeMessage } from 'amqplib';

/** Retries cannot succeed: Rung parks the message at once. `error.retryNever = true` does it for any error. */
export class GiveUp extends Error {
  readonly retryNever: true;
}

/** Retry after this time: '90s', or seconds. `error.retryAfter = ...` does it for any error. */
export class RetryLater extends Error {
  constructor(text: string, after: string | number, options?: { cause?: unknown });
  readonly retryAfter: string | number;
}

export interface RungOptions {
  /** Returns the connection to publish on. It is called again when the channel is gone. */
  connect: () => ChannelModel | Promise<ChannelModel>;
  /** broker.prefix of rung.yaml. Default: rung */
  prefix?: string;
  /** How long to wait before a message that could not be reported is requeued. Default: 1000 */
  pauseMs?: number;
  log?: Pick<Console, 'warn' | 'error'>;
}

export class Rung {
  constructor(options: RungOptions);
  /** For channel.consume(). The work returns: a success; it throws: a failure. Acks; the work must not. */
  consumer(channel: Pick<Channel, 'ack' | 'nack'>, queue: string, work: (message: ConsumeMessage) => unknown):
    (message: ConsumeMessage | null) => Promise<void>;
  /** Runs the work, reports how it ended, acks. Returns what the work returns, throws what it throws. */
  settle<T>(channel: Pick<Channel, 'ack' | 'nack'>, queue: string, message: ConsumeMessage,
    work: () => T | Promise<T>): Promise<T>;
  /** Closes the channel that it publishes on, not the connection. */
  close(): Promise<void>;
}

export type Headers = Record<string, unknown>;
/** How a message came: of ConsumeMessage, fields.exchange, fields.routingKey and properties.headers. */
export interface Delivery {
  exchange: string;
  routingKey: string;
  headers?: Headers;
}
/** The headers for rung.failed: all of the message, where it came from, and why it failed. Publish with the same routing key.
 *  returns: the exchanges by which Rung delivers; default: the default exchange and rung.return. */
export function failureHeaders(queue: string, delivery: Delivery, error: unknown, returns?: readonly string[]): Headers;
/** The headers for rung.results; undefined: not a delivery from Rung, nothing to report. */
export function successHeaders(headers: Headers | undefined): Headers | undefined;
/** The delay that the error asks for, as Rung reads it. */
export function retryAfter(error: unknown): string | undefined;
