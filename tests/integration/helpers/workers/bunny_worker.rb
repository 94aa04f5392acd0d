# frozen_string_literal: true

# usage: bunny_worker.rb AMQP-URL QUEUE PREFIX
require "net/http"
require_relative "../../../../examples/helpers/ruby/lib/rung-retry"

class CardDeclined < StandardError; end

class Stolen < CardDeclined
  def retry_never = true
end

def get(path) = Net::HTTP.get_response(URI(ENV.fetch("HTTP_URL") + path)).value # raises, with the response

def dated
  get("/date")
rescue StandardError
  raise CardDeclined, "the partner is busy"
end

# As work.py.
def work(word, headers)
  attempt = headers["retry-attempt"] || 0
  puts "work #{word} #{attempt} #{headers["traceparent"]}"
  return if attempt >= (word == "twice" ? 2 : 1) || word == "ok"

  case word
  when "never" then raise Rung::GiveUp, "no such customer"
  when "flag" then raise Stolen, "stolen"
  when "later" then raise Rung::RetryLater.new("in maintenance", "1500ms")
  when "seconds" then get("/seconds")
  when "date" then dated
  end
  raise CardDeclined, word == "long" ? "ü" * 100_000 : "Карта отклонена – 4711"
end

$stdout.sync = true
url, name, prefix = ARGV
connection = Bunny.new(url).start
channel = connection.create_channel
channel.prefetch(10)
retries = Rung::Retry.new(connection, name, prefix: prefix, pause: 0.2)
channel.queue(name, passive: true).subscribe(manual_ack: true, block: true, &retries.wrap { |_, properties, body|
  work(body, properties.headers || {})
})
