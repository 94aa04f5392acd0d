#include "tests/simulator/dead_letter.h"

#include <algorithm>
#include <variant>

namespace rung::sim {

void add_death(Message& message, const std::string& reason, const std::string& queue,
               const std::string& exchange, const std::string& key, std::int64_t time_s) {
  if (!message.headers) message.headers.emplace();
  Table& headers = *message.headers;
  auto at = std::find_if(headers.begin(), headers.end(), [](const auto& h) { return h.first == "x-death"; });
  if (at == headers.end()) at = headers.insert(headers.end(), {"x-death", Array{}});
  if (!std::holds_alternative<Array>(at->second.v)) at->second = Array{};
  auto& deaths = std::get<Array>(at->second.v);
  const auto same = std::find_if(deaths.begin(), deaths.end(), [&](const Value& v) {
    const Table* death = std::get_if<Table>(&v.v);
    const Value* name = death != nullptr ? find(*death, "queue") : nullptr;
    const Value* why = death != nullptr ? find(*death, "reason") : nullptr;
    const auto is = [](const Value* value, const std::string& text) {
      return value != nullptr && value->as_text() != nullptr && *value->as_text() == text;
    };
    return is(name, queue) && is(why, reason);
  });
  std::int64_t count = 0;
  if (same != deaths.end()) {
    if (const Value* before = find(std::get<Table>(same->v), "count")) count = before->as_int().value_or(0);
    deaths.erase(same);
  }
  deaths.insert(deaths.begin(), Table{{"count", count + 1},
                                      {"reason", reason},
                                      {"queue", queue},
                                      {"time", Timestamp{static_cast<std::uint64_t>(time_s)}},
                                      {"exchange", exchange},
                                      {"routing-keys", Array{Value(key)}}});
}

}  // namespace rung::sim
