#include "src/api/bulks.h"

#include "src/core/base/utf8.h"

namespace rung::api {
namespace {

const char* event_of(BulkState state) {
  switch (state) {
    case BulkState::paused:
      return "bulk_paused";
    case BulkState::aborted:
      return "bulk_aborted";
    default:
      return "bulk_resumed";
  }
}

}  // namespace

Result<std::optional<Bulk>> control_bulk(Store& store, const BulkControl& control) {
  const auto before = store.bulk(control.id);
  if (!before) return tl::unexpected(before.error());
  auto after = store.set_bulk(control.id, control.state, control.rate);
  if (!after || !*after) return after;
  const bool changed = *before && (*before)->state != (*after)->state;
  if (!changed || (*after)->state != control.state) return after;
  std::string detail = "by " + control.who + " at " + std::to_string((*after)->done) + " of " +
                       std::to_string((*after)->total);
  if (!control.reason.empty()) detail += ": " + clean_utf8(control.reason, kErrorBytes);
  const SystemEvent event{0, {}, "", event_of(control.state), std::to_string(control.id), std::move(detail)};
  if (auto recorded = store.record_event(0, event); !recorded) return tl::unexpected(recorded.error());
  return after;
}

}  // namespace rung::api
