// attach, detach and attached as a user with few rights, in the test's own virtual host.
#include "tests/integration/cli/admin.h"

namespace rung::cli {
namespace {

class AttachRights : public CliTest {
 protected:
  AttachRights() {
    user = admin.user("policymaker");
    admin.permit(user, ".*", ".*", ".*");
    use(admin.url(user));
  }
  void use(const std::string& broker_url, const std::string& more = "") {
    std::ofstream(config_path())
        << "broker: { url: \"" << broker_url << "\", prefix: " << prefix << ", management: \""
        << needed("RUNG_TEST_MANAGEMENT") << "\" }\n"
        << "store: { url: \"mysql://rung:${RUNG_NO_SUCH_PASSWORD}@127.0.0.1:1/rung\" }\n"
        << more;
  }

  BrokerAdmin admin;
  std::string user;
};

TEST_F(AttachRights, TheTagPolicymakerIsEnough) {
  admin.queue("orders");
  const Ran ran = rung({"attach", "orders"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("is attached by policy rung-orders"));
  EXPECT_THAT(admin.policies(), ElementsAre("rung-orders"));
  // Without the database nobody knows what is under way.
  const Ran uncounted = rung({"detach", "orders"});
  EXPECT_NE(uncounted.exit, 0);
  EXPECT_THAT(uncounted.err, HasSubstr("--force"));
  EXPECT_THAT(admin.policies(), ElementsAre("rung-orders"));
  EXPECT_EQ(rung({"detach", "orders", "--force"}).exit, 0);
  EXPECT_THAT(admin.policies(), ElementsAre());
}

TEST_F(AttachRights, SaysWhatIsMissing) {
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

TEST_F(AttachRights, SeveralPatternAndAll) {
  for (const char* queue : {"shop.a", "shop.b", "post", "taken"}) admin.queue(queue);
  admin.queue("fixed", {{"x-dead-letter-exchange", "dlx"}});
  admin.queue(prefix + ".other");
  admin.policy("elsewhere", "^taken$", {{"dead-letter-exchange", "dlx"}});

  EXPECT_EQ(rung({"attach"}).exit, 1);
  EXPECT_EQ(rung({"attach", "post", "--all"}).exit, 1);
  EXPECT_THAT(rung({"attach", "--pattern", "("}).err, HasSubstr("invalid regular expression"));

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
TEST_F(AttachRights, DetachLeavesPoliciesOfOthers) {
  admin.queue("orders");
  admin.policy("rung-orders", "^orders$", {{"dead-letter-exchange", "another.failed"}});
  EXPECT_EQ(rung({"detach", "--all"}).exit, 0);
  const Ran named = rung({"detach", "orders"});
  EXPECT_EQ(named.exit, 1);
  EXPECT_THAT(named.err, HasSubstr("remove it by hand"));
  EXPECT_THAT(admin.policies(), ElementsAre("rung-orders"));
}

TEST_F(AttachRights, AttachedListsWhatIsAndWhyNot) {
  use(admin.url(user), "queues: { orders: {}, missing: {} }\n");
  for (const char* queue : {"orders", "post", "plain"}) admin.queue(queue);
  admin.queue("own", {{"x-dead-letter-exchange", prefix + ".failed"}});
  admin.queue("fixed", {{"x-dead-letter-exchange", "dlx"}});
  ASSERT_EQ(rung({"attach", "orders", "post"}).exit, 0);
  admin.policy("above", "^post$", {{"max-length", 5}}, 9);
  json by_queue;
  ASSERT_TRUE(test::eventually([&] {
    by_queue = json::object();
    const json attached = rung_json({"attached"});
    for (const json& line : attached["attachments"]) by_queue[line["queue"].get<std::string>()] = line;
    return by_queue["post"]["attached"] == false;
  }));
  EXPECT_EQ(by_queue.size(), 6U) << by_queue.dump();  // none of Rung's own
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
