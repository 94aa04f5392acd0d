<?php

declare(strict_types=1);

namespace Rung\Retry;

/** Retry after this time. A public property $retryAfter does it for any exception. */
class RetryLater extends \RuntimeException
{
    /** @param string|int|float $retryAfter "90s", or seconds */
    public function __construct(string $message, public string|int|float $retryAfter, ?\Throwable $previous = null)
    {
        parent::__construct($message, 0, $previous);
    }
}
