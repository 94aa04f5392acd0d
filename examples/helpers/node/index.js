// What a consumer reports to Rung, and amqplib: channel.consume('orders', rung.consumer(channel, 'orders', work)).
'use strict';
const os = require('node:os');

const TEXT_BYTES = 8 * 1024, ERROR_BYTES = 16 * 1024; // Rung keeps 16 KiB
const CONFIRM_MS = 30_000;
const ORIGIN_EXCHANGE = 'retry-origin-exchange', ORIGIN_KEY = 'retry-origin-routing-key';

// Retries cannot succeed: Rung parks the message at once. `error.retryNever = true` does it for any error.
class GiveUp extends Error {
  retryNever = true;
}

// Retry after this time: '90s', or seconds. `error.retryAfter = ...` does it for any error.
class RetryLater extends Error {
  constructor(text, after, options) {
    super(text, options);
    this.retryAfter = after;
  }
}

class Rung {
  #channel; // where we publish: a channel of its own, because a refusal closes it

  // connect: returns an amqplib connection, or a promise of one. It is called again when the channel is gone.
  // prefix: broker.prefix of rung.yaml. pauseMs: before a message that could not be reported is requeued.
  constructor({ connect, prefix = 'rung', pauseMs = 1000, log = console }) {
    Object.assign(this, { connect, failed: `${prefix}.failed`, results: `${prefix}.results`, pauseMs, log,
      returns: ['', `${prefix}.return`] });
  }

  // For channel.consume(). The work returns: a success; it throws: a failure. Acks; the work must not.
  consumer(channel, queue, work) {
    return async (message) => {
      if (message === null) return work(null); // the broker cancelled the consumer
      await this.settle(channel, queue, message, () => work(message))
        .catch(() => undefined); // a failure is reported; without our channel, the message is requeued
    };
  }

  // Runs the work, reports how it ended, acks. Returns what the work returns, throws what it throws.
  async settle(channel, queue, message, work) {
    let value;
    try {
      value = await work();
    } catch (error) {
      this.log.warn(`${queue}: ${nameOf(error)}: ${textOf(error)}`);
      // userId: the broker refuses one that is not our user. expiration: it would run out in rung.failed.
      const { userId, expiration, deliveryMode, clusterId, ...properties } = message.properties;
      const { exchange, routingKey } = message.fields;
      const headers = failureHeaders(queue, { exchange, routingKey, headers: properties.headers }, error, this.returns);
      try {
        await this.#publish(this.failed, routingKey, message.content, { ...properties, headers });
      } catch (refused) {
        this.log.error(`${this.failed} refused a failed message, it is requeued: ${textOf(refused)}`);
        await new Promise((resolve) => setTimeout(resolve, this.pauseMs));
        channel.nack(message, false, true);
        throw error;
      }
      channel.ack(message); // last: a crash before it repeats the delivery
      throw error;
    }
    const headers = successHeaders(message.properties.headers);
    if (headers) {
      // If it fails: Rung has the row, and takes silence as the queue's settings say.
      await this.#publish(this.results, queue, Buffer.alloc(0), { headers })
        .catch((refused) => this.log.error(`${this.results} refused a success: ${textOf(refused)}`));
    }
    channel.ack(message);
    return value;
  }

  async close() {
    const channel = await this.#channel?.catch(() => undefined);
    this.#channel = undefined;
    await channel?.close();
  }

  // Resolves when the broker has confirmed.
  async #publish(exchange, routingKey, content, properties) {
    this.#channel ??= this.#open();
    const opened = this.#channel;
    let timer, fail, returned;
    try {
      const channel = await opened;
      await new Promise((resolve, reject) => {
        fail = reject;
        // A return comes before its confirm. It may be another message's: then we requeue one too many.
        returned = (message) => message.fields.exchange === exchange && reject(new Error('unroutable'));
        timer = setTimeout(() => reject(new Error(`no confirm within ${CONFIRM_MS} ms`)), CONFIRM_MS);
        channel.on('return', returned).on('error', fail).on('close', fail);
        channel.publish(exchange, routingKey, content, { ...properties, persistent: true, mandatory: true },
          (refused) => (refused ? reject(refused) : resolve()));
      }).finally(() => channel.off('return', returned).off('error', fail).off('close', fail));
    } catch (error) {
      if (this.#channel === opened) this.#channel = undefined;
      opened.then((channel) => channel.close()).catch(() => undefined); // it may be closed already
      throw error ?? new Error('the channel was closed');
    } finally {
      clearTimeout(timer);
    }
  }

