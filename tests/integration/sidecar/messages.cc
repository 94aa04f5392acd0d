#include "tests/integration/sidecar/messages.h"

#include <algorithm>
#include <array>

namespace rung::test {
namespace {

constexpr std::array<std::string_view, 10> kAdded = {"retry-id",
                                                     "retry-attempt",
                                                     "retry-level",
                                                     "retry-levels",
                                                     "retry-ladder",
                                                     "retry-first-failed-at",
                                                     "retry-origin-exchange",
                                                     "retry-origin-routing-key",
                                                     "retry-reason",
                                                     "retry-token"};

std::uint64_t below(std::mt19937_64& random, std::uint64_t most) { return most == 0 ? 0 : random() % most; }

std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t eight = random();
    for (std::size_t k = i; k < std::min(size, i + 8); ++k)
      out[k] = static_cast<char>(eight >> ((k - i) * 8));
  }
  return out;
}

std::string random_text(std::mt19937_64& random, std::size_t most) {
  static constexpr std::array<const char*, 8> kPieces = {"a",        "Zz",           "9",   " ",
                                                         "\xc3\xbc", "\xe2\x82\xac", "\"'", "\\%"};
  std::string out;
  const std::uint64_t pieces = below(random, most);
  for (std::uint64_t i = 0; i < pieces && out.size() + 3 < most; ++i)
    out += kPieces[below(random, kPieces.size())];
  return out;
}

Value random_value(std::mt19937_64& random, int depth) {
  switch (below(random, depth > 0 ? 13 : 11)) {
    case 0:
      return Value{};
    case 1:
      return Value{below(random, 2) == 1};
    case 2:
      return Value{static_cast<std::int8_t>(random())};
    case 3:
      return Value{static_cast<std::int16_t>(random())};
    case 4:
      return Value{static_cast<std::int32_t>(random())};
    case 5:
      return Value{static_cast<std::int64_t>(random())};
    case 6:
      return Value{static_cast<double>(static_cast<std::int64_t>(random())) / 1024.0};
    case 7:
      return Value{Timestamp{below(random, 4'000'000'000)}};
    case 8:
      return Value{random_text(random, 200)};
    case 9:
      return Value{Bytes{random_bytes(random, below(random, 100))}};
    case 10:
      return Value{Decimal{static_cast<std::uint8_t>(below(random, 10)),
                           static_cast<std::int32_t>(below(random, 1'000'000))}};
    case 11: {
      Array array;
      for (std::uint64_t i = below(random, 4); i > 0; --i) array.push_back(random_value(random, depth - 1));
      return Value{std::move(array)};
    }
    default: {
      Table table;
      for (std::uint64_t i = below(random, 4); i > 0; --i) {
        table.emplace_back("k" + std::to_string(i), random_value(random, depth - 1));
      }
      return Value{std::move(table)};
    }
  }
}

}  // namespace

Message order(std::string body) {
  Message message;
  message.properties.content_type = "application/json";
  message.properties.type = "order.created";
  message.properties.message_id = unique_name("m");
  message.headers = Table{{"tenant", "acme"}, {"tries", std::int64_t{3}}};
  message.body = std::move(body);
  return message;
}

Message random_message(std::mt19937_64& random, std::size_t size) {
  Message m;
  m.body = random_bytes(random, size);
  if (below(random, 2) == 1) m.properties.content_type = random_text(random, 60);
  if (below(random, 2) == 1) m.properties.message_id = "m" + std::to_string(random());
  if (below(random, 2) == 1) m.properties.correlation_id = random_text(random, 200);
  if (below(random, 2) == 1) m.properties.priority = static_cast<std::uint8_t>(below(random, 10));
  if (below(random, 2) == 1) m.properties.timestamp = below(random, 4'000'000'000);
  if (below(random, 2) == 1) m.properties.type = random_text(random, 40);
  if (below(random, 2) == 1) m.properties.reply_to = random_text(random, 40);
  m.properties.delivery_mode = 2;
  m.headers.emplace();
  for (std::uint64_t i = below(random, 12); i > 0; --i) {
    m.headers->emplace_back("h" + std::to_string(i) + random_text(random, 12), random_value(random, 3));
  }
  return m;
}

Table without_added(const Message& message) {
  Table out;
  for (const auto& [name, value] : message.headers.value_or(Table{})) {
    if (std::ranges::find(kAdded, name) == kAdded.end()) out.emplace_back(name, value);
  }
  return out;
}

void expect_same(const Message& before, const Message& back) {
  EXPECT_EQ(before.body == back.body, true) << before.body.size() << " bytes before, " << back.body.size();
  Properties expected = before.properties;
  expected.delivery_mode = 2;
  expected.user_id.reset();
  expected.expiration.reset();
  EXPECT_TRUE(expected == back.properties) << "properties differ";
  const Table headers = canonical(before.headers.value_or(Table{})), came = canonical(without_added(back));
  EXPECT_EQ(headers.size(), came.size());
  for (std::size_t i = 0; i < std::min(headers.size(), came.size()); ++i) {
    EXPECT_EQ(headers[i].first, came[i].first);
    EXPECT_TRUE(headers[i].second == came[i].second) << "header " << headers[i].first << " differs";
  }
}

std::string described(const Row& row) {
  std::string out;
  for (const auto& [name, value] : row) out += name + "=" + value + " ";
  return out;
}

}  // namespace rung::test
