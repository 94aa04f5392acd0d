// The values of a header by which rate_by limits tasks.
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

class HeaderValuesContract : public StoreContract {};

TEST_P(HeaderValuesContract, TheValuesOfAHeaderAreFound) {
  NewTask with = task(), odd = task(), without = task();
  with.task.rule_headers = {{"tenant", "a"}, {"tier", "gold"}};
  odd.task.rule_headers = {{"tenant", " \u00fc \U0001F600 \"'\\ "}};
  for (const NewTask& n : {with, odd, without}) must(store_->insert(std::span(&n, 1), Fence{0, {}, true}));
  const TaskId gone{4711};
  const std::vector<TaskId> ids{with.task.id, odd.task.id, without.task.id, gone};
  const std::map<TaskId, std::string> expected{
      {with.task.id, "a"}, {odd.task.id, " \u00fc \U0001F600 \"'\\ "}, {without.task.id, ""}};
  EXPECT_EQ(must(store_->header_values(ids, "tenant")), expected);
  EXPECT_EQ(must(store_->header_values(ids, "tier")).at(with.task.id), "gold");
  EXPECT_TRUE(must(store_->header_values({}, "tenant")).empty());
}

INSTANTIATE_TEST_SUITE_P(Stores, HeaderValuesContract, testing::Values("memory", "mysql"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace rung::test
