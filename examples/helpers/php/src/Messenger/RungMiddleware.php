<?php

declare(strict_types=1);

namespace Rung\Retry\Messenger;

use Psr\Log\LoggerInterface;
use Rung\Retry\AmqpExt;
use Rung\Retry\NotReported;
use Symfony\Component\EventDispatcher\EventSubscriberInterface;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpReceivedStamp;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Event\WorkerMessageFailedEvent;
use Symfony\Component\Messenger\Exception\HandlerFailedException;
use Symfony\Component\Messenger\Exception\UnrecoverableExceptionInterface;
use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
use Symfony\Component\Messenger\Middleware\StackInterface;

/** Reports how messages from RabbitMQ end. A failure that Rung has taken is no failure any more: the worker acks. */
final class RungMiddleware implements MiddlewareInterface, EventSubscriberInterface
{
    public function __construct(private AmqpExt $rung, private ?LoggerInterface $logger = null)
    {
    }

    public function handle(Envelope $envelope, StackInterface $stack): Envelope
    {
        $stamp = $envelope->last(AmqpReceivedStamp::class);
        if (!$stamp instanceof AmqpReceivedStamp) {
            return $stack->next()->handle($envelope, $stack);
        }
        try {
            $handled = $stack->next()->handle($envelope, $stack);
        } catch (\Throwable $error) {
            $cause = $error instanceof HandlerFailedException ? $error->getPrevious() ?? $error : $error;
            $this->logger?->warning('A message failed; Rung retries it.', ['exception' => $cause]);
            $never = $cause instanceof UnrecoverableExceptionInterface;
            $this->rung->reportFailure($stamp->getAmqpEnvelope(), $stamp->getQueueName(), $cause, $never);

            return $envelope;
        }
        $this->rung->reportSuccess($stamp->getAmqpEnvelope(), $stamp->getQueueName());

        return $handled;
    }

    /** Ends the worker: it would else reject the message, which RabbitMQ may drop. The broker requeues what is unacked. */
    public function onFailure(WorkerMessageFailedEvent $event): void
    {
        if ($event->getThrowable() instanceof NotReported) {
            usleep((int) ($this->rung->rung->pause * 1e6));
            throw $event->getThrowable();
        }
    }

    public static function getSubscribedEvents(): array
    {
        return [WorkerMessageFailedEvent::class => ['onFailure', 1000]]; // before Symfony's own retry
    }
}
