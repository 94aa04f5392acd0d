<?php

/** The message: {"order": 17, "fails": 2}. */
final class Order
{
    public int $order = 0;
    public int $fails = 0;
    public ?string $why = null;
    public ?string $after = null;
}

/** A failure with a reason, and optionally the time of the next attempt. */
final class ShopError extends RuntimeException
{
    public ?string $after;

    public function __construct(string $text, ?string $after = null)
    {
        parent::__construct($text);
        $this->after = $after;
    }
}
