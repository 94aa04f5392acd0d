#include "src/store/ownership.h"

#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "src/core/message/identity.h"

namespace rung {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kId = "database_id", kServes = "serves_broker";

// Short: it is part of an error text of RabbitMQ, which is cut after 255 bytes.
std::string new_id() {
  std::random_device random;
  std::string bytes;
  for (int i = 0; i < 6; ++i) bytes += static_cast<char>(random() & 0xFF);
  return to_hex(bytes);
}

// None for a text that to_text() cannot have made.
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

Ownership read(Store& store, std::string_view id_if_none, std::string_view place_if_none) {
  Ownership ownership{store.setting(kId, id_if_none), std::nullopt};
  const std::string serves = store.setting(kServes, place_if_none);
  // A text that somebody else wrote is a place that no broker is.
  if (!serves.empty()) ownership.serves = place_from_text(serves).value_or(BrokerPlace{serves, "", ""});
  return ownership;
}

constexpr std::string_view kAdopt =
    "If this broker and this database do belong together (a renamed or new cluster, a new or restored "
    "database), run `rung adopt`. See docs/operations.md";

}  // namespace

std::string to_text(const BrokerPlace& place) {
  const Json json = {{"cluster", place.cluster}, {"space", place.space}, {"prefix", place.prefix}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // names are bytes of the broker's users
}

Ownership read_ownership(Store& store, const std::optional<BrokerPlace>& if_none) {
  auto there = look_at_ownership(store);  // nearly always complete: then nothing is written
  if (!there.database.empty() && (there.serves || !if_none)) return there;
  return read(store, new_id(), if_none ? to_text(*if_none) : "");
}

Ownership look_at_ownership(Store& store) { return read(store, "", ""); }

std::string change_ownership(Store& store, const BrokerPlace& place) {
  std::string id = new_id();
  store.set_setting(kId, id);
  store.set_setting(kServes, to_text(place));
  return id;
}

std::string conflict(const Ownership& ownership, const PlaceReport& report) {
  if (ownership.serves && to_text(*ownership.serves) != to_text(report.place)) {
    return "this database serves " + describe(*ownership.serves) + ", but this config names " +
           describe(report.place) +
           ". Correct broker or store in the config (was it copied?): each broker, virtual host and prefix "
           "needs a database of its own. " +
           std::string(kAdopt);
  }
  if (!report.owner.empty() && report.owner != report.asked_for) {
    return "another database (id " + report.owner + ", this one is " + report.asked_for + ") serves " +
           describe(report.place) +
           ". Correct broker or store in the config (was it copied?), or give this installation a "
           "broker.prefix of its own. " +
           std::string(kAdopt);
  }
  return "";
}

std::string shared(const PlaceReport& report, std::size_t live) {
  if (report.owner != report.asked_for || report.consumers <= static_cast<std::int64_t>(live)) return "";
  return std::to_string(report.consumers) + " instances serve " + describe(report.place) + ", and only " +
         std::to_string(live) +
         " of them use this database: the others use a copy of it, and the two send messages twice. Run "
         "`rung "
         "adopt --yes` with the database that is to stay: the others then stop. See docs/operations.md";
}

}  // namespace rung
