<?php

declare(strict_types=1);

namespace Rung\Retry;

/** The extension php-amqp: $queue->consume($rung->consumer($work)). */
final class AmqpExt
{
    private const CONFIRM_SECONDS = 30.0;

    private ?\AMQPChannel $channel = null;

    /** @param \AMQPConnection $connection to publish on; not the one that consumes */
    public function __construct(private \AMQPConnection $connection, public readonly Rung $rung = new Rung())
    {
    }

    /** amqp://user:password@host:5672/vhost; what follows the vhost is ignored, as in a DSN of Symfony's. */
    public static function fromDsn(string $dsn, Rung $rung = new Rung()): self
    {
        $url = parse_url($dsn) ?: throw new \InvalidArgumentException('not an AMQP URL');

        return new self(new \AMQPConnection([
            'host' => $url['host'] ?? 'localhost',
            'port' => $url['port'] ?? 5672,
            'login' => rawurldecode($url['user'] ?? 'guest'),
            'password' => rawurldecode($url['pass'] ?? 'guest'),
            'vhost' => rawurldecode(explode('/', ltrim($url['path'] ?? '', '/'))[0] ?: '/'),
        ]), $rung);
    }

    /** $work returns: a success; it throws: a failure. Acks; $work must not. */
    public function consumer(callable $work): \Closure
    {
        return function (\AMQPEnvelope $message, \AMQPQueue $queue) use ($work): void {
            try {
                $work($message, $queue);
            } catch (\Throwable $error) {
                error_log($queue->getName().': '.get_class($error).': '.$error->getMessage());
                try {
                    $this->reportFailure($message, $queue->getName(), $error);
                } catch (NotReported $refused) {
                    error_log("{$refused->getMessage()}: the message is requeued");
                    usleep((int) ($this->rung->pause * 1e6));
                    $queue->nack($message->getDeliveryTag(), \AMQP_REQUEUE);

                    return;
                }
                $queue->ack($message->getDeliveryTag()); // last: a crash before it repeats the delivery

                return;
            }
            $this->reportSuccess($message, $queue->getName());
            $queue->ack($message->getDeliveryTag());
        };
    }

    /** @throws NotReported */
    public function reportFailure(\AMQPEnvelope $message, string $queue, \Throwable $error, bool $never = false): void
    {
        $why = $this->rung->failure($queue, $error);
        $why = $never ? ['retry-never' => true, 'retry-after' => null] + $why : $why;
        // No user_id: the broker refuses one that is not our user. No expiration: it would run out in rung.failed.
        $attributes = array_filter([
            'content_type' => $message->getContentType(),
            'content_encoding' => $message->getContentEncoding(),
            'message_id' => $message->getMessageId(),
            'app_id' => $message->getAppId(),
            'priority' => $message->getPriority(),
            'timestamp' => $message->getTimestamp(),
            'type' => $message->getType(),
            'reply_to' => $message->getReplyTo(),
            'correlation_id' => $message->getCorrelationId(),
        ]);
        [$exchange, $key] = [(string) $message->getExchangeName(), (string) $message->getRoutingKey()];
        $why += $this->rung->origin($exchange, $key, $message->getHeaders());
        $headers = array_filter($why + $message->getHeaders(), static fn ($value): bool => null !== $value);
        $this->publish($this->rung->failed, $key, (string) $message->getBody(), ['headers' => $headers] + $attributes);
    }

    /** Nothing happens if it fails: Rung has the row, and takes silence as the queue's settings say. */
    public function reportSuccess(\AMQPEnvelope $message, string $queue): void
    {
        $headers = $this->rung->success($message->getHeaders());
        if (null === $headers) {
            return;
        }
        try {
            $this->publish($this->rung->results, $queue, '', ['headers' => $headers]);
        } catch (NotReported $refused) {
            error_log($refused->getMessage());
        }
    }

    /** Returns when the broker has confirmed. @param array<string, mixed> $attributes */
    private function publish(string $exchange, string $routingKey, string $body, array $attributes): void
    {
        try {
            $channel = $this->channel();
            $outcome = null;
            $channel->setConfirmCallback(
                static fn (): bool => false, // false: stop waiting
                static function () use (&$outcome): bool { $outcome = 'refused'; return false; },
            );
            $channel->setReturnCallback(static function () use (&$outcome): bool { $outcome = 'unroutable'; return true; });
            $to = new \AMQPExchange($channel);
            $to->setName($exchange);
            $to->publish($body, $routingKey, \AMQP_MANDATORY, ['delivery_mode' => 2] + $attributes);
            $channel->waitForConfirm(self::CONFIRM_SECONDS);
            if (null !== $outcome) {
                throw new \AMQPException($outcome);
            }
        } catch (\Throwable $error) {
            $this->channel = null;
            throw new NotReported("$exchange: {$error->getMessage()}", 0, $error);
        }
    }

    private function channel(): \AMQPChannel
    {
        if (null === $this->channel || !$this->channel->isConnected()) {
            if (!$this->connection->isConnected()) {
                $this->connection->connect();
            }
            $this->channel = new \AMQPChannel($this->connection);
            $this->channel->confirmSelect();
        }

        return $this->channel;
    }
}
