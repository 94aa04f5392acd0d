// usage: nestjs_worker.js AMQP-URL QUEUE PREFIX
// Decorators are applied as functions: no build step.
'use strict';
require('reflect-metadata');
const amqp = require('amqplib');
const { Controller, Module, UseInterceptors } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const { Ctx, EventPattern, Payload, Transport } = require('@nestjs/microservices');
const { RungInterceptor } = require('../../../../examples/helpers/node/nestjs');
const { work } = require('./work.js');

const [url, queue, prefix] = process.argv.slice(2);
const get = async (path) => {
  const response = await fetch(process.env.HTTP_URL + path);
  if (!response.ok) throw Object.assign(new Error(`HTTP ${response.status}`), { response });
};

class Worker {
  work(word, context) {
    return work(word, context.getMessage().properties.headers, get);
  }
}
Payload()(Worker.prototype, 'work', 0);
Ctx()(Worker.prototype, 'work', 1);
EventPattern('work')(Worker.prototype, 'work', Object.getOwnPropertyDescriptor(Worker.prototype, 'work'));
UseInterceptors(new RungInterceptor({ connect: () => amqp.connect(url), queue, prefix, pauseMs: 200 }))(Worker);
Controller()(Worker);

class App {}
Module({ controllers: [Worker] })(App);

NestFactory.createMicroservice(App, {
  transport: Transport.RMQ,
  options: { urls: [url], queue, noAck: false, noAssert: true, prefetchCount: 10 },
  logger: ['error'],
}).then((app) => app.listen());
