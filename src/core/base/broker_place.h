// What Rung serves at a broker: one prefix in one name space of one broker. A database serves one place, and
// a place belongs to one database; src/store/store.h keeps what the database remembers,
// BrokerSink::on_place reports what the broker does. Thread: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rung {

struct BrokerPlace {
  std::string cluster;  // the broker's own name (RabbitMQ: cluster_name); "" = it has none
  std::string space;    // RabbitMQ: the virtual host
  std::string prefix;   // of Rung's exchanges and queues
  bool operator==(const BrokerPlace&) const = default;
};

// For people: "broker 'rabbit@a', virtual host '/', prefix 'rung'".
inline std::string describe(const BrokerPlace& place) {
  return "broker '" + place.cluster + "', virtual host '" + place.space + "', prefix '" + place.prefix + "'";
}

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
