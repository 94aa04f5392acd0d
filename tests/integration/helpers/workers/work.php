<?php

// What the workers do with a body, in PHP: as work.py.
declare(strict_types=1);

use Rung\Retry\GiveUp;
use Rung\Retry\RetryLater;

spl_autoload_register(static function (string $class): void {  // PSR-4, as in composer.json
    $file = __DIR__.'/../../../../examples/helpers/php/src/'.strtr(substr($class, strlen('Rung\\Retry\\')), '\\', '/').'.php';
    if (str_starts_with($class, 'Rung\\Retry\\') && is_file($file)) {
        require $file;
    }
});

class CardDeclined extends RuntimeException
{
    public bool $retryNever = false;
}

function work(string $word, array $headers, callable $get): void
{
    $attempt = $headers['retry-attempt'] ?? 0;
    echo "work $word $attempt ".($headers['traceparent'] ?? 'none')."\n";
    if ($attempt >= ('twice' === $word ? 2 : 1) || 'ok' === $word) {
        return;
    }
    $declined = new CardDeclined('stolen');
    $declined->retryNever = true;
    match ($word) {
        'never' => throw new GiveUp('no such customer'),
        'flag' => throw $declined,
        'later' => throw new RetryLater('in maintenance', '1500ms'),
        'seconds' => $get(getenv('HTTP_URL').'/seconds'),
        'date' => dated($get),
        default => throw new CardDeclined('long' === $word ? str_repeat('ü', 100_000) : 'Карта отклонена – 4711'),
    };
}

function dated(callable $get): never
{
    try {
        $get(getenv('HTTP_URL').'/date');
    } catch (Throwable $cause) {
        throw new CardDeclined('the partner is busy', 0, $cause);
    }
    throw new LogicException('the test server did not refuse');
}

function with_symfony(string $url): void
{
    require_once '/usr/share/php/Symfony/Component/HttpClient/autoload.php';
    Symfony\Component\HttpClient\HttpClient::create()->request('GET', $url)->getContent();
}
