#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "src/bridge/leases/delivery_proof.h"
#include "src/core/message/identity.h"
#include "tests/support/memory/memory_store.h"
#include "tests/support/virtual_time.h"

namespace rung::bridge {
namespace {

class TokenKeyReaderTest : public testing::Test {
 protected:
  void set_key(const std::string& key) {
    ASSERT_TRUE(open_memory_store(db)->set_setting("result_token_key", key));
  }

  const std::shared_ptr<test::VirtualClock> clock = std::make_shared<test::VirtualClock>();
  test::VirtualLoop loop{*clock};
  const std::shared_ptr<MemoryDb> db = std::make_shared<MemoryDb>(clock, 1);
  test::VirtualJobs jobs{loop, [this]() -> Result<std::unique_ptr<Store>> { return open_memory_store(db); }};
  DeliveryProof proof{*clock, true};
  int ready = 0;
  TokenKeyReader reader{loop, jobs, proof, [this] { ++ready; }};
};

TEST_F(TokenKeyReaderTest, AKeyThatCannotBeUsedIsReadAgainUntilAPersonHasMendedIt) {
  set_key("not hexadecimal");
  reader.read();
  loop.run_for(Ms{20'000});
  EXPECT_EQ(ready, 0);
  EXPECT_FALSE(proof.ready());
  set_key(std::string(64, 'a'));
  loop.run_for(Ms{6000});
  EXPECT_EQ(ready, 1);
  EXPECT_TRUE(proof.ready());
}

TEST_F(TokenKeyReaderTest, DuringADrainItIsNotReadAgain) {
  set_key("not hexadecimal");
  reader.read();
  reader.drain();
  loop.run_for(Ms{1000});
  set_key(std::string(64, 'a'));
  loop.run_for(Ms{20'000});
  EXPECT_EQ(ready, 0);
}

}  // namespace
}  // namespace rung::bridge
