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
  bool returns = false;     // parked: return: a parked message also goes back to the error queue

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
  // Whether the same queues are consumed in the same way. Ladders and what happens to parked messages may
  // differ.
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

// Short for the message, by its id and body, and what the framework wrote into it at its failure: the headers
// that the dialect removes.
std::string failure_mark(const Dialect& dialect, const Message& message);
// Whether the message went back to its error queue and is still there: Rung leaves it. If a tool sends it to
// its consumer again and it fails again, the framework's headers are others, and it is a failure like any.
bool is_returned_copy(const ErrorQueue& entry, const Message& message);

}  // namespace rung
