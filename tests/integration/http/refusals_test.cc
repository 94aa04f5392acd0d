// What the API says to wrong requests: refusals.txt has each request, and the status and the detail of its
// answer.
#include <sstream>

#include "tests/integration/http/fixture.h"
#include "tests/support/snapshot.h"

namespace rung::test {
namespace {

class HttpRefusals : public HttpTest {};

TEST_F(HttpRefusals, SayWhatIsWrongAndWhatWouldBeRight) {
  config.ladders = "  slow: [1h]\n";
  up();
  std::istringstream lines(text_of_file(RUNG_REFUSALS));
  std::string said;
  for (std::string line; std::getline(lines, line); std::getline(lines, line), std::getline(lines, line)) {
    std::string method, path, body, actual = line;
    replace_all(actual, "PREFIX", config.prefix);
    std::istringstream words(actual);
    words >> method >> path >> std::ws;
    std::getline(words, body);
    const HttpAnswer answer = call(method, path, body.empty() ? std::nullopt : std::optional(body));
    std::string detail = refused(answer, answer.status);
    replace_all(detail, config.prefix, "PREFIX");
    said += (said.empty() ? "" : "\n") + line + "\n" + std::to_string(answer.status) + " " + detail + "\n";
  }
  expect_snapshot(RUNG_REFUSALS, said);
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_current"), "0") << "nothing was done";
  EXPECT_EQ(db.value("SELECT COUNT(*) FROM retry_audit"), "0");
}

}  // namespace
}  // namespace rung::test
