// People pause, resume and abort bulks. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/core/base/result.h"
#include "src/store/store.h"

namespace rung::api {

struct BulkControl {
  std::int64_t id = 0;
  BulkState state = BulkState::running;  // the one wanted
  std::optional<double> rate = {};       // of a resume: a new one
  std::string who, reason;               // reason: as the person gave it; "" = none
};
// nullopt: there is no such bulk. One that has ended in another state keeps it. A change is recorded as an
// event (bulk_paused, bulk_resumed, bulk_aborted), with who asked for it and why.
Result<std::optional<Bulk>> control_bulk(Store& store, const BulkControl& control);

}  // namespace rung::api
