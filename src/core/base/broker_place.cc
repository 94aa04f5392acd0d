#include "src/core/base/broker_place.h"

#include <nlohmann/json.hpp>

namespace rung {

using Json = nlohmann::ordered_json;

std::string to_text(const BrokerPlace& place) {
  const Json json = {{"cluster", place.cluster}, {"space", place.space}, {"prefix", place.prefix}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // names are bytes of the broker's users
}

std::optional<BrokerPlace> place_from_text(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  BrokerPlace place;
  for (const auto& [name, field] :
       {std::pair{"cluster", &place.cluster}, {"space", &place.space}, {"prefix", &place.prefix}}) {
    const auto it = json.find(name);
    if (it == json.end() || !it->is_string()) return std::nullopt;
    *field = it->get<std::string>();
  }
  return place;
}

std::string describe(const BrokerPlace& place) {
  return "broker '" + place.cluster + "', virtual host '" + place.space + "', prefix '" + place.prefix + "'";
}

}  // namespace rung
