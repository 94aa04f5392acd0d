// attach, detach and attached as a user with few rights, in the test's own virtual host. A dead letter proves
// that it worked.
#include <algorithm>
#include <map>

#include "tests/integration/cli/admin.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

class Attach : public CliTest {
 protected:
  Attach() {
    user = admin.user("policymaker");
    admin.permit(user, ".*", ".*", ".*");
    use(admin.url(user));
  }
  void use(const std::string& broker_url, const std::string& more = "",
           const std::string& store_url = "mysql://rung:${RUNG_NO_SUCH_PASSWORD}@127.0.0.1:1/rung") {
    std::ofstream(config_path()) << "broker: { url: \"" << broker_url << "\", prefix: " << prefix
                                 << ", management: \"" << needed("RUNG_TEST_MANAGEMENT") << "\" }\n"
                                 << "store: { url: \"" << store_url << "\" }\n"
                                 << more;
  }
  // What `rung attached` says of each queue.
  std::map<std::string, json> attached(std::vector<std::string> options = {}) {
    options.insert(options.begin(), "attached");
    const json all = rung_json(options);
    std::map<std::string, json> lines;
    for (const json& line : all["attachments"]) lines[line["queue"]] = line;
    return lines;
  }
  // Publishes and rejects a message; returns its body.
  std::string reject_one(const std::string& queue) {
    const std::string body = test::unique_name("body");
    admin.publish(queue, body);
    EXPECT_TRUE(test::eventually([&] { return admin.reject(queue).size() == 1; })) << queue;
    return body;
  }
  // It alone.
  bool dead_letter_arrives(const std::string& queue) {
    const std::string body = reject_one(queue);
    std::vector<std::string> came;
    EXPECT_TRUE(test::eventually([&] {
      for (const json& message : admin.take(prefix + ".failed")) came.push_back(message["payload"]);
      return std::ranges::count(came, body) == 1;
    })) << queue;
    return came.size() == 1;
  }
  // That of a queue that is attached, rejected later, comes alone.
  bool no_dead_letter_arrives(const std::string& queue) {
    reject_one(queue);
    admin.queue("later", {{"x-dead-letter-exchange", prefix + ".failed"}});
    return dead_letter_arrives("later");
  }

  BrokerAdmin admin;
  std::string user;
};

TEST_F(Attach, DeadLettersComeAndDetachEndsIt) {
  use(admin.url(user), "", db.url());
  admin.queue("orders");
  const Ran first = rung({"attach", "orders"});
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("is attached by policy rung-orders"));
  EXPECT_TRUE(dead_letter_arrives("orders"));
  EXPECT_THAT(rung({"attach", "orders"}).out, HasSubstr("is already attached, by policy rung-orders"));
  ASSERT_EQ(rung({"migrate"}).exit, 0);
  const Ran gone = rung({"detach", "orders"});
  EXPECT_EQ(gone.exit, 0) << gone.err;
  EXPECT_THAT(gone.out, HasSubstr("is detached"));
  // A policy goes out of effect shortly after it was removed.
  ASSERT_TRUE(test::eventually([&] { return attached()["orders"]["attached"] == false; }));
  EXPECT_TRUE(no_dead_letter_arrives("orders"));
  EXPECT_THAT(rung({"detach", "orders"}).out, HasSubstr("nothing to do"));
}

