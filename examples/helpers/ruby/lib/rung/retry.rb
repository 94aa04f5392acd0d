# frozen_string_literal: true

# What a bunny consumer reports to Rung: queue.subscribe(manual_ack: true, &retries.wrap { |delivery, properties, body| ... })
require "bunny"
require "logger"
require "socket"
require "time"

module Rung
  # Retries cannot succeed: Rung parks the message at once. A method retry_never that returns true does it for any error.
  class GiveUp < StandardError
    def retry_never = true
  end

  # Retry after this time: "90s", or seconds. A method retry_after does it for any error.
  class RetryLater < StandardError
    attr_reader :retry_after

    def initialize(text, after)
      super(text)
      @retry_after = after
    end
  end

  # Thread: any. Consumers of one connection may share it.
  class Retry
    TEXT_BYTES = 8 * 1024
    ERROR_BYTES = 16 * 1024 # Rung keeps 16 KiB
    ORIGIN = %w[retry-origin-exchange retry-origin-routing-key].freeze
    KEPT = %w[retry-id retry-attempt retry-token traceparent tracestate].freeze

    # prefix: broker.prefix of rung.yaml. pause: seconds before a message that could not be reported is requeued.
    def initialize(connection, queue, prefix: "rung", pause: 1, logger: Logger.new($stderr))
      @connection, @queue, @pause, @logger = connection, queue, pause, logger
      @failed, @results = "#{prefix}.failed", "#{prefix}.results"
      @returns = ["", "#{prefix}.return"]
      @publishing = Mutex.new
    end

    # The block for Queue#subscribe(manual_ack: true). It returns: a success; it raises: a failure. Acks; the block must not.
    def wrap
      lambda do |delivery, properties, body|
        begin
          yield delivery, properties, body
        rescue ScriptError, StandardError => e
          next unless report_failure(delivery, properties, body, e)
        else
          report_success(properties.headers)
        end
        delivery.channel.ack(delivery.delivery_tag) # last: a crash before it repeats the delivery
      end
    end

    # The headers for rung.failed: all of the message, where it came from, and why it failed. delivery: its exchange and
    # routing_key are read. Publish with the same routing key.
    def failure_headers(delivery, headers, error)
      text = cut("#{error.class}: #{error.message}", TEXT_BYTES)
      found = (headers || {}).reject { |name, _| %w[retry-never retry-after].include?(name) } # of an earlier failure
      found.merge!("retry-queue" => @queue, "retry-error" => cut([text, *error.backtrace].join("\n"), ERROR_BYTES),
                   "retry-error-type" => error.class.name.to_s, "retry-executor" => executor)
      # A retry comes by rung.return or directly, and says itself where its message came from.
      unless @returns.include?(delivery.exchange) && ORIGIN.all? { |name| found.key?(name) }
        found.merge!(ORIGIN.zip([delivery.exchange, delivery.routing_key]).to_h)
      end
      after = retry_after(error)
      if error.respond_to?(:retry_never) && error.retry_never == true
        found["retry-never"] = true
      elsif after
        found["retry-after"] = after
      end
      found
    end

    # The delay that the error asks for: its retry_after, or Retry-After of an HTTP answer 429 or 503.
    def retry_after(error)
      while error
        asked = error.retry_after if error.respond_to?(:retry_after)
        return asked if asked.is_a?(String)
        return "#{[(asked * 1000).ceil, 1].max}ms" if asked.is_a?(Numeric)

        seconds = seconds_of(error.response) if error.respond_to?(:response)
        return "#{[seconds, 1].max}s" if seconds

        error = error.cause
      end
    end

    private

    def report_failure(delivery, properties, body, error)
      @logger.warn("#{@queue}: #{error.class}: #{error.message}")
      # user_id: the broker refuses one that is not our user. expiration: it would run out in rung.failed.
      kept = properties.to_hash.reject { |name, _| %i[user_id expiration cluster_id].include?(name) }
      kept[:timestamp] = kept[:timestamp].to_i if kept[:timestamp] # bunny reads a Time, and writes a number
      publish(@failed, delivery.routing_key, body, kept.merge(headers: failure_headers(delivery, properties.headers, error)))
      true
    rescue StandardError => e
      @logger.error("#{@failed} refused a failed message, it is requeued: #{e.class}: #{e.message}")
      sleep @pause
      delivery.channel.nack(delivery.delivery_tag, false, true)
      false
    end

    def report_success(headers)
      return unless headers&.key?("retry-id") # else it is no delivery from Rung

      found = headers.slice(*KEPT).merge("retry-result" => "succeeded", "retry-executor" => executor)
      publish(@results, @queue, "", headers: found)
    rescue StandardError => e
      # Rung has the row, and takes silence as the queue's settings say.
      @logger.error("#{@results} refused a success: #{e.class}: #{e.message}")
    end

    # Returns when the broker has confirmed. On a channel of its own: a refusal closes it.
    def publish(name, routing_key, body, options)
      @publishing.synchronize do
        @returned = nil
        exchange(name).publish(body, **options, routing_key: routing_key, persistent: true, delivery_mode: 2, mandatory: true)
        confirmed = @channel.wait_for_confirms
        raise Bunny::Exception, @returned || "not confirmed" if @returned || !confirmed
      rescue StandardError
        @channel&.close if @channel&.open?
        @channel = nil
        raise
      end
    end

    def exchange(name)
      unless @channel&.open?
        @channel = @connection.create_channel
        @channel.confirm_select
        @exchanges = {}
      end
      # passive: it raises at once if there is none. A publish alone would wait for its confirm in vain.
      @exchanges[name] ||= @channel.exchange(name, passive: true).tap do |found|
        found.on_return { |info, *| @returned = "returned: #{info.reply_text}" }
      end
    end

    # Net::HTTPResponse, RestClient's and HTTParty's; Faraday's hash.
    def seconds_of(answer)
      hash = answer.is_a?(Hash)
      return if !hash && !answer.respond_to?(:code)
      return unless [429, 503].include?((hash ? answer[:status] : answer.code).to_i)

      headers = hash ? answer[:headers] : (answer.respond_to?(:headers) ? answer.headers : answer)
      # RestClient's names are symbols; Net::HTTPResponse takes only strings.
      value = (headers["Retry-After"] || headers["retry-after"] || (headers[:retry_after] if headers.is_a?(Hash))).to_s
      value.match?(/\A\d+\z/) ? value.to_i : (Time.httpdate(value) - Time.now).ceil
    rescue ArgumentError
      nil
    end

    # At most `most` bytes of UTF-8, on a character's boundary.
    def cut(text, most)
      text.dup.force_encoding(Encoding::UTF_8).scrub.byteslice(0, most).scrub("")
    end

    def executor = "#{Socket.gethostname}:#{Process.pid}" # retry_history.executor
  end
end
