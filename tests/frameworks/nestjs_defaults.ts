// NestJS without an interceptor. NO_ACK: true, Nest's default, or false.
import 'reflect-metadata';
import { Controller, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Ctx, EventPattern, Payload, RmqContext, Transport } from '@nestjs/microservices';

@Controller()
class Orders {
  @EventPattern('order')
  onOrder(@Payload() order: object, @Ctx() context: RmqContext) {
    console.log(`attempt ${context.getMessage().properties.headers['retry-attempt'] ?? 0} ${JSON.stringify(order)} rejected`);
    throw new Error('failed');
  }
}

@Module({ controllers: [Orders] })
class App {}

const options = { urls: [process.env.RUNG_EXAMPLE_BROKER!], queue: process.env.QUEUE, queueOptions: { durable: true, arguments: { 'x-dead-letter-exchange': 'rung.failed' } },
  ...(process.env.NO_ACK === 'false' ? { noAck: false } : {}) };
const app = await NestFactory.createMicroservice(App, { transport: Transport.RMQ, options, logger: false });
await app.listen();
