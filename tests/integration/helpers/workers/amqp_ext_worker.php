<?php

// usage: amqp_ext_worker.php AMQP-URL QUEUE PREFIX
declare(strict_types=1);

use Rung\Retry\AmqpExt;
use Rung\Retry\Rung;

require __DIR__.'/work.php';

[, $url, $name, $prefix] = $argv;
$parts = parse_url($url);
$connection = new AMQPConnection(['host' => $parts['host'], 'port' => $parts['port'], 'vhost' => rawurldecode(substr($parts['path'], 1))]);
$connection->connect();
$channel = new AMQPChannel($connection);
$channel->setPrefetchCount(10);
$queue = new AMQPQueue($channel);
$queue->setName($name);
$rung = AmqpExt::fromDsn($url, new Rung($prefix, 0.2));
$queue->consume($rung->consumer(fn (AMQPEnvelope $message) => work($message->getBody(), $message->getHeaders(), with_symfony(...))));
