// What the judge observes, at the interfaces: commits, writes to sockets, messages that reach a queue.
// Thread: one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "src/store/store.h"

namespace rung::sim {

class Watcher {
 public:
  virtual ~Watcher() = default;
  // These changes were committed just now.
  virtual void inserted(std::span<const NewTask> tasks, const std::vector<Inserted>& answers,
                        const Fence& fence) = 0;
  virtual void applied(std::span<const Event> events, const std::vector<Decision>& decisions,
                       const Fence& fence) = 0;
  // A node writes it to a publishing socket. `connection_alive`: the server still has this connection.
  virtual void written(const std::string& node, std::uint64_t connection, const Outgoing& outgoing) = 0;
  // It reached `queue`; `by`: the connection, 0 = an application.
  virtual void arrived(const std::string& queue, const Message& message, std::uint64_t by) = 0;
  // No queue takes it: it is returned to its publisher.
  virtual void returned(const Message& message) = 0;
  // Its queue refused it.
  virtual void nacked(const Message& message, std::uint64_t by) = 0;
  // A node has acked a delivery of this inlet.
  virtual void acked(const std::string& inlet, const Message& message) = 0;
};

}  // namespace rung::sim
