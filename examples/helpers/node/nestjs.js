// NestJS microservices on RabbitMQ, with noAck: false: @UseInterceptors(new RungInterceptor({ connect, queue })).
'use strict';
const { EMPTY, from, lastValueFrom } = require('rxjs');
const { mergeMap } = require('rxjs/operators');
const { Rung } = require('./index.js');

class RungInterceptor {
  #rung;
  #queue;

  constructor({ queue, ...options }) {
    this.#queue = queue;
    this.#rung = new Rung(options);
  }

  intercept(context, next) {
    const rpc = context.getType() === 'rpc' ? context.switchToRpc().getContext() : undefined;
    if (typeof rpc?.getChannelRef !== 'function') return next.handle(); // HTTP, or another transport
    const handled = this.#rung.settle(rpc.getChannelRef(), this.#queue, rpc.getMessage(),
      () => lastValueFrom(next.handle(), { defaultValue: undefined }));
    // An event has no caller: the failure is Rung's now. A request's caller gets the error.
    const event = rpc.getMessage().properties.replyTo === undefined;
    return from(event ? handled.catch(() => undefined) : handled).pipe(mergeMap((value) => (event ? EMPTY : [value])));
  }

  onModuleDestroy() {
    return this.#rung.close();
  }
}

module.exports = { RungInterceptor };
