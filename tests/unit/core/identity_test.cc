// What proves a delivery, what it leaves in the audit, and the digests that keys are made of.
#include "src/core/message/identity.h"

#include <gtest/gtest.h>

#include <set>

#include "src/core/machine/by_hand.h"
#include "tests/unit/core/machine_fixture.h"

namespace rung {
namespace {

using namespace rung::testing;

DeliveryTokens tokens(const std::string& key = std::string(64, 'a')) {
  return std::move(*DeliveryTokens::from_hex(key));
}

TEST(DeliveryToken, ProvesItsDeliveryAndNoOther) {
  const DeliveryTokens ours = tokens();
  const TaskId id{4711};
  const std::string token = ours.token(id, 2, std::string(16, 'd'), 7);
  EXPECT_TRUE(ours.proves(token, id, 2));
  EXPECT_TRUE(ours.proves(token, id, 0));  // the attempt was not said: the token's own
  EXPECT_EQ(attempt_of_token(token), 2);
  EXPECT_EQ(publish_of_token(token), 7U);
  EXPECT_FALSE(ours.proves(token, id, 1));
  EXPECT_FALSE(ours.proves(token, {4712}, 2));
  EXPECT_FALSE(ours.proves("1" + token.substr(1), id, 0));
  EXPECT_FALSE(tokens(std::string(64, 'b')).proves(token, id, 2));
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string other = token;
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_FALSE(ours.proves(other, id, 0)) << other;
    EXPECT_FALSE(ours.proves(token.substr(0, i), id, 0)) << i;
  }
  for (const std::string& none :
       {std::string(), std::string("2-"), std::string("2-x"), token + "0", std::string("-2-x"),
        std::string("99999999999999-x"), std::string(1 << 20, '7')}) {
    EXPECT_FALSE(ours.proves(none, id, 0));
  }
}

TEST(DeliveryToken, HoldsAtLeast64BitsAndIsTheSameForAllInstances) {
  std::set<std::string> seen;
  for (int attempt = 1; attempt <= 100; ++attempt) {
    const std::string token = tokens().token({7}, attempt, std::string(16, 'd'), 7);
    EXPECT_EQ(token, tokens().token({7}, attempt, std::string(16, 'd'), 7));
    const std::string mac = token.substr(token.rfind('-') + 1);
    EXPECT_EQ(mac.size(), 32U);  // 128 bits in hex
    EXPECT_TRUE(seen.insert(mac).second);
  }
  // HMAC-SHA256 by another program: printf %s 7/1-6464...-7 | openssl dgst -sha256 -mac HMAC -macopt
  // hexkey:aa...
  EXPECT_EQ(tokens().token({7}, 1, std::string(16, 'd'), 7),
            "1-64646464646464646464646464646464-7-9cef4b6636cd36b54db1d5374320d68d");
}

TEST(DeliveryToken, TheKeyIs64HexDigits) {
  const std::string key = DeliveryTokens::new_key();
  EXPECT_TRUE(DeliveryTokens::from_hex(key));
  EXPECT_NE(key, DeliveryTokens::new_key());
  for (const std::string& none :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g')})
    EXPECT_FALSE(DeliveryTokens::from_hex(none)) << none;
}

TEST(Audit, AResultThatChangesAFinishedTaskLeavesARow) {
  Task before = task_in(State::succeeded);
  before.finished_by = FinishedBy::presumed;
  const Event failed{before.id, event::Failed{2, "late", "", {}, "", "", "10.0.0.7", true}};
  const Decision d = decide(before, failed.what, rules(), at());
  ASSERT_EQ(d.verdict, Decision::Verdict::applied);
  const auto row = audit_of(failed, before, d.task, kNow);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->who, "10.0.0.7 (amqp, with retry-token)");
  EXPECT_EQ(row->what, "failed");
  EXPECT_NE(row->before.find("succeeded"), std::string::npos);
  const Task parked = task_in(State::parked);
  const auto late = audit_of({parked.id, event::Succeeded{2}}, parked, before, kNow);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->who, "a consumer (amqp, no retry-token)");
}

TEST(Audit, AResultOfAnAttemptUnderWayLeavesNone) {
  const Task before = task_in(State::awaiting);
  EXPECT_FALSE(audit_of({before.id, event::Succeeded{2}}, before, task_in(State::succeeded), kNow));
  EXPECT_FALSE(audit_of({before.id, event::SilenceOver{}}, task_in(State::succeeded), before, kNow));
}

// ---- digests: stored keys and ids of traces depend on these to the byte: another version of Rung computes
// them again

TEST(Digest, IsSha256) {
  // printf abc | sha256sum
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abc"), 4), "ba7816bf");
}

TEST(Digest, AKeyIsTheBeginningOfTheDigestOfItsFacts) {
  const std::string facts = facts_of({"orders", ""});
  ASSERT_EQ(facts, "6:orders0:");
  EXPECT_EQ(key_of_facts(facts).size(), 16U);
  EXPECT_EQ(to_hex(key_of_facts(facts)), to_hex(sha256(facts)).substr(0, 32));
}

}  // namespace
}  // namespace rung
