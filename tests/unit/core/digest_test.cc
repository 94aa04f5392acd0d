// Stored keys and ids of traces depend on these to the byte: another version of Rung computes them again.
#include <gtest/gtest.h>

#include "src/core/message/identity.h"

namespace rung {
namespace {

TEST(Digest, IsSha256) {
  // printf abc | sha256sum
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abc"), 4), "ba7816bf");
}

TEST(Digest, AKeyIsTheBeginningOfTheDigestOfItsFacts) {
  std::string facts;
  append_field(facts, "orders");
  append_field(facts, "");
  ASSERT_EQ(facts, "6:orders0:");
  EXPECT_EQ(key_of_facts(facts).size(), 16U);
  EXPECT_EQ(to_hex(key_of_facts(facts)), to_hex(sha256(facts)).substr(0, 32));
}

}  // namespace
}  // namespace rung
