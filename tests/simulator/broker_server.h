// The simulated RabbitMQ: queues, the exchanges that Rung uses, connections. It and its clients exchange
// messages, which take time, arrive in order, and are lost with their connection. Thread: one.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "tests/simulator/watcher.h"
#include "tests/simulator/world.h"

namespace rung::sim {

struct Copy {
  Message message;
  std::string exchange, routing_key;
  bool redelivered = false;
  std::uint64_t serial = 0;
};

// One TCP connection, as both sides see it.
struct Link {
  std::uint64_t id = 0;
  ProcessPtr process;               // the client's
  bool at_server = true;            // the server has not closed it
  bool at_client = true;            // the client has not noticed its end
  bool publishes = false;           // an alarm blocks it
  Us slow = 0;                      // added to the time of each message to the server
  Us to_server = 0, to_client = 0;  // arrival time of the last message in transit
  int holds = 0;                    // number of reasons why the server does not read from it
  std::deque<std::function<void()>> unread;
  // A consumer's unacked messages, by tag.
  struct Unacked {
    std::string queue;
    Copy copy;
  };
  std::map<std::uint64_t, Unacked> unacked;
  std::uint64_t last_tag = 0;
  bool consuming = false;
  std::size_t prefetch = 0;
  std::function<void(std::vector<Delivery>)> deliver;  // on the client's side
  std::function<void()> lost;                          // called when the client notices its end
  // A publisher's messages that no queue has answered yet.
  struct Limbo {
    std::string queue;
    Outgoing outgoing;
    std::function<void(PublishResult)> answer;
  };
  std::vector<Limbo> limbo;
  std::map<std::string, int> stuck;  // messages that block this connection, by queue
};
using LinkPtr = std::shared_ptr<Link>;

class BrokerServer {
 public:
  struct Queue {
    std::deque<Copy> ready;
    bool exists = true;
    int silent = 0, full = 0;  // number of such faults now
    int detached = 0;          // number of such faults now
    Us detached_at = 0;        // when the first of them began
    int idle = 0;              // number of such faults now
    std::int64_t published = 0;
    bool quorum = false;  // if silent, the first publish blocks its connection; else the 400th
  };

  BrokerServer(World& world, Watcher& watcher);

  // --- clients. nullptr while the server accepts no connection.
  LinkPtr connect(const ProcessPtr& process);
  // Runs `what` at the server, unless the connection has ended by then.
  void send(const LinkPtr& link, std::function<void()> what);
  // Runs `what` at the client, unless it has noticed the end by then.
  void reply(const LinkPtr& link, std::function<void()> what);
  void consume(const LinkPtr& link, std::size_t prefetch, std::function<void(std::vector<Delivery>)> deliver);
  void cancel(const LinkPtr& link);
  void ack(const LinkPtr& link, std::uint64_t tag);
  void requeue(const LinkPtr& link, std::uint64_t tag);
  void publish(const LinkPtr& link, const Outgoing& outgoing, std::function<void(PublishResult)> answer);
  // Ends the server's side now: unacked messages are redelivered; a message that waits for a queue may or may
  // not be accepted.
  void close(const LinkPtr& link);
  // The same, and the client notices after `notice`.
  void cut(const LinkPtr& link, Us notice);

  // --- applications
  // False if no queue takes it.
  bool put(const std::string& exchange, const std::string& key, const Message& message);
  // A consumer rejects it: it is dead-lettered to rung.failed. False: it is dropped, its queue is not
  // attached.
  bool reject(const std::string& queue, Copy copy);
  void back(const std::string& queue, Copy copy);         // its consumer has gone: back to the front
  std::function<void(const std::string& queue)> on_copy;  // a message arrived in an application's queue

  // --- faults
  void silence(const std::string& queue, bool yes);
  void detach(const std::string& queue, bool yes);
  void idle(const std::string& queue, bool yes);
  void block(bool yes);
  void go_away(bool yes);
  bool is_away() const { return away_ > 0; }
  bool is_blocked() const { return blocked_ > 0; }
  std::function<void()> on_alarm;  // called when an alarm begins or ends

  std::map<std::string, Queue>& queues() { return queues_; }
  const std::vector<LinkPtr>& links() const { return links_; }
  std::vector<LinkPtr> links_of(const ProcessPtr& process) const;
  const Link* link(std::uint64_t id) const;  // nullptr: the server has closed it
  const Queue* queue(const std::string& name) const {
    const auto found = queues_.find(name);
    return found == queues_.end() ? nullptr : &found->second;
  }
  bool empty_inlets() const;

 private:
  Us way() { return dice_.between(20, 900); }
  void read(const LinkPtr& link, std::function<void()> what);
  void read_on(const LinkPtr& link);
  void hold(const LinkPtr& link, int by);
  void push(const std::string& queue, Copy copy, std::uint64_t by);
  void dead_letter_refused(const std::string& queue, const Outgoing& outgoing);
  void deliver_all();
  bool deliver_one(const LinkPtr& link);
  void answer_later(const LinkPtr& link, std::function<void(PublishResult)> answer, PublishResult result);
  const std::string* target_of(const Outgoing& outgoing, std::string& scratch) const;

  World& world_;
  Watcher& watcher_;
  Rng dice_;
  std::map<std::string, Queue> queues_;
  std::vector<LinkPtr> links_;
  std::uint64_t last_link_ = 0, last_serial_ = 0;
  int blocked_ = 0, away_ = 0;
  bool delivering_ = false;
};

}  // namespace rung::sim
