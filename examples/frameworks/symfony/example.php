<?php
// Symfony Messenger with Rung. usage: php example.php [send [BODY]]; without `send` it consumes.
//
// Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
// two times. With "why": "HTTP 503" (and "after": "2s") the middleware says why, sets the delay, and reports the success.
// FAILURE_TRANSPORT=NAME: failures go to that queue, as with `failure_transport` in messenger.yaml, and not to rung.failed.

use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpReceivedStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransport;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\Connection;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\EventListener\AddErrorDetailsStampListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Middleware\RejectRedeliveredMessageMiddleware;
use Symfony\Component\Messenger\Middleware\StackInterface;
use Symfony\Component\Messenger\Middleware\MiddlewareInterface;
use Symfony\Component\Messenger\Transport\Serialization\Serializer;
use Symfony\Component\Messenger\Worker;
use Symfony\Component\Serializer\Encoder\JsonEncoder;
use Symfony\Component\Serializer\Normalizer\ArrayDenormalizer;
use Symfony\Component\Serializer\Normalizer\DateTimeNormalizer;
use Symfony\Component\Serializer\Normalizer\PropertyNormalizer;

error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED); // Symfony 5.4 on PHP 8.2
foreach (['Component/Messenger', 'Component/Messenger/Bridge/Amqp', 'Component/EventDispatcher', 'Component/Serializer'] as $part) {
    require_once "/usr/share/php/Symfony/$part/autoload.php"; // Debian's packages; else vendor/autoload.php
}
require __DIR__.'/Order.php';
require __DIR__.'/RungMiddleware.php';

$dsn = getenv('RUNG_EXAMPLE_BROKER') ?: 'amqp://guest:guest@127.0.0.1:5672/%2f';
$queue = getenv('QUEUE') ?: 'symfony-orders';
$failures = getenv('FAILURE_TRANSPORT') ?: null;
$serializer = new Serializer(new Symfony\Component\Serializer\Serializer(
    [new DateTimeNormalizer(), new ArrayDenormalizer(), new PropertyNormalizer()], [new JsonEncoder()]));
$transport = function (string $name, array $arguments) use ($dsn, $serializer): AmqpTransport {
    $queues = [$name => ['arguments' => $arguments]];

    return new AmqpTransport(Connection::fromDsn($dsn, ['exchange' => ['name' => $name], 'queues' => $queues, 'confirm_timeout' => 10]), $serializer);
};
$orders = $transport($queue, $failures ? [] : ['x-dead-letter-exchange' => 'rung.failed']);

if ('send' === ($argv[1] ?? null)) {
    $body = $argv[2] ?? '{"order": 17, "fails": 2}';
    $order = new Order();
    foreach (json_decode($body, true) as $name => $value) {
        $order->$name = $value;
    }
    $orders->send(new Envelope($order, [new AmqpStamp(null, AMQP_NOPARAM, ['message_id' => "$queue-$order->order", 'delivery_mode' => 2])]));
    exit("sent $body\n");
}

// What the handler needs to know of the delivery.
final class Delivery implements MiddlewareInterface
{
    public int $attempt = 0;

    public function handle(Envelope $envelope, StackInterface $stack): Envelope
    {
        $this->attempt = $envelope->last(AmqpReceivedStamp::class)->getAmqpEnvelope()->getHeaders()['retry-attempt'] ?? 0;

        return $stack->next()->handle($envelope, $stack);
    }
}
$delivery = new Delivery();
$handler = function (Order $order) use ($delivery): void { // your work
    $failing = $delivery->attempt < $order->fails;
    $body = json_encode(array_filter((array) $order, fn ($value) => null !== $value));
    $outcome = !$failing ? 'done' : ($order->why ? "failed: $order->why" : 'rejected');
    echo "attempt $delivery->attempt $body $outcome\n";
    if ($failing) {
        throw $order->why ? new ShopError($order->why, $order->after) : new RuntimeException('failed');
    }
};
$events = new EventDispatcher();
$middleware = [new RejectRedeliveredMessageMiddleware(), $delivery, new HandleMessageMiddleware(new HandlersLocator([Order::class => [$handler]]))];
if ($failures) {
    $events->addSubscriber(new AddErrorDetailsStampListener());
    $events->addSubscriber(new SendFailedMessageToFailureTransportListener($transport($failures, [])));
} else {
    $url = parse_url($dsn);
    $login = ['host' => $url['host'], 'port' => $url['port'] ?? 5672, 'vhost' => urldecode(substr($url['path'] ?? '/%2f', 1)),
        'login' => urldecode($url['user']), 'password' => urldecode($url['pass'])];
    array_unshift($middleware, new RungMiddleware($login, fn (Order $order) => null !== $order->why));
}
$orders->setup();
(new Worker(['orders' => $orders], new MessageBus($middleware), $events))->run(['sleep' => 200000]);
