// golevelup's default error behaviour: a failed message is requeued.
import 'reflect-metadata';
import { RabbitMQModule, RabbitSubscribe } from '@golevelup/nestjs-rabbitmq';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

@Injectable()
class Orders {
  @RabbitSubscribe({ queue: process.env.QUEUE, queueOptions: { durable: true, deadLetterExchange: 'rung.failed' } })
  async onOrder(_: unknown, message: any, headers: Record<string, any> = {}) {
    console.log(`attempt ${headers['retry-attempt'] ?? 0} ${message.content} rejected`);
    await new Promise((resolve) => setTimeout(resolve, 50)); // the loop would use a whole core
    throw new Error('failed');
  }
}

@Module({ imports: [RabbitMQModule.forRoot({ uri: process.env.RUNG_EXAMPLE_BROKER! })], providers: [Orders] })
class App {}

await NestFactory.createApplicationContext(App, { logger: false });
