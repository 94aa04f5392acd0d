#include "src/core/message/identity.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>

#include "src/core/message/digest.h"

namespace rung {
namespace {

constexpr std::size_t kHalf = kMessageDigestBytes / 2;

// A number with all its bytes, in this machine's order: digests are compared by machines of one kind only.
template <typename T>
void append_number(std::string& facts, T number) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &number, sizeof(T));
  facts.append(bytes, sizeof(T));
}

void append_text(std::string& facts, std::string_view text) {
  append_number(facts, static_cast<std::uint64_t>(text.size()));
  facts.append(text);
}

void append_value(std::string& facts, const Value& value);

// In order of names. Headers of one name keep their order.
void append_table(std::string& facts, const Table& table) {
  std::vector<const Table::value_type*> sorted;
  sorted.reserve(table.size());
  for (const auto& field : table) sorted.push_back(&field);
  std::ranges::stable_sort(sorted, {},
                           [](const Table::value_type* field) -> const std::string& { return field->first; });
  append_number(facts, static_cast<std::uint64_t>(sorted.size()));
  for (const Table::value_type* field : sorted) {
    append_text(facts, field->first);
    append_value(facts, field->second);
  }
}

struct ValueWriter {
  std::string& facts;
  void operator()(std::monostate) const {}
  void operator()(bool yes) const { facts += yes ? '1' : '0'; }
  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void operator()(Number number) const { append_number(facts, number); }
  void operator()(const Decimal& number) const {
    append_number(facts, number.scale);
    append_number(facts, number.value);
  }
  void operator()(const Timestamp& time) const { append_number(facts, time.seconds); }
  void operator()(const std::string& text) const { append_text(facts, text); }
  void operator()(const Bytes& bytes) const { append_text(facts, bytes.data); }
  void operator()(const Array& array) const {
    append_number(facts, static_cast<std::uint64_t>(array.size()));
    for (const Value& value : array) append_value(facts, value);
  }
  void operator()(const Table& table) const { append_table(facts, table); }
};

void append_value(std::string& facts, const Value& value) {
  facts += static_cast<char>('a' + value.v.index());  // its type
  std::visit(ValueWriter{facts}, value.v);
}

void append_property(std::string& facts, const std::optional<std::string>& property) {
  facts += property ? '1' : '0';
  if (property) append_text(facts, *property);
}
template <typename Number>
void append_property(std::string& facts, const std::optional<Number>& property) {
  facts += property ? '1' : '0';
  if (property) append_number(facts, *property);
}

// Of `message_id` and body in the first half. delivery_mode, expiration and user_id are never published
// again.
void append_properties(std::string& facts, const Properties& p) {
  append_property(facts, p.content_type);
  append_property(facts, p.content_encoding);
  append_property(facts, p.priority);
  append_property(facts, p.correlation_id);
  append_property(facts, p.reply_to);
  append_property(facts, p.timestamp);
  append_property(facts, p.type);
  append_property(facts, p.app_id);
  append_property(facts, p.cluster_id);
}

std::string half_of(std::string_view facts) { return key_of_facts(facts).substr(0, kHalf); }

std::string first_half(const Message& message) {
  std::string facts;
  append_property(facts, message.properties.message_id);
  append_digest(facts, message.body);
  return half_of(facts);
}

}  // namespace

std::string message_digest(const Message& stripped) {
  std::string facts;
  append_properties(facts, stripped.properties);
  // A message without headers comes back with an empty table.
  append_table(facts, stripped.headers ? *stripped.headers : Table{});
  return first_half(stripped) + half_of(facts);
}

bool has_body_of(const Message& message, std::string_view digest) {
  return digest.substr(0, kHalf) == first_half(message);
}

Likeness likeness_of(std::string_view digest, std::string_view other) {
  if (digest == other) return Likeness::same;
  return digest.substr(0, kHalf) == other.substr(0, kHalf) ? Likeness::changed : Likeness::other;
}

}  // namespace rung
