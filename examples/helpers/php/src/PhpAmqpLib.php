<?php

declare(strict_types=1);

namespace Rung\Retry;

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

/** php-amqplib: $channel->basic_consume('orders', callback: $rung->consumer('orders', $work)). */
final class PhpAmqpLib
{
    private const CONFIRM_SECONDS = 30;

    private ?AMQPChannel $channel = null; // where we publish: a channel of its own, because a refusal closes it

    public function __construct(private Rung $rung = new Rung())
    {
    }

    /** $work returns: a success; it throws: a failure. Acks; $work must not. */
    public function consumer(string $queue, callable $work): \Closure
    {
        return function (AMQPMessage $message) use ($queue, $work): void {
            // By native data: php-amqplib reads floating-point headers but does not write its own form of them.
            $headers = $message->has('application_headers') ? $message->get('application_headers')->getNativeData() : [];
            try {
                $work($message);
            } catch (\Throwable $error) {
                error_log("$queue: ".get_class($error).': '.$error->getMessage());
                [$exchange, $key] = [(string) $message->getExchange(), (string) $message->getRoutingKey()];
                $why = $this->rung->failure($queue, $error) + $this->rung->origin($exchange, $key, $headers);
                $headers = new AMQPTable(array_filter($why + $headers, static fn ($value): bool => null !== $value));
                $kept = $message->get_properties();
                // user_id: the broker refuses one that is not our user. expiration: it would run out in rung.failed.
                unset($kept['user_id'], $kept['expiration']);
                if (!$this->publish($message, $this->rung->failed, $key, $message->getBody(), $kept, $headers)) {
                    usleep((int) ($this->rung->pause * 1e6));
                    $message->nack(true);

                    return;
                }
                $message->ack(); // last: a crash before it repeats the delivery

                return;
            }
            $result = $this->rung->success($headers);
            if (null !== $result) { // if it fails: Rung has the row, and takes silence as the queue's settings say
                $this->publish($message, $this->rung->results, $queue, '', [], new AMQPTable($result));
            }
            $message->ack();
        };
    }

    /** True when the broker has confirmed. @param array<string, mixed> $properties */
    private function publish(AMQPMessage $of, string $exchange, string $routingKey, string $body, array $properties, AMQPTable $headers): bool
    {
        try {
            if (null === $this->channel || !$this->channel->is_open()) {
                $this->channel = $of->getChannel()->getConnection()->channel();
                $this->channel->confirm_select();
            }
            $outcome = null;
            $this->channel->set_nack_handler(static function () use (&$outcome): void { $outcome = 'refused'; });
            $this->channel->set_return_listener(static function () use (&$outcome): void { $outcome = 'unroutable'; });
            $properties = ['application_headers' => $headers, 'delivery_mode' => 2] + $properties;
            $this->channel->basic_publish(new AMQPMessage($body, $properties), $exchange, $routingKey, true);
            $this->channel->wait_for_pending_acks_returns(self::CONFIRM_SECONDS);
        } catch (\Throwable $error) {
            $outcome = $error->getMessage();
            $this->channel = null;
        }
        if (null !== $outcome) {
            error_log("$exchange: $outcome");
        }

        return null === $outcome;
    }
}
