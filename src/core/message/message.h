// A message as it travels: the body unchanged to the byte, properties and headers with the types of their
// values. A broker's plugin maps its own field types to these and back; the row's JSON keeps them
// (below).
// Thread: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung {

struct Decimal {  // value * 10^-scale
  std::uint8_t scale = 0;
  std::int32_t value = 0;
  bool operator==(const Decimal&) const = default;
};
struct Timestamp {  // seconds since 1970
  std::uint64_t seconds = 0;
  bool operator==(const Timestamp&) const = default;
};
struct Bytes {  // of a binary type; a text may contain any bytes, too
  std::string data;
  bool operator==(const Bytes&) const = default;
};

struct Value;
using Array = std::vector<Value>;
// A table keeps its order and its duplicate keys: it goes out as it came in.
using Table = std::vector<std::pair<std::string, Value>>;

// Types are preserved so that a value goes out as it came in: a consumer may distinguish an int32 from an
// int64. A plugin whose broker has fewer types uses only those. std::string: text, any bytes. monostate:
// null.
struct Value {
  using Variant = std::variant<std::monostate, bool, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t,
                               std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float, double,
                               Decimal, Timestamp, std::string, Bytes, Array, Table>;
  Variant v;

  Value() noexcept;
  template <typename T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Value> && std::is_constructible_v<Variant, T&&>)
      Value(T&& value)
      : v(std::forward<T>(value)) {}                 // NOLINT: implicit by intent, as JSON libraries do
  Value(const char* text) : v(std::string(text)) {}  // NOLINT: else a literal becomes a bool

  // Its integer, of any width and sign; none for other types or above int64.
  std::optional<std::int64_t> as_int() const;
  // Its text: std::string or Bytes.
  const std::string* as_text() const;

  // In message.cc: they are templates over 18 types, and every source that includes this header would
  // instantiate them, in half a second.
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();
  bool operator==(const Value& other) const;
};

// The standard properties of a message. Absent is not empty. A broker without such fields leaves them absent,
// or keeps them as headers of its own.
struct Properties {
  std::optional<std::string> content_type, content_encoding;
  std::optional<std::uint8_t> delivery_mode, priority;  // delivery_mode: 2 = persistent
  std::optional<std::string> correlation_id, reply_to, expiration, message_id;
  std::optional<std::uint64_t> timestamp;
  std::optional<std::string> type, user_id, app_id, cluster_id;
  bool operator==(const Properties&) const = default;
};
// Calls visit(name, member) for each, in AMQP's order. NOTE: digests depend on the order.
template <typename P, typename Visit>
void each_property(P& p, const Visit& visit) {
  visit("content_type", p.content_type);
  visit("content_encoding", p.content_encoding);
  visit("delivery_mode", p.delivery_mode);
  visit("priority", p.priority);
  visit("correlation_id", p.correlation_id);
  visit("reply_to", p.reply_to);
  visit("expiration", p.expiration);
  visit("message_id", p.message_id);
  visit("timestamp", p.timestamp);
  visit("type", p.type);
  visit("user_id", p.user_id);
  visit("app_id", p.app_id);
  visit("cluster_id", p.cluster_id);
}

// Maximum nesting of tables and arrays; the headers table is level 1. A message has room for tens of
// thousands of levels. A Value is copied and destroyed recursively, a few calls per level, so they would
// overflow a thread's stack.
// REQUIRES, of code that makes Values from others' data: nothing deeper; kTooDeep in its place.
inline constexpr int kDeepestNesting = 100;
inline constexpr std::string_view kTooDeep = "[left out: nested deeper than 100 levels]";

// A body's bytes: immutable and shared by all copies of a message. A body of megabytes is not copied on its
// way from the broker to the row, nor from the row back to the broker.
class Body {
 public:
  Body() = default;
  Body(std::string bytes)  // NOLINT: implicit by intent, as of a string
      : bytes_(bytes.empty() ? nullptr : std::make_shared<const std::string>(std::move(bytes))) {}
  Body(const char* bytes) : Body(std::string(bytes)) {}  // NOLINT: the same

  const std::string& str() const;
  operator const std::string&() const { return str(); }  // NOLINT: read as a string
  operator std::string_view() const { return str(); }    // NOLINT: the same
  std::size_t size() const { return bytes_ ? bytes_->size() : 0; }
  bool empty() const { return bytes_ == nullptr; }
  bool operator==(const Body& other) const { return bytes_ == other.bytes_ || str() == other.str(); }

