// A message that fails, is parked, and goes out again after `rung edit`: with a sidecar and the real servers;
// with RUNG_TEST_CLI_BY=api by its HTTP API.
#include <gmock/gmock.h>

#include "tests/integration/cli/by_api.h"
#include "tests/support/http_client.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

using testing::HasSubstr;

class EditFlow : public SidecarTest {
 protected:
  Ran edit(const std::string& id, const std::string& body) {
    return run_shell(
        "printf '%s' '" + body + "' | " + rung_program() + " edit " + id + " --body -" +
        (cli::by_api() ? " --api http://127.0.0.1:" + std::to_string(port) : " -c " + rung().config_path()));
  }

  const int port = free_port();
};

TEST_F(EditFlow, TheSidecarSendsTheEditedMessageInPlaceOfTheParkedOne) {
  config.ladder = "[1h]";
  config.more = "http: { listen: \"127.0.0.1:" + std::to_string(port) + "\" }\n";
  const std::string queue = attached();
  start();
  Message message;
  message.body = R"({"order":17})";
  message.properties.message_id = "m-17";
  message.properties.content_type = "application/json";
  message.headers = Table{{"tenant", "acme"}, {"retry-never", true}};
  amqp.publish("", queue, message);
  const Received first = delivery(queue);
  amqp.reject(first);
  const std::string id = wait_state(queue, "parked").at("retry_id");

  const std::string body = R"({"order":17,"city":"Ulm"})";
  const Ran ran = edit(id, body);
  ASSERT_EQ(ran.code, 0) << ran.out;
  const Received again = delivery(queue);
  const std::string child = retry_id(again);
  EXPECT_NE(child, id);
  EXPECT_THAT(ran.out, HasSubstr(child));
  EXPECT_EQ(again.message.body, body);
  EXPECT_EQ(again.message.properties.message_id, "m-17");
  EXPECT_EQ(text_header(again.message, "tenant"), "acme");
  EXPECT_EQ(int_header(again.message, "retry-attempt"), 1);
  report(again, "succeeded");
  wait_id(child, "succeeded");
  EXPECT_EQ(rows("SELECT replaced_by FROM retry_current WHERE retry_id = " + id)[0].at("replaced_by"), child);
  EXPECT_EQ(rows("SELECT parent_id FROM retry_current WHERE retry_id = " + child)[0].at("parent_id"), id);
  EXPECT_EQ(rows("SELECT state FROM retry_current WHERE retry_id = " + id)[0].at("state"), "discarded");
  const Row audit = rows("SELECT * FROM retry_audit WHERE retry_id = " + id)[0];
  EXPECT_EQ(audit.at("what"), "edit");
  EXPECT_THAT(audit.at("after_change"), HasSubstr("\"body_bytes\":" + std::to_string(body.size())));

  const Ran twice = edit(id, body);
  EXPECT_EQ(twice.code, 0) << twice.out;
  EXPECT_THAT(twice.out, HasSubstr(child));
  expect_nothing(queue);  // never two messages
}

}  // namespace
}  // namespace rung::test
