# Bunny with Rung. usage: ruby example.rb [send [BODY]]; without `send` it consumes.
#
# Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
# two times. With "why": "HTTP 503" (and "after": "2s") the consumer says why, sets the delay, and reports the success.
require "bunny"
require "json"

BROKER = ENV.fetch("RUNG_EXAMPLE_BROKER", "amqp://guest:guest@127.0.0.1:5672/%2f")
QUEUE = ENV.fetch("QUEUE", "bunny-orders")
$stdout.sync = true

# A failure with a reason, and optionally the time of the next attempt.
class ShopError < StandardError
  attr_reader :after

  def initialize(text, after = nil)
    super(text)
    @after = after
  end
end

# Your work.
def handle(order, attempt)
  return if attempt >= order.fetch("fails", 0)
  raise order["why"] ? ShopError.new(order["why"], order["after"]) : RuntimeError.new("failed")
end

# Publishes, and waits for the confirm.
def publish(channel, exchange, body, properties, routing_key = "")
  channel.basic_publish(body, exchange, routing_key, { persistent: true }.merge(properties))
  raise "the broker refused it" unless channel.wait_for_confirms
end

def on_message(channel, delivery, properties, body)
  headers = properties.headers || {}
  attempt = headers.fetch("retry-attempt", 0)
  order = JSON.parse(body)
  said = "attempt #{attempt} #{body}"
  begin
    handle(order, attempt)
  rescue ShopError => error
    # Say why, and where the message came from, unless it is a retry, which says that itself: all properties and headers,
    # plus these. Ack after the confirm.
    origin = { "retry-origin-exchange" => delivery.exchange, "retry-origin-routing-key" => delivery.routing_key }
    why = { "retry-queue" => QUEUE, "retry-error" => error.message, "retry-error-type" => error.class.name }
    why["retry-after"] = error.after if error.after
    # The broker refuses another user's id, and an expiration could run out in rung.failed. Bunny has no :persistent
    # among the received properties, but delivery_mode.
    received = properties.to_hash.reject { |name, _| %i[user_id expiration delivery_mode].include?(name) }
    publish(channel, "rung.failed", body, received.merge(headers: origin.merge(headers, why)), delivery.routing_key)
    channel.ack(delivery.delivery_tag)
    return puts("#{said} failed: #{error.message}")
  rescue StandardError
    channel.reject(delivery.delivery_tag, false) # no requeue: the broker dead-letters it to rung.failed
    return puts("#{said} rejected")
  end
  if attempt.positive? && order["why"] # report the success; otherwise silence means success
    result = headers.slice("retry-id", "retry-attempt", "retry-token")
    publish(channel, "rung.results", "", headers: result.merge("retry-result" => "succeeded"))
  end
  channel.ack(delivery.delivery_tag)
  puts("#{said} done")
end

connection = Bunny.new(BROKER).start
channel = connection.create_channel
channel.confirm_select
channel.prefetch(10)
queue = channel.queue(QUEUE, durable: true, arguments: { "x-dead-letter-exchange" => "rung.failed" })
if ARGV[0] == "send"
  body = ARGV[1] || '{"order": 17, "fails": 2}'
  queue.publish(body, persistent: true, message_id: "#{QUEUE}-#{JSON.parse(body)['order']}")
  channel.wait_for_confirms
  puts "sent #{body}"
  connection.close
else
  queue.subscribe(manual_ack: true, block: true) { |delivery, properties, body| on_message(channel, delivery, properties, body) }
end
