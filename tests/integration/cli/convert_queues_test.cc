// rung convert-queues: nothing is lost while failures keep arriving, wherever it ends.
#include <atomic>
#include <map>
#include <thread>

#include "tests/integration/cli/admin.h"

namespace rung::cli {
namespace {

using ::testing::HasSubstr;

class ConvertQueues : public CliTest {
 protected:
  ConvertQueues() : amqp_(admin_.url("guest", "guest")) {
    use(admin_.url("guest", "guest"));
    amqp_.declare_exchange(failed_);
    amqp_.declare(failed_, {{"x-queue-type", "classic"}});
    amqp_.bind(failed_, failed_);
  }
  void use(const std::string& url, const std::string& more = "") {
    std::ofstream(config_path()) << "broker: { url: \"" << url << "\", prefix: " << prefix
                                 << ", management: \"" << needed("RUNG_TEST_MANAGEMENT") << "\"" << more
                                 << " }\n"
                                 << "store: { url: \"" << db.url() << "\" }\n";
  }
  std::string type_of(const std::string& queue) {
    return admin_.get("/api/queues/" + admin_.vhost + "/" + percent_encode(queue)).value("type", "none");
  }
  static Message numbered(int number) {
    Message message;
    message.properties.message_id = "m-" + std::to_string(number);
    message.body = std::to_string(number);
    return message;
  }
  // How often each body is in the queue, which is then empty.
  std::map<std::string, int> bodies() {
    std::map<std::string, int> found;
    while (const auto got = amqp_.get(failed_)) {
      amqp_.ack(*got);
      ++found[got->message.body.str()];
    }
    return found;
  }

  BrokerAdmin admin_;
  test::AmqpProbe amqp_;
  const std::string failed_ = prefix + ".failed";
};

// Publishes to an exchange until it is destroyed, and counts.
class Publisher {
 public:
  Publisher(std::string url, std::string exchange, int first)
      : next_(first), thread_([this, url = std::move(url), exchange = std::move(exchange)] {
          test::AmqpProbe amqp(url);
          while (!stop_) {
            Message message;
            message.body = std::to_string(next_++);
            if (!amqp.publish(exchange, "orders", message)) ++unroutable_;
            std::this_thread::sleep_for(Ms{2});
          }
        }) {}
  ~Publisher() { stop(); }
  int stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return next_;
  }
  int unroutable() const { return unroutable_; }

