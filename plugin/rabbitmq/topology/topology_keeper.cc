#include "plugin/rabbitmq/topology/topology_keeper.h"

#include <chrono>
#include <string_view>
#include <utility>

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

// --- the keeper ---

TopologyKeeper::TopologyKeeper(ConnectionLoop::Deps deps, OwnQueueTypes& types,
                               std::function<void()> return_route_changed)
    : options_(deps.options),
      types_(types),
      return_route_changed_(std::move(return_route_changed)),
      loop_(deps,
            {.thread_name = "rung-topology",
             .purpose = "topology",
             .side = {},
             .any_broker = true,  // it is the one that reports another broker
             .address_failed_when_over = false},
            {.turn = [this](Connection& connection) { return turn(connection); },
             .over =
                 [this](const ConnectionLoop::End&) {
                   channel_open_ = false;
                   const std::lock_guard lock(mutex_);
                   claim_due_ = !claim_.database.empty();  // the next connection may lead elsewhere
                 }}) {}

TopologyKeeper::~TopologyKeeper() { join(); }

// The consumer declares the topology when it connects, so the first check comes after one interval.
void TopologyKeeper::start() {
  schedule_next();
  loop_.start();
}

void TopologyKeeper::schedule_next() { next_check_ = loop_.now() + options_.rabbitmq.topology_check; }

void TopologyKeeper::claim(std::string database, bool mark) {
  {
    const std::lock_guard lock(mutex_);
    claim_ = {std::move(database), mark};
    claim_due_ = true;
  }
  loop_.wake();
}

Result<BootMs> TopologyKeeper::turn(Connection& connection) {
  if (auto open = loop_.skip_frames(connection); !open) return tl::unexpected(open.error());
  if (loop_.stopping()) return loop_.finish(connection, std::chrono::seconds{1});
  if (loop_.now() >= next_check_) {
    if (auto done = check(connection); !done) return tl::unexpected(done.error());
    schedule_next();
    const std::lock_guard lock(mutex_);
    claim_due_ = !claim_.database.empty();
  }
  if (auto done = look_at_owner(connection); !done) return tl::unexpected(done.error());
  if (auto done = connection.tick(); !done) return tl::unexpected(done.error());
  return next_check_;
}

Result<void> TopologyKeeper::open_channel(Connection& connection) {
  if (channel_open_) return {};
  auto opened = loop_.calls(connection).open_channel();
  channel_open_ = opened.has_value();
  return opened;
}

Result<void> TopologyKeeper::look_at_owner(Connection& connection) {
  OwnerClaim claim;
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(claim_due_, false)) return {};
    claim = claim_;
  }
  if (auto opened = open_channel(connection); !opened) return opened;
  auto report = read_owner(options_, claim, loop_.calls(connection));
  if (!report) return tl::unexpected(report.error());
  loop_.sink().sink().on_place(*report);
  return {};
}

Result<void> TopologyKeeper::check(Connection& connection) {
  if (auto opened = open_channel(connection); !opened) return opened;
  const auto report = declare_topology(options_, types_, loop_.calls(connection), Pass::check);
  if (!report) return tl::unexpected(report.error());
  if (report->return_route_changed) return_route_changed_();
  loop_.sink().sink().on_topology(*report);
  return {};
}

}  // namespace rung::rabbit
