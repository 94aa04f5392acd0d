// What Rung serves at a broker: one prefix in one name space of one broker. A database serves one place, and
// a place belongs to one database; src/store/ownership.h keeps what the database remembers,
// BrokerSink::on_place reports what the broker does. Thread: values, and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rung {

struct BrokerPlace {
  std::string cluster;  // the broker's own name (RabbitMQ: cluster_name); "" = it has none
  std::string space;    // RabbitMQ: the virtual host
  std::string prefix;   // of Rung's exchanges and queues
  bool operator==(const BrokerPlace&) const = default;
};

// JSON, as it is stored: the same place always gives the same text.
std::string to_text(const BrokerPlace& place);
// None for a text that to_text() cannot have made.
std::optional<BrokerPlace> place_from_text(std::string_view text);
// For people: "broker 'rabbit@a', virtual host '/', prefix 'rung'".
std::string describe(const BrokerPlace& place);

// An answer to Broker::claim(), and the result of each later look at the mark.
struct PlaceReport {
  BrokerPlace place;
  std::string asked_for;  // the database that the claim named
  std::string owner;    // the database that the place is marked with; "" = no mark, or not known: see problem
  std::string problem;  // why the mark cannot be read or set; "" = nothing
  std::int64_t consumers = 0;  // of <prefix>.failed: each instance that serves the place is one
};

// The owner in a report if the mark cannot be this program's.
inline constexpr std::string_view kUnknownOwner = "unknown";

}  // namespace rung
