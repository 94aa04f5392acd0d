// Error queues as a source: queues to which frameworks publish failed messages, and what becomes of these.
// error_queues of the config. Thread: immutable after construction; pure functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/rules/dialect.h"

namespace rung {

struct ErrorQueue {
  std::string from;         // a queue's name, or a pattern: * matches any text
  DialectPtr dialect = {};  // never nullptr in a config
  std::string to = {};      // the queue that its messages go back to; "" = as the dialect says
  std::string ladder = {};  // "" = that of the queue they go back to
  bool retries = true;      // false (ladder: none): every message is parked at once

  bool is_pattern() const { return from.find('*') != std::string::npos; }
};

class ErrorQueues {
 public:
  ErrorQueues() = default;
  explicit ErrorQueues(std::vector<ErrorQueue> queues) : queues_(std::move(queues)) {}

  // The entry for this queue: the one that names it, else the first pattern that matches. nullptr: it is not
  // an error queue. Patterns do not match names that begin with amq.
  const ErrorQueue* find(std::string_view queue) const;
  const std::vector<ErrorQueue>& all() const { return queues_; }
  bool empty() const { return queues_.empty(); }
  bool has_patterns() const;
  std::vector<std::string> patterns() const;  // ErrorQueue::from of all
  // Whether the same queues are consumed in the same way. Ladders may differ.
  bool same_sources(const ErrorQueues& other) const;

 private:
  std::vector<ErrorQueue> queues_;
};
using ErrorQueuesPtr = std::shared_ptr<const ErrorQueues>;

// The queue that messages from the error queue `queue` go back to, as far as the config or the queue's name
// says; "" = the messages say it.
std::string target_by_name(const ErrorQueue& entry, std::string_view queue);

// Adds what the entry's dialect has read to `facts`, where the broker's own record may stand already, and
// removes the framework's headers from the message. For the plugins.
void take_failure(const ErrorQueue& entry, DialectFacts read, Message& message, BrokerFacts& facts);

}  // namespace rung
