// rabbitmqctl as a QueueAdmin, the fallback without a management API.
// Thread: one. Each call runs a program and waits for it, at most kCtlTimeout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/topology/management.h"
#include "src/core/base/result.h"
#include "src/io/program.h"

namespace rung::cli {

inline constexpr Ms kCtlTimeout{std::chrono::seconds{60}};

using io::Ran;
using io::run_program;

// $RUNG_RABBITMQCTL (a command and its first arguments, split at spaces: "docker exec mq rabbitmqctl"), or
// the rabbitmqctl on PATH. reach() checks that it manages the broker of the config, but trusts a command that
// the user named.
std::unique_ptr<rabbit::QueueAdmin> ctl_admin(const BrokerOptions& options);

// Parse the output of list_queues and list_policies (3.10: arguments as triples, definitions as text; later
// as objects).
Result<std::vector<rabbit::Policy>> read_policies(std::string_view json);
Result<std::vector<rabbit::QueueFacts>> read_queues(std::string_view json);
Result<rabbit::QueueFacts> read_queue(std::string_view json, std::string_view name, std::string_view vhost);
// Whether `status` has an AMQP listener on `port`.
bool listens_at(std::string_view status_json, int port);

}  // namespace rung::cli