 private:
  std::shared_ptr<const std::string> bytes_;  // nullptr: empty
};

struct Message {
  Properties properties;
  std::optional<Table> headers;  // absent is not empty
  Body body;
  bool operator==(const Message&) const = default;
};
using MessagePtr = std::shared_ptr<const Message>;

// The first value of that name; nullptr if there is none.
const Value* find(const Table& table, std::string_view name);
const Value* find(const std::optional<Table>& table, std::string_view name);

// A header's value as text, as rules, rates and searches compare it: text and bytes as they are, the digits
// of a number, true or false, a timestamp's seconds since 1970, all else as JSON; its first kIndexedBytes.
// "" = no such header, null, or an empty text.
inline constexpr std::size_t kIndexedBytes = 255;
std::string indexed_value(const Message& message, std::string_view header);

// Messages' properties and headers as JSON text, exact in both directions: for the store, and for people in
// SQL. Longstr, bool, int64, double, tables and arrays map to plain JSON; every other type to an object of
// one key: {"!i32": 5}, {"!bytes": "hex"}, {"!ts": 1700000000}, {"!dec": [2, 314]}, {"!S": "hex"} for a
// longstr that is not UTF-8 (hex, because SQL's UNHEX reads it), {"!table": [[k, v] ...]} for a table that a
// JSON object cannot represent (a repeated key, a key that begins with "!") or would make slow (more than 64
// keys). Values nested deeper than kDeepestNesting are left out when written, and an error when read. Thread:
// pure functions.

std::string properties_to_json(const Properties& properties);
Result<Properties> properties_from_json(std::string_view text);
std::string headers_to_json(const Table& headers);
Result<Table> headers_from_json(std::string_view text);

// What a broker's plugin reports of a message in addition to what its publisher wrote: why it failed, how
// long to delay it, and which headers are the broker's own. The names of those headers stay in the plugin,
// except in texts that people read. Thread: values; pure functions.

// What the broker recorded of a message's last failure.
struct FailureFacts {
  // Why: rejected, expired, maxlen or delivery_limit, as in retry-reason, or the broker's own term. "" = not
  // known.
  std::string reason;
  std::string queue;             // where it failed: a valid name; "" = not known
  std::string_view queue_by;     // the source of `queue`, for people: "the header x-death"; a constant
  bool queue_by_config = false;  // the config names it: no header overrides it, and it is allowed as a target
  std::string_view record = "record of the failure";  // where the broker keeps such facts, for people
  // The exchange and routing key that took it to that queue. none = not known; an exchange may be "", the
  // default one.
  std::optional<std::string> exchange, routing_key;
  // When, in seconds since 1970, before the year 10000. A redelivery of the same failure has the same value,
  // so it tells whether two deliveries are one failure.
  std::optional<std::int64_t> failed_at_s;
  std::int64_t count = 0;  // how often it has failed there for that reason; 0 = not known
  // The queue was full: it evicted the message, or refused it. No consumer has failed it.
  bool unseen = false;
  // What a framework wrote into the message of an error queue (dialect.h). "" = nothing.
  std::string error = {}, error_type = {}, executor = {};
};

// The delay that the publisher of a delayed message requested from the broker, not from Rung.
struct DelayFacts {
  Ms delay{0};              // from the intake; 0 = none
  std::string refusal;      // not empty: why the request cannot be met, for people
  std::string_view header;  // the header with the request, removed from the message; "" = none; a constant
};

struct BrokerFacts {
  Table headers;  // written by the broker. They are not in Message::headers; the row keeps them
  FailureFacts failure;
  DelayFacts delay;
};

// Header names with a meaning to the broker. A submitted task may not use them. The views are constants of
// the plugin.
struct ReservedHeaders {
  std::span<const std::string_view> names, prefixes;
  std::string_view reply_to = {};  // a value of the property reply-to that the broker does not accept from us

  bool contains(std::string_view name) const {
    return std::ranges::find(names, name) != names.end() ||
           std::ranges::any_of(prefixes, [&](std::string_view p) { return name.starts_with(p); });
  }
};

}  // namespace rung
