#include "plugin/rabbitmq/topology/owner_mark.h"

#include <string_view>

#include "src/core/base/url.h"

namespace rung::rabbit {
namespace {

constexpr std::size_t kMostOfName = 255;  // of the cluster's name, which its users choose

std::string database_name(const std::string& prefix, const std::string& database) {
  return prefix + ".database-" + database;
}

// What became of a declare: 0 = done; else the code of the refusal, whose text is then in `refusal`; the
// channel has been opened again. Error: the connection has ended.
Result<int> outcome(const Calls& calls, const Result<void>& declared, std::string& refusal) {
  if (declared) return 0;
  if (!calls.connection.channel_closed()) return tl::unexpected(declared.error());
  refusal = declared.error().message;
  const int code = calls.connection.closing().code;
  if (auto opened = calls.open_channel(); !opened) return tl::unexpected(opened.error());
  return code;
}

// From "... received the value 'A' ... but current is the value 'B' ...", of which the end may be missing.
std::string owner_in(std::string_view refusal, const std::string& prefix) {
  const std::string before = database_name(prefix, "");
  const std::size_t current = refusal.find("but current is");
  if (current == std::string_view::npos) return std::string(kUnknownOwner);
  std::size_t at = refusal.find(before, current);
  if (at == std::string_view::npos) return std::string(kUnknownOwner);
  at += before.size();
  const std::size_t end = refusal.find('\'', at);
  if (end == std::string_view::npos || end == at) return std::string(kUnknownOwner);
  return std::string(refusal.substr(at, end - at));
}

}  // namespace

std::string owner_exchange(const std::string& prefix) { return prefix + ".owner"; }

Result<PlaceReport> read_owner(const BrokerOptions& options, const OwnerClaim& claim, const Calls& calls) {
  PlaceReport report;
  report.place = {calls.connection.cluster().substr(0, kMostOfName), calls.connection.address().url.vhost(),
                  options.prefix};
  report.asked_for = claim.database;
  const std::string name = owner_exchange(options.prefix);
  std::string refusal;
  const auto there = outcome(calls, calls.exchange(name, kFanout, true), refusal);
  if (!there) return tl::unexpected(there.error());
  if (*there == AMQP_NOT_FOUND && !claim.mark) return report;
  int code = *there;
  if (code == 0 || code == AMQP_NOT_FOUND) {
    // Also creates it: whoever comes first, and the other is refused here.
    const std::string alternate = database_name(options.prefix, claim.database);
    const auto ours = outcome(calls, calls.exchange_with_alternate(name, kFanout, alternate), refusal);
    if (!ours) return tl::unexpected(ours.error());
    code = *ours;
  }
  if (code == 0) {
    report.owner = claim.database;
  } else if (code == AMQP_PRECONDITION_FAILED) {
    report.owner = owner_in(refusal, options.prefix);
  } else {
    report.problem =
        "exchange " + name + ", which shows whose the prefix is: " + refusal + " (docs/permissions.md)";
  }
  const auto inlet = calls.look_at_queue(options.prefix + ".failed");
  if (inlet) {
    report.consumers = inlet->consumer_count;
  } else if (const auto none = outcome(calls, tl::unexpected(inlet.error()), refusal); !none) {
    return tl::unexpected(none.error());
  }
  return report;
}

Result<void> delete_owner(const BrokerOptions& options, const Calls& calls) {
  const std::string name = owner_exchange(options.prefix);
  amqp_exchange_delete_t fields{};
  fields.exchange = bytes(name);
  return calls.send(AMQP_EXCHANGE_DELETE_METHOD, &fields);
}

}  // namespace rung::rabbit
