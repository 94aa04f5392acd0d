<?php

// usage: php_amqplib_worker.php AMQP-URL QUEUE PREFIX
declare(strict_types=1);

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use Rung\Retry\PhpAmqpLib;
use Rung\Retry\Rung;

require '/usr/share/php/PhpAmqpLib/autoload.php';
require '/usr/share/php/GuzzleHttp/autoload.php';
require __DIR__.'/work.php';

[, $url, $queue, $prefix] = $argv;
$parts = parse_url($url);
$connection = new AMQPStreamConnection($parts['host'], $parts['port'], $parts['user'], $parts['pass'], rawurldecode(substr($parts['path'], 1)));
$channel = $connection->channel();
$channel->basic_qos(0, 10, false);
$get = static fn (string $url) => (new GuzzleHttp\Client())->get($url);
$channel->basic_consume($queue, callback: (new PhpAmqpLib(new Rung($prefix, 0.2)))->consumer($queue, static fn (AMQPMessage $message) => work(
    $message->getBody(), $message->get('application_headers')->getNativeData(), $get)));
while ($channel->is_consuming()) {
    $channel->wait();
}
