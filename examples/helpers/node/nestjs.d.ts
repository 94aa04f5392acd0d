import type { CallHandler, ExecutionContext, NestInterceptor, OnModuleDestroy } from '@nestjs/common';
import type { Observable } from 'rxjs';
import type { RungOptions } from './index';

/** Reports how handlers of RabbitMQ messages end, and acks; they must not. Needs noAck: false. */
export class RungInterceptor implements NestInterceptor, OnModuleDestroy {
  constructor(options: RungOptions & { queue: string });
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown>;
  onModuleDestroy(): Promise<void>;
}
