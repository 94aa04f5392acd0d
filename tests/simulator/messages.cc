#include "tests/simulator/messages.h"

#include <algorithm>
#include <variant>

namespace rung::sim {

void add_death(Message& message, const std::string& queue, const std::string& exchange,
               const std::string& key, std::int64_t time_s) {
  if (!message.headers) message.headers.emplace();
  Table& headers = *message.headers;
  auto at = std::ranges::find(headers, "x-death", [](const auto& h) { return h.first; });
  if (at == headers.end()) at = headers.insert(headers.end(), {"x-death", Array{}});
  auto& deaths = std::get<Array>(at->second.v);
  const auto same = std::ranges::find_if(
      deaths, [&](const Value& v) { return *find(std::get<Table>(v.v), "queue")->as_text() == queue; });
  std::int64_t count = 0;
  if (same != deaths.end()) {
    count = find(std::get<Table>(same->v), "count")->as_int().value_or(0);
    deaths.erase(same);
  }
  deaths.insert(deaths.begin(), Table{{"count", count + 1},
                                      {"reason", "rejected"},
                                      {"queue", queue},
                                      {"time", Timestamp{static_cast<std::uint64_t>(time_s)}},
                                      {"exchange", exchange},
                                      {"routing-keys", Array{Value(key)}}});
}

}  // namespace rung::sim
