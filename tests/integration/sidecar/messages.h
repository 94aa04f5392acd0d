// Messages for the tests of the sidecar.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "tests/support/messages.h"
#include "tests/support/sidecar.h"

namespace rung::test {

// A typical message of a shop: content type, type, message-id, two headers.
inline Message order(std::string body = "{\"order\": 7}") {
  Message message;
  message.properties.content_type = "application/json";
  message.properties.type = "order.created";
  message.properties.message_id = unique_name("m");
  message.headers = Table{{"tenant", "acme"}, {"tries", std::int64_t{3}}};
  message.body = std::move(body);
  return message;
}

// What the contract says that Rung adds.
inline constexpr std::array<std::string_view, 10> kAdded = {"retry-id",
                                                            "retry-attempt",
                                                            "retry-level",
                                                            "retry-levels",
                                                            "retry-ladder",
                                                            "retry-first-failed-at",
                                                            "retry-origin-exchange",
                                                            "retry-origin-routing-key",
                                                            "retry-reason",
                                                            "retry-token"};

// The headers without those, to compare with the original.
inline Table without_added(const Message& message) {
  Table out;
  for (const auto& [name, value] : message.headers.value_or(Table{})) {
    if (std::ranges::find(kAdded, name) == kAdded.end()) out.emplace_back(name, value);
  }
  return out;
}

// Checks that the message came back unchanged: body, properties and headers to the byte, apart from the
// headers that the contract says Rung adds.
inline void expect_same(const Message& before, const Message& back) {
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

// A row as one line, for the output of a failed test.
inline std::string described(const Row& row) {
  std::string out;
  for (const auto& [name, value] : row) out += name + "=" + value + " ";
  return out;
}

}  // namespace rung::test
