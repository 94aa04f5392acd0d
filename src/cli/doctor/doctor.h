// rung doctor: one finding per line. Checks of an unreachable service are skipped.
// Thread: one; the checks block, bounded by timeouts. They change nothing on the servers.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugin/rabbitmq/topology/probe.h"
#include "src/config/config.h"
#include "src/core/base/time.h"

namespace rung::cli {

// How long a check waits for a service, for connecting and for each answer.
inline constexpr Ms kDoctorTimeout{std::chrono::seconds{5}};

struct Finding {
  enum class Status { ok, warn, wrong, skipped };
  std::string name;  // "broker.login": for scripts
  Status status = Status::ok;
  std::string what;          // a sentence
  std::string fix;           // the command or change that fixes it; "" if nothing is to be fixed
  bool unreachable = false;  // wrong because a service does not answer
};

class Findings {
 public:
  using Status = Finding::Status;

  void add(std::string name, Status status, std::string what, std::string fix = {}, bool away = false) {
    all.push_back({std::move(name), status, std::move(what), std::move(fix), away});
  }
  void ok(std::string name, std::string what) { add(std::move(name), Status::ok, std::move(what)); }
  void skip(std::string name, std::string what) { add(std::move(name), Status::skipped, std::move(what)); }
  void warn(std::string name, std::string what, std::string fix) {
    add(std::move(name), Status::warn, std::move(what), std::move(fix));
  }
  void wrong(std::string name, std::string what, std::string fix) {
    add(std::move(name), Status::wrong, std::move(what), std::move(fix));
  }

  std::vector<Finding> all;
};

// The broker. Over AMQP: login, virtual host, permissions, Rung's exchanges and queues, those that the config
// names or matches, error queues. Over the management API: access, attachment of the queues in the config,
// types and policies. Returns the connection; nullptr: there is none.
std::unique_ptr<rabbit::Probe> check_broker(const Config& config, const Clock& clock, Findings& out);
void check_database(const Config& config, const Clock& clock, Findings& out);
// Whether the two belong together. `probe`: nullptr = the broker is not available.
void check_ownership(const Config& config, const Clock& clock, rabbit::Probe* probe, Findings& out);
// The collector of traces; nothing without otel.endpoint.
void check_collector(const Config& config, Findings& out);
// The identity provider: its discovery document and its keys; nothing without http.oidc.
void check_identity_provider(const Config& config, Findings& out);

}  // namespace rung::cli
