// Which place of which broker this database serves: two rows of rung_settings. `database_id` is random, and
// the broker's mark (Broker::claim) shows it; `serves_broker` is the place (to_text()), written by the first
// instance that finds the place free. From then on only a person changes them (`rung adopt`).
// Thread, errors: store.h.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "src/core/base/broker_place.h"
#include "src/core/base/result.h"
#include "src/store/store.h"

namespace rung {

struct Ownership {
  std::string database;               // its id; "" = it has none yet
  std::optional<BrokerPlace> serves;  // none = no place yet
};

// JSON, as it is stored: the same place always gives the same text.
std::string to_text(const BrokerPlace& place);

// Creates the id if there is none; remembers `if_none` if the database serves no place yet. Concurrent calls
// get the same answer.
Ownership read_ownership(Store& store, const std::optional<BrokerPlace>& if_none);
// Changes nothing.
Ownership look_at_ownership(Store& store);
// Gives the database a new id, so that no copy of it is taken for it, and this place. Returns the id.
std::string change_ownership(Store& store, const BrokerPlace& place);

// Why an instance must not serve the reported place with this database, and what to do; "" = it may, as far
// as is known. REQUIRES: report.asked_for is the database's id.
std::string conflict(const Ownership& ownership, const PlaceReport& report);
// Whether more instances serve the place than the `live` ones of this database: then those of a copy of it,
// which has the same id. "" = no. For a moment also after the end of a process that could not say goodbye.
std::string shared(const PlaceReport& report, std::size_t live);

}  // namespace rung
