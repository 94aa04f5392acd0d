<?php

declare(strict_types=1);

namespace Rung\Retry;

/** The broker did not take the report. The message is still unacked. */
class NotReported extends \RuntimeException
{
}
