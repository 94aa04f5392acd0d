// attach. A dead letter proves that it worked.
#include "plugin/rabbitmq/topology/attachment.h"
#include "src/core/base/hex.h"
#include "tests/integration/cli/fixture.h"
#include "tests/support/http_client.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

// As the sidecar looks at its queues.
rabbit::AttachedAnswer look_at(const BrokerOptions& options, const std::string& queue) {
  auto admin = rabbit::management_admin(options, 120s);
  if (!admin) return {rabbit::Attached::unknown, admin.error().message};
  const auto vhost = rabbit::read_vhost(**admin, options.prefix);
  if (!vhost) return {rabbit::Attached::unknown, vhost.error().message};
  const rabbit::QueueFacts* facts = vhost->find(queue);
  return facts == nullptr ? rabbit::AttachedAnswer{rabbit::Attached::no_such_queue, ""}
                          : vhost->attached(*facts);
}

void clear_policy(const std::string& name) {
  test::call_management("DELETE", "/api/policies/%2f/" + percent_encode(name));
}

class Attach : public CliTest {
 protected:
  Attach() { write_config("", ", management: \"" + management_ + "\""); }
  ~Attach() override {
    for (const std::string& policy : policies_) clear_policy(policy);
    for (const std::string& queue : queues_) amqp_.remove(queue);
    amqp_.remove_place(prefix);
  }

  std::string queue(const std::string& name, const Table& arguments = {}) {
    amqp_.declare(name, arguments);
    queues_.push_back(name);
    policies_.push_back(rabbit::policy_name(name));
    return name;
  }
  // Publishes and rejects a message; returns its body.
  std::string reject_one(const std::string& name) {
    Message message;
    message.body = test::unique_name("body");
    EXPECT_TRUE(amqp_.publish("", name, message));
    const auto got = amqp_.get_within(name);
    if (got) amqp_.reject(*got);
    return message.body.str();
  }
  bool dead_letter_arrives(const std::string& name) {
    const std::string body = reject_one(name);
    const auto dead = amqp_.get_within(prefix + ".failed");
    return dead && dead->message.body == body;
  }
  // That of a queue that is attached, rejected later, comes alone.
  bool no_dead_letter_arrives(const std::string& name) {
    const std::string attached =
        queue(test::unique_name("later"), {{"x-dead-letter-exchange", prefix + ".failed"}});
    reject_one(name);
    return dead_letter_arrives(attached);
  }
  rabbit::AttachedAnswer asked(const std::string& name) {
    BrokerOptions options;
    options.urls = {*parse_url(test::amqp_url())};
    options.prefix = prefix;
    options.rabbitmq.management = *parse_url(needed("RUNG_TEST_MANAGEMENT"));
    return look_at(options, name);
  }

  test::AmqpProbe amqp_;
  const std::string management_ = needed("RUNG_TEST_MANAGEMENT");
  std::vector<std::string> queues_, policies_;
};

TEST_F(Attach, DeadLettersComeAndDetachEndsIt) {
  const std::string name = queue(test::unique_name("orders"));
  const Ran first = rung({"attach", name});
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("is attached by policy rung-" + name));
  EXPECT_TRUE(dead_letter_arrives(name));
  EXPECT_THAT(rung({"attach", name}).out, HasSubstr("is already attached, by policy rung-" + name));
  ASSERT_EQ(rung({"migrate"}).exit, 0);
  const Ran gone = rung({"detach", name});
  EXPECT_EQ(gone.exit, 0) << gone.err;
  EXPECT_THAT(gone.out, HasSubstr("is detached"));
  // A policy goes out of effect shortly after it was removed.
  ASSERT_TRUE(test::eventually([&] { return asked(name).attached == rabbit::Attached::no; }));
  EXPECT_TRUE(no_dead_letter_arrives(name));
  EXPECT_THAT(rung({"detach", name}).out, HasSubstr("nothing to do"));
  policies_.clear();
}

TEST_F(Attach, TheQueuesOfEachGroupGoToItsPrefix) {
  const std::string shop = queue(test::unique_name("shop")), bank = queue(test::unique_name("bank"));
  const std::string lost = queue(test::unique_name("lost"));
  const auto write_groups = [&](const std::string& of_eu, const std::string& of_us) {
    std::ofstream(config_path()) << "broker: { url: \"" << test::amqp_url() << "\", management: \""
                                 << management_ << "\" }\ngroups:\n  eu: { prefix: " << prefix
                                 << ", store: { url: \"" << db.url() << "\" }, queues: [" << of_eu
                                 << "] }\n  us: { prefix: " << prefix
                                 << "-us, store: { url: \"mysql://u:${NOT_SET}@h/s\" }, queues: [" << of_us
                                 << "] }\n";
  };
  write_groups(shop, bank);
  for (const std::string& one : {shop, bank}) EXPECT_EQ(rung({"attach", one}).exit, 0);
  EXPECT_TRUE(dead_letter_arrives(shop));
  EXPECT_TRUE(no_dead_letter_arrives(bank));
  EXPECT_TRUE(amqp_.get_within(prefix + "-us.failed")) << "it is in the other group";
  std::map<std::string, json> lines;
  const json attached = rung_json({"attached", "--group", "eu"});
  for (const json& line : attached["attachments"]) lines[line["queue"]] = line;
  EXPECT_EQ(lines[shop]["attached"], true);
  EXPECT_EQ(lines[lost]["attached"], false);
  EXPECT_FALSE(lines.contains(bank));
  EXPECT_THAT(rung({"attached"}).err, HasSubstr("choose one with --group NAME"));
  const Ran other = rung({"attach", bank, "--group", "eu"});
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, HasSubstr("belongs to group us, not to eu: use --group us"));
  EXPECT_THAT(rung({"attach", lost}).err, HasSubstr("no group has queue \"" + lost + "\""));
  // It moves: one command.
  write_groups("x", shop + ", " + bank);
  EXPECT_THAT(rung({"attach", shop}).out,
              HasSubstr("its dead letters previously went to " + prefix + ".failed"));
  EXPECT_TRUE(no_dead_letter_arrives(shop));
  EXPECT_TRUE(amqp_.get_within(prefix + "-us.failed"));
  EXPECT_EQ(rung({"detach", "--pattern", shop + "|" + bank, "--force", "--group", "us"}).exit, 0);
  policies_.clear();
  amqp_.remove_place(prefix + "-us");
}

TEST_F(Attach, OddNames) {
  const std::string name = queue(test::unique_name("o'd d/é$(x)\\\"#^.*\tz`!"));
  const std::string other = queue(name + "more");
  const Ran ran = rung({"attach", name});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(dead_letter_arrives(name));
  EXPECT_TRUE(no_dead_letter_arrives(other));
}

TEST_F(Attach, NoSuchQueueExits3) {
  const Ran ran = rung({"attach", test::unique_name("none")});
  EXPECT_EQ(ran.exit, 3);
  EXPECT_THAT(ran.err, HasSubstr("no queue"));
}

}  // namespace
}  // namespace rung::cli
