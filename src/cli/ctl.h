// rabbitmqctl as a QueueAdmin: what is left where there is no management API.
// Thread: one. Each call runs a program and waits for it, kCtlTimeout at most.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/management.h"
#include "src/core/result.h"

namespace rung::cli {

inline constexpr Ms kCtlTimeout{std::chrono::seconds{60}};

struct Ran {
  int exit = 0;  // 128 + signal where it was killed
  std::string out, err;
};
// Runs `words` (the first is found on PATH), stdin empty. Errors: transient: it cannot be started, or takes
// longer than `timeout` (it is killed then).
Result<Ran> run_program(const std::vector<std::string>& words, Ms timeout);

// $RUNG_RABBITMQCTL (a command and its first arguments, split at blanks: "docker exec mq rabbitmqctl"), else
// the rabbitmqctl on PATH. reach() makes sure that it speaks for the broker of the config; a command that the
// user named is taken on its word.
std::unique_ptr<rabbit::QueueAdmin> ctl_admin(const BrokerOptions& options);

// What list_queues and list_policies print (3.10: arguments as triples, definitions as text; later as
// objects).
Result<std::vector<rabbit::Policy>> read_policies(std::string_view json);
Result<std::vector<rabbit::QueueFacts>> read_queues(std::string_view json);
Result<rabbit::QueueFacts> read_queue(std::string_view json, std::string_view name, std::string_view vhost);
// Whether `status` names a listener for AMQP at `port`.
bool listens_at(std::string_view status_json, int port);

}  // namespace rung::cli
