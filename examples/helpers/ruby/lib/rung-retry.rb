require_relative "rung/retry"
