// rung doctor: one finding per line. Checks of an unreachable service are skipped.
// Thread: one; the checks block, bounded by timeouts. They change nothing on the servers.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/rabbitmq/topology/attachment.h"
#include "src/config/config.h"
#include "src/core/base/clock.h"

namespace rung::cli {

// How long a check waits for a service, for connecting and for each answer.
inline constexpr Ms kDoctorTimeout{std::chrono::seconds{5}};

// Findings for the queues of one pattern.
inline constexpr std::size_t kMostOfPattern = 20;

struct Finding {
  enum class Status { ok, warn, wrong, skipped };
  std::string name;  // "broker.login": for scripts
  Status status = Status::ok;
  std::string what;          // a sentence
  std::string fix;           // the command or change that fixes it; "" if nothing is to be fixed
  bool unreachable = false;  // wrong because a service does not answer
};
using Findings = std::vector<Finding>;

inline Finding good(std::string name, std::string what) {
  return {std::move(name), Finding::Status::ok, std::move(what), {}};
}
inline Finding warning(std::string name, std::string what, std::string fix) {
  return {std::move(name), Finding::Status::warn, std::move(what), std::move(fix)};
}
inline Finding wrong(std::string name, std::string what, std::string fix) {
  return {std::move(name), Finding::Status::wrong, std::move(what), std::move(fix)};
}
inline Finding unreachable(std::string name, std::string what, std::string fix) {
  return {std::move(name), Finding::Status::wrong, std::move(what), std::move(fix), true};
}
inline Finding skipped(std::string name, std::string what) {
  return {std::move(name), Finding::Status::skipped, std::move(what), {}};
}

// The queues of the virtual host, from the management API. Listed once, for all checks: there may be many.
class QueueList {
 public:
  explicit QueueList(const BrokerOptions& broker) : broker_(broker) {}
  const Result<std::vector<rabbit::QueueFacts>>& get() {
    if (!listed_) listed_ = list();
    return *listed_;
  }

 private:
  Result<std::vector<rabbit::QueueFacts>> list() const {
    auto admin = rabbit::management_admin(broker_, kDoctorTimeout);
    if (!admin) return tl::unexpected(admin.error());
    return (*admin)->queues();
  }

  const BrokerOptions& broker_;
  std::optional<Result<std::vector<rabbit::QueueFacts>>> listed_;
};

// Over AMQP: login, virtual host, permissions, Rung's exchanges and queues, and those that the config names
// or matches.
Findings check_broker(const Config& config, QueueList& list, const Clock& clock);
// Over the management API: access, attachment of the queues in the config, types and policies.
Findings check_management(const Config& config, QueueList& list);
// error_queues of the config: whether they exist and can be read, and where their messages go back to.
Findings check_error_queues(const Config& config, QueueList& list, const Clock& clock);
Findings check_database(const Config& config, const Clock& clock);
// Whether the two belong together.
Findings check_ownership(const Config& config, const Clock& clock);
// The collector of traces; nothing without otel.endpoint.
Findings check_collector(const Config& config);
// The identity provider: its discovery document and its keys; nothing without http.oidc.
Findings check_identity_provider(const Config& config);
// On this machine: the HTTP address, permissions of files with secrets.
Findings check_machine(const Config& config, const std::string& config_path);

}  // namespace rung::cli
