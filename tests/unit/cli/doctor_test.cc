// Which privileges the lines of SHOW GRANTS give.
#include <gmock/gmock.h>

#include "src/store/mysql/diagnosis.h"

namespace rung {
namespace {

using ::testing::ElementsAre;

std::set<std::string> have(const std::vector<std::string>& grants, bool* roles) {
  return granted(grants, "rung_1", {"SELECT", "CREATE", "CREATE VIEW"}, roles);
}

TEST(Granted, ReadsWhatCoversTheSchema) {
  bool roles = true;
  EXPECT_THAT(have({"GRANT USAGE ON *.* TO `rung`@`%` IDENTIFIED BY PASSWORD '*1'",
                    "GRANT SELECT, CREATE VIEW ON `rung\\_1`.* TO `rung`@`%`"},
                   &roles),
              ElementsAre("CREATE VIEW", "SELECT"));
  EXPECT_FALSE(roles);
  EXPECT_THAT(have({"GRANT ALL PRIVILEGES ON `rung%`.* TO `rung`@`%`"}, &roles),
              ElementsAre("CREATE", "CREATE VIEW", "SELECT"));
  EXPECT_THAT(have({"GRANT CREATE ON *.* TO `rung`@`%` WITH GRANT OPTION"}, &roles), ElementsAre("CREATE"));
  EXPECT_THAT(
      have({"GRANT SELECT ON `other`.* TO `rung`@`%`", "GRANT SELECT ON `rung_1`.`rung_tasks` TO `rung`@`%`"},
           &roles),
      ElementsAre());
  EXPECT_THAT(have({"GRANT `writers`@`%` TO `rung`@`%`"}, &roles), ElementsAre());
  EXPECT_TRUE(roles);
}

}  // namespace
}  // namespace rung
