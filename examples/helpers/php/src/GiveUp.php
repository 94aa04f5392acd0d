<?php

declare(strict_types=1);

namespace Rung\Retry;

/** Retries cannot succeed: Rung parks the message at once. A public property $retryNever = true does it for any exception. */
class GiveUp extends \RuntimeException
{
    public bool $retryNever = true;
}