 private:
  std::atomic<int> next_;
  std::atomic<int> unroutable_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST_F(ConvertQueues, KeepsWhatWaitsAndWhatArrives) {
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(amqp_.publish(failed_, "orders", numbered(i)));
  Publisher publisher(admin_.url("guest", "guest"), failed_, 300);
  const Ran ran = rung({"convert-queues", "--yes"});
  const int end = publisher.stop();
  ASSERT_EQ(ran.exit, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(failed_ + ": quorum now; messages moved: "));
  EXPECT_EQ(publisher.unroutable(), 0);
  EXPECT_EQ(type_of(failed_), "quorum");
  EXPECT_FALSE(amqp_.queue_exists(failed_ + ".moving"));
  const auto found = bodies();
  EXPECT_GT(end, 310) << "what arrived meanwhile";
  for (int i = 0; i < end; ++i) EXPECT_TRUE(found.contains(std::to_string(i))) << i;
  // And then there is nothing to do.
  EXPECT_THAT(rung({"convert-queues"}).out, HasSubstr(failed_ + ": quorum already"));
}

TEST_F(ConvertQueues, KeepsEachMessageAsItWas) {
  const std::string delay = prefix + ".delay", other = "my-delayed";
  amqp_.declare(delay, {{"x-queue-type", "classic"}});
  amqp_.declare_exchange(other);
  amqp_.bind(delay, other, "k");
  Message message = numbered(1);
  message.properties.user_id = "guest";  // not the one who converts
  message.properties.priority = 3;
  message.headers =
      Table{{"x-death", Array{{Table{{"queue", "orders"}, {"count", std::int64_t{2}}}}}}, {"amount", 12.5}};
  message.body = std::string(300'000, '\xA5');
  ASSERT_TRUE(amqp_.publish(other, "k", message));
  ASSERT_TRUE(amqp_.publish("", delay, numbered(2)));
  const std::string user = admin_.user("management");
  admin_.permit(user, ".*", ".*", ".*");
  use(admin_.url(user));
  const Ran ran = rung({"convert-queues", "--yes", "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.out << ran.err;
  const json answer = json::parse(ran.out);
  EXPECT_TRUE(answer["changed"]);
  EXPECT_EQ(answer["queues"][1]["queue"], delay);
  EXPECT_EQ(answer["queues"][1]["type"], "quorum");
  EXPECT_EQ(type_of(delay), "quorum");
  auto got = amqp_.take(delay, 2);
  ASSERT_EQ(got.size(), 2U);
  if (got[0].message.body != message.body) std::swap(got[0], got[1]);
  EXPECT_EQ(got[0].exchange, other);
  EXPECT_EQ(got[0].routing_key, "k");
  // A quorum queue counts deliveries, and sorts; Rung takes the count off, as ever.
  for (const auto& [name, value] : *message.headers) {
    const Value* found = find(got[0].message.headers, name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(*found, value) << name;
  }
  for (const auto& [name, value] : *got[0].message.headers)
    EXPECT_TRUE(find(message.headers, name) != nullptr || name == "x-delivery-count") << name;
  EXPECT_TRUE(got[0].message.body == message.body);
  message.properties.user_id.reset();
  EXPECT_EQ(got[0].message.properties, message.properties);
  EXPECT_EQ(got[1].exchange, "");
  EXPECT_EQ(got[1].routing_key, delay);
  EXPECT_EQ(got[1].message.body, "2");
  ASSERT_TRUE(amqp_.publish(other, "k", numbered(3))) << "it is bound as before";
  EXPECT_EQ(amqp_.take(delay, 1).size(), 1U);
}

// Killed at any point: the next one goes on, and what arrived in between is there, too.
TEST_F(ConvertQueues, GoesOnWhereItWasKilled) {
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(amqp_.publish(failed_, "orders", numbered(i)));
  Publisher publisher(admin_.url("guest", "guest"), failed_, 1000);
  std::string to = "quorum";
  int unfinished = 0;
  for (const int ms : {150, 700, 1300, 1900, 2400}) {
    const std::string command = std::string(RUNG_TEST_PROGRAM) + " convert-queues --yes --to " + to + " -c " +
                                config_path() + " 2>&1 >/dev/null";
    const int status =
        std::system(("timeout -s KILL " + std::to_string(ms / 1000.0) + " " + command).c_str());
    unfinished += status != 0 ? 1 : 0;
    // The broker learns of the killed one's end by its closed connection.
    ASSERT_TRUE(test::eventually([&] { return amqp_.consumers(failed_).value_or(0) == 0; }));
    const Ran ran = rung({"convert-queues", "--yes", "--to", to});
    ASSERT_EQ(ran.exit, 0) << ms << ": " << ran.out << ran.err;
    ASSERT_EQ(type_of(failed_), to);
    to = to == "quorum" ? "classic" : "quorum";
  }
  EXPECT_GT(unfinished, 0);
  const int end = publisher.stop();
  EXPECT_EQ(publisher.unroutable(), 0);
  const auto found = bodies();
  for (int i = 0; i < end; ++i) ASSERT_TRUE(found.contains(std::to_string(i))) << i;
}

TEST_F(ConvertQueues, ChangesNothingWhileASidecarRunsOrNobodySaidYes) {
  ASSERT_TRUE(amqp_.publish(failed_, "orders", numbered(1)));
  const Ran asked = rung({"convert-queues"});
  EXPECT_EQ(asked.exit, 1);
  EXPECT_THAT(asked.out, HasSubstr(failed_ + ": classic"));
  EXPECT_THAT(asked.err, HasSubstr("stop the sidecars, then run `rung convert-queues --yes`"));
  test::AmqpProbe sidecar(admin_.url("guest", "guest"));
  sidecar.consume(failed_);
  const Ran refused = rung({"convert-queues", "--yes"});
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err, HasSubstr(failed_ + " has 1 consumers"));
  use(admin_.url("guest", "guest"), ", queue_type: classic");
  const Ran contrary = rung({"convert-queues", "--yes"});
  EXPECT_EQ(contrary.exit, 1);
  EXPECT_THAT(contrary.err, HasSubstr("broker.queue_type is classic: set it to quorum, or to auto, first"));
  EXPECT_EQ(type_of(failed_), "classic");
  EXPECT_FALSE(amqp_.queue_exists(failed_ + ".moving"));
}

}  // namespace
}  // namespace rung::cli
