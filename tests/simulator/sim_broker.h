// A node's client of the simulated broker, as plugin/rabbitmq is for the real one. Thread: one.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "tests/simulator/broker_server.h"

namespace rung::sim {

class SimBroker final : public Broker {
 public:
  struct Deps {
    World& world;
    BrokerServer& server;
    Watcher& watcher;
    ProcessPtr process;
    const Clock& clock;
    std::string node;
    Rng dice;
    std::function<void()>
        step;  // called when something was written or came in: a point at which a node may be killed
  };
  explicit SimBroker(Deps deps);

  std::string_view name() const override { return "RabbitMQ"; }
  BrokerLimits limits() const override { return {}; }
  Result<void> start(BrokerSink& sink) override;
  // All nodes serve one place: there is one broker and one database.
  void claim(std::string database, bool mark) override;
  void serve_only(std::string /*cluster*/) override {}
  void publish(std::vector<Outgoing> batch) override;
  void ack(std::vector<DeliveryTag> tags) override;
  void stop_intake() override;
  void pause_intake(bool yes) override;
  void allow_publish_until(BootMs deadline) override;
  bool stands(const DeliveryTag& tag) const override;
  void requeue(std::vector<DeliveryTag> tags) override;
  void drop_publishing(PublishLane lane, std::string reason) override;
  void stop(Ms /*most*/) override { stopped_ = true; }

  // The broker's alarm began or ended.
  void alarm();
  // The process ran again after this pause: another consumer may have its deliveries by now.
  void stood_still(Us length);
  // Publishes of tasks without an answer yet.
  std::size_t unconfirmed() const;
  std::string state() const;  // unanswered publishes, for a story

 private:
  struct Lane {
    LinkPtr link;
    std::deque<Outgoing> waiting;            // not written yet
    std::map<std::uint64_t, Outgoing> sent;  // by token; no answer yet
    bool connecting = false;
  };
  Lane& lane_of(PublishLane lane) { return lane == PublishLane::main ? main_ : probe_; }
  void connect_intake();
  void connect(PublishLane lane);
  void consume();
  void intake_lost(const char* why);
  void lane_lost(PublishLane lane, const std::string& why);
  void write(PublishLane which);
  void write_soon(PublishLane which);
  void answer(PublishLane which, std::vector<PublishResult> results);
  void tell(bool consuming, bool publishing, const std::string& reason);
  bool fence_passed() const { return deps_.clock.boot() >= allow_until_; }
  Us backoff() { return deps_.dice.between(50, 1500) * kMs; }

  Deps deps_;
  BrokerSink* sink_ = nullptr;
  LinkPtr intake_;
  IntakeSession session_;
  Lane main_, probe_;
  BootMs allow_until_{0};
  BrokerStatus status_;
  bool intake_stopped_ = false, intake_paused_ = false, stopped_ = false;
};

}  // namespace rung::sim
