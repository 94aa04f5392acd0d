// A message as it travels: the body unchanged to the byte, properties and headers with the types of their
// values. A broker's plugin maps its own field types to these and back; the row's JSON keeps them
// (message_json.h).
// Thread: values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

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

// A header's value as text, as rules and searches compare it: text, a number, true or false; its first
// kIndexedBytes. "" = no such header, or a value that has no such form (a table, an array, bytes that are not
// UTF-8).
inline constexpr std::size_t kIndexedBytes = 255;
std::string indexed_value(const Message& message, std::string_view header);

}  // namespace rung
