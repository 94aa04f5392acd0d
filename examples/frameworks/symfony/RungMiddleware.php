<?php

use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpReceivedStamp;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\HandlerFailedException;
use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
use Symfony\Component\Messenger\Middleware\StackInterface;

/**
 * Says why a message failed, and reports the success of a retry. A listener of WorkerMessageFailedEvent is too late for
 * this: after it the worker rejects the message in any case, and Rung would get it twice.
 */
final class RungMiddleware implements MiddlewareInterface
{
    private ?AMQPChannel $channel = null;

    public function __construct(private array $login, private $mayReport)
    {
    }

    public function handle(Envelope $envelope, StackInterface $stack): Envelope
    {
        $received = $envelope->last(AmqpReceivedStamp::class);
        if (!$received) {
            return $stack->next()->handle($envelope, $stack); // being sent, not consumed
        }
        $headers = $received->getAmqpEnvelope()->getHeaders();
        try {
            $envelope = $stack->next()->handle($envelope, $stack);
        } catch (HandlerFailedException $failed) {
            $error = $failed->getNestedExceptions()[0];
            if (!$error instanceof ShopError) {
                throw $failed; // the worker rejects it without requeue: the broker dead-letters it to rung.failed
            }
            $why = ['retry-queue' => $received->getQueueName(), 'retry-error' => $error->getMessage(), 'retry-error-type' => ShopError::class];
            $why += null === $error->after ? [] : ['retry-after' => $error->after];
            $message = $received->getAmqpEnvelope();
            // Where it came from, unless it is a retry, which says that itself.
            $origin = ['retry-origin-exchange' => $message->getExchangeName(), 'retry-origin-routing-key' => $message->getRoutingKey()];
            $this->publish('rung.failed', $message->getBody(), array_filter([
                'headers' => $why + $headers + $origin,
                'message_id' => $message->getMessageId(), 'correlation_id' => $message->getCorrelationId(),
                'content_type' => $message->getContentType(), 'content_encoding' => $message->getContentEncoding(),
                'type' => $message->getType(), 'app_id' => $message->getAppId(), 'reply_to' => $message->getReplyTo(),
                'priority' => $message->getPriority(), 'timestamp' => $message->getTimestamp(), // no expiration: it could run out in rung.failed
            ]), $message->getRoutingKey());

            return $envelope; // the worker acks
        }
        if (isset($headers['retry-attempt']) && ($this->mayReport)($envelope->getMessage())) { // else silence means success
            $result = array_intersect_key($headers, array_flip(['retry-id', 'retry-attempt', 'retry-token']));
            $this->publish('rung.results', '', ['headers' => $result + ['retry-result' => 'succeeded']]);
        }

        return $envelope;
    }

    /** Returns after the broker's confirm. */
    private function publish(string $exchange, string $body, array $properties, string $routingKey = ''): void
    {
        if (!$this->channel?->isConnected()) {
            $connection = new AMQPConnection($this->login);
            $connection->connect();
            $this->channel = new AMQPChannel($connection);
            $this->channel->confirmSelect();
            $this->channel->setConfirmCallback(fn () => false, fn () => throw new RuntimeException('the broker refused it'));
        }
        $to = new AMQPExchange($this->channel);
        $to->setName($exchange);
        $to->publish($body, $routingKey, AMQP_NOPARAM, $properties + ['delivery_mode' => 2]);
        $this->channel->waitForConfirm(10);
    }
}