TEST_F(Attach, TheQueuesOfEachGroupGoToItsPrefix) {
  for (const char* queue : {"shop", "bank", "lost"}) admin.queue(queue);
  const auto write_groups = [&](const std::string& of_eu, const std::string& of_us) {
    std::ofstream(config_path()) << "broker: { url: \"" << admin.url(user) << "\", management: \""
                                 << needed("RUNG_TEST_MANAGEMENT")
                                 << "\" }\ngroups:\n  eu: { prefix: " << prefix << ", store: { url: \""
                                 << db.url() << "\" }, queues: [" << of_eu
                                 << "] }\n  us: { prefix: " << prefix
                                 << "-us, store: { url: \"mysql://u:${NOT_SET}@h/s\" }, queues: [" << of_us
                                 << "] }\n";
  };
  const auto arrives_in_us = [&] {
    return test::eventually([&] { return admin.take(prefix + "-us.failed").size() == 1; });
  };
  write_groups("shop", "bank");
  for (const char* one : {"shop", "bank"}) EXPECT_EQ(rung({"attach", one}).exit, 0);
  EXPECT_TRUE(dead_letter_arrives("shop"));
  EXPECT_TRUE(no_dead_letter_arrives("bank"));
  EXPECT_TRUE(arrives_in_us());
  auto lines = attached({"--group", "eu"});
  EXPECT_EQ(lines["shop"]["attached"], true);
  EXPECT_EQ(lines["lost"]["attached"], false);
  EXPECT_FALSE(lines.contains("bank"));
  EXPECT_THAT(rung({"attached"}).err, HasSubstr("choose one with --group NAME"));
  const Ran other = rung({"attach", "bank", "--group", "eu"});
  EXPECT_EQ(other.exit, 1);
  EXPECT_THAT(other.err, HasSubstr("belongs to group us, not to eu: use --group us"));
  EXPECT_THAT(rung({"attach", "lost"}).err, HasSubstr("no group has queue \"lost\""));
  // It moves: one command.
  write_groups("x", "shop, bank");
  EXPECT_THAT(rung({"attach", "shop"}).out,
              HasSubstr("its dead letters previously went to " + prefix + ".failed"));
  EXPECT_TRUE(no_dead_letter_arrives("shop"));
  EXPECT_TRUE(arrives_in_us());
  EXPECT_EQ(rung({"detach", "--pattern", "shop|bank", "--force", "--group", "us"}).exit, 0);
}

TEST_F(Attach, OddNames) {
  const std::string name = "o'd d/\u00e9$(x)\\\"#^.*\tz`!", other = name + "more";
  for (const std::string& queue : {name, other}) admin.queue(queue);
  const Ran ran = rung({"attach", name});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(dead_letter_arrives(name));
  EXPECT_TRUE(no_dead_letter_arrives(other));
}

