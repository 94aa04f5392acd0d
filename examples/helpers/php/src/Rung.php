<?php

declare(strict_types=1);

namespace Rung\Retry;

/** What a consumer reports to Rung, without a client library. AmqpExt and PhpAmqpLib send it. */
final class Rung
{
    private const TEXT_BYTES = 8 * 1024;
    private const ERROR_BYTES = 16 * 1024; // Rung keeps 16 KiB
    private const KEPT = ['retry-id', 'retry-attempt', 'retry-token', 'traceparent', 'tracestate'];

    private const ORIGIN_EXCHANGE = 'retry-origin-exchange';
    private const ORIGIN_KEY = 'retry-origin-routing-key';

    public readonly string $failed;
    public readonly string $results;
    private readonly string $returns;

    /**
     * @param string $prefix broker.prefix of rung.yaml
     * @param float  $pause  seconds before a message that could not be reported is requeued
     */
    public function __construct(string $prefix = 'rung', public readonly float $pause = 1.0)
    {
        $this->failed = "$prefix.failed";
        $this->results = "$prefix.results";
        $this->returns = "$prefix.return";
    }

    /**
     * Where the message came from: headers to set on the message for rung.failed. Publish with the same routing key.
     *
     * @param array<string, mixed> $headers of the delivery
     *
     * @return array<string, string>
     */
    public function origin(string $exchange, string $routingKey, array $headers): array
    {
        // A retry comes by rung.return or directly, and says itself where its message came from.
        $retry = \in_array($exchange, ['', $this->returns], true)
            && isset($headers[self::ORIGIN_EXCHANGE], $headers[self::ORIGIN_KEY]);

        return $retry ? [] : [self::ORIGIN_EXCHANGE => $exchange, self::ORIGIN_KEY => $routingKey];
    }

    /**
     * Why it failed: headers to set on the message for rung.failed, which keeps its own. null: to take off.
     *
     * @return array<string, string|bool|null>
     */
    public function failure(string $queue, \Throwable $error): array
    {
        $text = self::cut(get_class($error).': '.$error->getMessage(), self::TEXT_BYTES);
        $stack = "\n#- {$error->getFile()}({$error->getLine()})\n{$error->getTraceAsString()}";
        $never = true === ($error->retryNever ?? null);

        return [
            'retry-queue' => $queue,
            'retry-error' => self::cut($text.$stack, self::ERROR_BYTES),
            'retry-error-type' => get_class($error),
            'retry-executor' => self::executor(),
            'retry-never' => $never ?: null,
            'retry-after' => $never ? null : self::retryAfter($error),
        ];
    }

    /**
     * The headers for rung.results; null: not a delivery from Rung, nothing to report.
     *
     * @param array<string, mixed> $headers
     *
     * @return array<string, mixed>|null
     */
    public function success(array $headers): ?array
    {
        if (!isset($headers['retry-id'])) {
            return null;
        }

        return array_intersect_key($headers, array_flip(self::KEPT))
            + ['retry-result' => 'succeeded', 'retry-executor' => self::executor()];
    }

    /** The delay that the error asks for: its $retryAfter, or Retry-After of an HTTP answer 429 or 503. */
    public static function retryAfter(?\Throwable $error): ?string
    {
        for (; null !== $error; $error = $error->getPrevious()) {
            $asked = $error->retryAfter ?? null;
            if (\is_string($asked)) {
                return $asked;
            }
            if (\is_int($asked) || \is_float($asked)) {
                return max(1, (int) ceil($asked * 1000)).'ms';
            }
            $seconds = self::seconds(self::header($error));
            if (null !== $seconds) {
                return max(1, $seconds).'s';
            }
        }

        return null;
    }

    /** Retry-After of Symfony's HttpClient, of Guzzle and other PSR-7 clients, of Laravel's. */
    private static function header(\Throwable $error): string
    {
        $answer = method_exists($error, 'getResponse') ? $error->getResponse() : ($error->response ?? null);
        if (!\is_object($answer)) {
            return '';
        }
        $status = method_exists($answer, 'getStatusCode') ? $answer->getStatusCode()
            : (method_exists($answer, 'status') ? $answer->status() : 0);
        if (!\in_array($status, [429, 503], true)) {
            return '';
        }
        if (method_exists($answer, 'getHeaderLine')) {
            return $answer->getHeaderLine('Retry-After');
        }
        if (method_exists($answer, 'header')) {
            return (string) $answer->header('Retry-After');
        }

        return method_exists($answer, 'getHeaders') ? (string) ($answer->getHeaders(false)['retry-after'][0] ?? '') : '';
    }

    private static function seconds(string $value): ?int
    {
        if (ctype_digit($value)) {
            return (int) $value;
        }
        $until = \DateTimeImmutable::createFromFormat(\DATE_RFC7231, $value, new \DateTimeZone('GMT'));

        return false === $until ? null : $until->getTimestamp() - time();
    }

    /** At most $most bytes of UTF-8, on a character's boundary. */
    private static function cut(string $text, int $most): string
    {
        $text = substr($text, 0, $most);

        return preg_replace('/[\xC2-\xDF]$|[\xE0-\xEF][\x80-\xBF]?$|[\xF0-\xF4][\x80-\xBF]{0,2}$/D', '', $text) ?? $text;
    }

    private static function executor(): string
    {
        return gethostname().':'.getmypid(); // retry_history.executor
    }
}
