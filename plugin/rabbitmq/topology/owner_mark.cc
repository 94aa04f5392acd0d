#include "plugin/rabbitmq/topology/owner_mark.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "src/core/base/url.h"

namespace rung::rabbit {
namespace {

constexpr std::size_t kMostOfName = 255;  // of the cluster's name, which its users choose

const Connection::Others kNoOthers = [](const Frame&) {};

std::string database_name(const std::string& prefix, const std::string& database) {
  return prefix + ".database-" + database;
}

// One declare of the exchange; passive without arguments, or with the argument that is ours.
class Declares {
 public:
  Declares(const BrokerOptions& options, Connection& connection, Waker& waker, BootMs deadline)
      : name_(owner_exchange(options.prefix)), connection_(connection), waker_(waker), deadline_(deadline) {}

  // 0 = done; else the code of the refusal, whose text is then in refusal(). Error: the connection has ended.
  Result<int> passive() {
    amqp_exchange_declare_t fields = basics();
    fields.passive = 1;
    return send(fields);
  }
  Result<int> with(const std::string& alternate) {
    amqp_table_entry_t entry{};
    entry.key = amqp_cstring_bytes("alternate-exchange");
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = bytes(alternate);
    amqp_exchange_declare_t fields = basics();
    fields.arguments = {1, &entry};
    return send(fields);
  }
  const std::string& refusal() const { return refusal_; }

 private:
  amqp_exchange_declare_t basics() const {
    amqp_exchange_declare_t fields{};
    fields.exchange = bytes(name_);
    fields.type = amqp_cstring_bytes("fanout");
    fields.durable = 1;
    return fields;
  }
  Result<int> send(const amqp_exchange_declare_t& fields) {
    const auto done = connection_.call(AMQP_EXCHANGE_DECLARE_METHOD, &fields, AMQP_EXCHANGE_DECLARE_OK_METHOD,
                                       waker_, deadline_, kNoOthers);
    if (done) return 0;
    if (!connection_.channel_closed()) return tl::unexpected(done.error());
    refusal_ = done.error().message;
    const int code = connection_.closing().code;
    if (auto opened = connection_.open_channel(waker_, deadline_, kNoOthers); !opened)
      return tl::unexpected(opened.error());
    return code;
  }

  const std::string name_;
  Connection& connection_;
  Waker& waker_;
  const BootMs deadline_;
  std::string refusal_;
};

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

Result<PlaceReport> read_owner(const BrokerOptions& options, const OwnerClaim& claim, Connection& connection,
                               Waker& waker, BootMs deadline) {
  PlaceReport report;
  report.place = {connection.cluster().substr(0, kMostOfName), connection.address().url.vhost(),
                  options.prefix};
  report.asked_for = claim.database;
  Declares declares(options, connection, waker, deadline);
  const auto there = declares.passive();
  if (!there) return tl::unexpected(there.error());
  if (*there == AMQP_NOT_FOUND && !claim.mark) return report;
  int code = *there;
  if (code == 0 || code == AMQP_NOT_FOUND) {
    // Also creates it: whoever comes first, and the other is refused here.
    const auto ours = declares.with(database_name(options.prefix, claim.database));
    if (!ours) return tl::unexpected(ours.error());
    code = *ours;
  }
  if (code == 0) {
    report.owner = claim.database;
  } else if (code == AMQP_PRECONDITION_FAILED) {
    report.owner = owner_in(declares.refusal(), options.prefix);
  } else {
    report.problem = "exchange " + owner_exchange(options.prefix) +
                     ", which shows whose the prefix is: " + declares.refusal() + " (docs/permissions.md)";
  }
  return report;
}

Result<void> delete_owner(const BrokerOptions& options, Connection& connection, Waker& waker,
                          BootMs deadline) {
  const std::string name = owner_exchange(options.prefix);
  amqp_exchange_delete_t fields{};
  fields.exchange = bytes(name);
  const auto done = connection.call(AMQP_EXCHANGE_DELETE_METHOD, &fields, AMQP_EXCHANGE_DELETE_OK_METHOD,
                                    waker, deadline, kNoOthers);
  if (done) return {};
  return tl::unexpected(done.error());
}

}  // namespace rung::rabbit
