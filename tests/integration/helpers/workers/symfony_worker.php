<?php

// usage: symfony_worker.php AMQP-URL QUEUE PREFIX      the worker
//        symfony_worker.php --body WORD                prints the message as Symfony would publish it
declare(strict_types=1);

use Rung\Retry\AmqpExt;
use Rung\Retry\Messenger\RungMiddleware;
use Rung\Retry\Rung;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpReceivedStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransport;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\Connection;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
use Symfony\Component\Messenger\Middleware\StackInterface;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Worker;

require '/usr/share/php/Symfony/Component/Messenger/autoload.php';
require '/usr/share/php/Symfony/Component/Messenger/Bridge/Amqp/autoload.php';
require '/usr/share/php/Symfony/Component/EventDispatcher/autoload.php';
require __DIR__.'/work.php';

class Job
{
    public function __construct(public string $word)
    {
    }
}

$serializer = new PhpSerializer();
if ('--body' === $argv[1]) {
    echo $serializer->encode(new Envelope(new Job($argv[2])))['body'];
    exit;
}

/** A handler does not see the headers: this tells it. */
class Headers implements MiddlewareInterface
{
    public static array $now = [];

    public function handle(Envelope $envelope, StackInterface $stack): Envelope
    {
        self::$now = $envelope->last(AmqpReceivedStamp::class)->getAmqpEnvelope()->getHeaders();

        return $stack->next()->handle($envelope, $stack);
    }
}

[, $url, $queue, $prefix] = $argv;
$middleware = new RungMiddleware(AmqpExt::fromDsn($url, new Rung($prefix, 0.2)));
$handlers = new HandlersLocator([Job::class => [static fn (Job $job) => work($job->word, Headers::$now, with_symfony(...))]]);
$bus = new MessageBus([$middleware, new Headers(), new HandleMessageMiddleware($handlers)]);
$events = new EventDispatcher();
$events->addSubscriber($middleware);
$options = ['auto_setup' => false, 'queues' => [$queue => []], 'exchange' => ['name' => $queue]];
$transport = new AmqpTransport(Connection::fromDsn($url, $options), $serializer);
(new Worker(['jobs' => $transport], $bus, $events))->run(['sleep' => 50000]);
