// rung doctor: one finding per line. Checks of an unreachable service are skipped.
// Thread: one; the checks block, bounded by timeouts. They change nothing on the servers.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "plugin/rabbitmq/topology/probe.h"
#include "src/cli/shared/command.h"
#include "src/config/config.h"
#include "src/core/base/time.h"

namespace rung::cli {

// How long a check waits for a service, for connecting and for each answer.
inline constexpr Ms kDoctorTimeout{std::chrono::seconds{5}};

// What was found: rows {name, status, what, fix}. `name`: "broker.login", for scripts. `what`: a sentence.
// `fix`: the command or change that fixes it; "" if nothing is to be fixed.
struct Findings {
  void ok(const std::string& name, const std::string& what) { add("ok", name, what); }
  void skip(const std::string& name, const std::string& what) { add("skipped", name, what); }
  void warn(const std::string& name, const std::string& what, const std::string& fix) {
    add("warn", name, what, fix);
  }
  void wrong(const std::string& name, const std::string& what, const std::string& fix) {
    add("wrong", name, what, fix);
  }
  // Wrong because a service does not answer.
  void away(const std::string& name, const std::string& what, const std::string& fix) {
    wrong(name, what, fix);
    unreachable = true;
  }
  void add(const char* status, const std::string& name, const std::string& what, const std::string& fix = {});

  Json rows = Json::array();
  bool unreachable = false;
};

// The broker. Over AMQP: login, virtual host, permissions, Rung's exchanges and queues, those that the config
// names or matches, error queues. Over the management API: access, attachment of the queues in the config,
// types and policies. Returns the connection; nullptr: there is none.
std::unique_ptr<rabbit::Probe> check_broker(const Config& config, const Clock& clock, Findings& out);

}  // namespace rung::cli
