// RUNG_PLANT=NAME build/dev/test_unit_bridge plants that bug (src/core/base/failpoint.h): a story must fail.
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/core/base/failpoint.h"

namespace rung {
namespace {

class PlantedEnvironment final : public testing::Environment {
 public:
  void SetUp() override {
    const char* name = std::getenv("RUNG_PLANT");
    if (name == nullptr) return;
    const auto bug = from_word<Bug>(name);
    ASSERT_TRUE(bug) << "there is no bug " << name;
    plant(*bug);
  }
};

[[maybe_unused]] const auto* const planted_environment =
    testing::AddGlobalTestEnvironment(new PlantedEnvironment);

}  // namespace
}  // namespace rung