TEST_F(Attach, TheTagPolicymakerIsEnough) {
  admin.queue("orders");
  const Ran ran = rung({"attach", "orders"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("is attached by policy rung-orders"));
  EXPECT_THAT(admin.policies(), ElementsAre("rung-orders"));
  // Without the database, Rung cannot tell which tasks are under way.
  const Ran uncounted = rung({"detach", "orders"});
  EXPECT_NE(uncounted.exit, 0);
  EXPECT_THAT(uncounted.err, HasSubstr("--force"));
  EXPECT_THAT(admin.policies(), ElementsAre("rung-orders"));
  EXPECT_EQ(rung({"detach", "orders", "--force"}).exit, 0);
  EXPECT_THAT(admin.policies(), ElementsAre());
}

TEST_F(Attach, SaysWhatIsMissing) {
  admin.queue("orders");
  use(admin.url(user, "wrong"));
  Ran ran = rung({"attach", "orders"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_THAT(ran.err, HasSubstr("the password of user '" + user + "' is wrong"));

  const std::string untagged = admin.user("");
  admin.permit(untagged, ".*", ".*", ".*");
  use(admin.url(untagged));
  EXPECT_THAT(rung({"attach", "orders"}).err,
              AllOf(HasSubstr("the user has no tag"),
                    HasSubstr("rabbitmqctl set_user_tags " + untagged + " policymaker")));

  const std::string looker = admin.user("management");
  admin.permit(looker, ".*", ".*", ".*");
  use(admin.url(looker));
  EXPECT_THAT(
      rung({"attach", "orders"}).err,
      AllOf(HasSubstr("set a policy"), HasSubstr("rabbitmqctl set_user_tags " + looker + " policymaker")));

  const std::string stranger = admin.user("policymaker");
  use(admin.url(stranger));
  EXPECT_THAT(rung({"attach", "orders"}).err,
              HasSubstr("rabbitmqctl set_permissions -p " + admin.vhost + " " + stranger));

  std::string elsewhere = admin.url("guest", "guest");
  elsewhere.replace(elsewhere.rfind('/'), std::string::npos, "/no-such-vhost");
  use(elsewhere);
  EXPECT_THAT(rung({"attach", "orders"}).err, HasSubstr("virtual host 'no-such-vhost' does not exist"));
}

TEST_F(Attach, SeveralPatternAndAll) {
  for (const char* queue : {"shop.a", "shop.b", "post", "taken"}) admin.queue(queue);
  admin.queue("fixed", {{"x-dead-letter-exchange", "dlx"}});
  admin.queue(prefix + ".other");
  admin.policy("elsewhere", "^taken$", {{"dead-letter-exchange", "dlx"}});

  EXPECT_EQ(rung({"attach"}).exit, 1);
  EXPECT_EQ(rung({"attach", "post", "--all"}).exit, 1);
  EXPECT_THAT(rung({"attach", "--pattern", "("}).err, HasSubstr("invalid regular expression"));
  const Ran none = rung({"attach", "none"});
  EXPECT_EQ(none.exit, 3);
  EXPECT_THAT(none.err, HasSubstr("no queue"));

  EXPECT_EQ(rung({"attach", "shop.a", "post"}).exit, 0);
  EXPECT_THAT(admin.policies(), ElementsAre("elsewhere", "rung-post", "rung-shop.a"));
  EXPECT_EQ(rung({"detach", "--all", "--force"}).exit, 0);
  EXPECT_THAT(admin.policies(), ElementsAre("elsewhere"));

  EXPECT_EQ(rung({"attach", "--pattern", "^shop"}).exit, 0);
  EXPECT_THAT(admin.policies(), ElementsAre("elsewhere", "rung-shop.a", "rung-shop.b"));

  const json all = rung_json({"attach", "--all"})["results"];
  EXPECT_EQ(all.size(), 5U) << all.dump();
  EXPECT_THAT(admin.policies(), ElementsAre("elsewhere", "rung-post", "rung-shop.a", "rung-shop.b"));

  EXPECT_EQ(rung({"detach", "--pattern", "a$", "--force"}).exit, 0);
  EXPECT_THAT(admin.policies(), ElementsAre("elsewhere", "rung-post", "rung-shop.b"));
}

// Does not remove policies that have the name but send dead letters elsewhere.
TEST_F(Attach, DetachLeavesPoliciesOfOthers) {
  admin.queue("orders");
  admin.policy("rung-orders", "^orders$", {{"dead-letter-exchange", "another.failed"}});
  EXPECT_EQ(rung({"detach", "--all"}).exit, 0);
  const Ran named = rung({"detach", "orders"});
  EXPECT_EQ(named.exit, 1);
  EXPECT_THAT(named.err, HasSubstr("remove it by hand"));
  EXPECT_THAT(admin.policies(), ElementsAre("rung-orders"));
}

TEST_F(Attach, AttachedListsWhatIsAndWhyNot) {
  use(admin.url(user), "queues: { orders: {}, missing: {} }\n");
  for (const char* queue : {"orders", "post", "plain"}) admin.queue(queue);
  admin.queue("own", {{"x-dead-letter-exchange", prefix + ".failed"}});
  admin.queue("fixed", {{"x-dead-letter-exchange", "dlx"}});
  ASSERT_EQ(rung({"attach", "orders", "post"}).exit, 0);
  admin.policy("above", "^post$", {{"max-length", 5}}, 9);
  std::map<std::string, json> by_queue;
  ASSERT_TRUE(test::eventually([&] {
    by_queue = attached();
    return by_queue["post"]["attached"] == false;
  }));
  EXPECT_EQ(by_queue.size(), 6U) << "none of Rung's own";
  EXPECT_EQ(by_queue["orders"]["by"], "policy");
  EXPECT_EQ(by_queue["orders"]["configured"], true);
  EXPECT_EQ(by_queue["own"]["by"], "argument");
  EXPECT_EQ(by_queue["missing"]["exists"], false);
  EXPECT_EQ(by_queue["plain"]["attached"], false);
  EXPECT_THAT(by_queue["fixed"]["why_not"].get<std::string>(), HasSubstr("'dlx'"));
  EXPECT_THAT(by_queue["post"]["why_not"].get<std::string>(),
              HasSubstr("policy 'above' (priority 9) overrides 'rung-post'"));
  EXPECT_THAT(rung({"attached"}).out, AllOf(HasSubstr("orders"), HasSubstr("policy rung-orders")));
}

}  // namespace
}  // namespace rung::cli