  async #open() {
    const channel = await (await this.connect()).createConfirmChannel();
    return channel.setMaxListeners(0).on('error', () => undefined).on('close', () => { this.#channel = undefined; });
  }
}

// The headers for rung.failed: all of the message, where it came from, and why it failed. delivery: { exchange, routingKey,
// headers }. Publish with the same routing key. returns: the exchanges by which Rung delivers.
function failureHeaders(queue, delivery, error, returns = ['', 'rung.return']) {
  const { 'retry-never': _never, 'retry-after': _after, ...kept } = delivery.headers ?? {}; // of an earlier failure
  // A retry says itself where its message came from.
  if (!returns.includes(delivery.exchange) || kept[ORIGIN_EXCHANGE] === undefined || kept[ORIGIN_KEY] === undefined)
    Object.assign(kept, { [ORIGIN_EXCHANGE]: delivery.exchange, [ORIGIN_KEY]: delivery.routingKey });
  const text = cut(`${nameOf(error)}: ${textOf(error)}`, TEXT_BYTES);
  const frames = String(error?.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line)).join('\n');
  const found = { ...kept, 'retry-queue': queue, 'retry-error': cut(frames ? `${text}\n${frames}` : text, ERROR_BYTES),
    'retry-error-type': nameOf(error), 'retry-executor': executor() };
  const after = retryAfter(error);
  if (error?.retryNever === true) found['retry-never'] = true;
  else if (after) found['retry-after'] = after;
  return found;
}

// The headers for rung.results; undefined: not a delivery from Rung, nothing to report.
function successHeaders(headers) {
  if (headers?.['retry-id'] === undefined) return undefined;
  const found = { 'retry-result': 'succeeded', 'retry-executor': executor() };
  for (const name of ['retry-id', 'retry-attempt', 'retry-token', 'traceparent', 'tracestate'])
    if (headers[name] !== undefined) found[name] = headers[name];
  return found;
}

// The delay that the error asks for: its retryAfter, or Retry-After of an HTTP answer 429 or 503.
function retryAfter(error) {
  for (let one = error, depth = 0; one instanceof Object && depth < 10; one = one.cause, depth++) {
    if (typeof one.retryAfter === 'string') return one.retryAfter;
    if (Number.isFinite(one.retryAfter)) return `${Math.max(1, Math.ceil(one.retryAfter * 1000))}ms`;
    // axios, got, ky: error.response; undici: the error itself; fetch: a Response, thrown or as the cause.
    for (const answer of [one.response, one]) {
      if (![429, 503].includes(answer?.status ?? answer?.statusCode)) continue;
      const fields = answer.headers;
      const value = typeof fields?.get === 'function' ? fields.get('retry-after') : fields?.['retry-after'];
      const seconds = /^\d+$/.test(value ?? '') ? Number(value) : Math.ceil((Date.parse(value) - Date.now()) / 1000);
      if (Number.isFinite(seconds)) return `${Math.max(1, seconds)}s`;
    }
  }
  return undefined;
}

const executor = () => `${os.hostname()}:${process.pid}`; // retry_history.executor
const nameOf = (error) => (error?.name && error.name !== 'Error' ? error.name : error?.constructor?.name) ?? typeof error;
const textOf = (error) => (error instanceof Error ? error.message : String(error));

// At most `most` bytes of UTF-8, on a character's boundary.
function cut(text, most) {
  const bytes = Buffer.from(text);
  let end = Math.min(most, bytes.length);
  while (end < bytes.length && (bytes[end] & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}

module.exports = { Rung, GiveUp, RetryLater, failureHeaders, successHeaders, retryAfter };
