// `rung redrive --canary`, with a sidecar and the real servers. The consumer is the test.
#include <gmock/gmock.h>

#include <future>

#include "tests/integration/cli/fixture.h"
#include "tests/support/http_client.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

using testing::HasSubstr;

class CarefulRedriveCommand : public SidecarTest {
 protected:
  void SetUp() override {
    config.ladder = "[1h]";
    config.more = "http: { listen: \"127.0.0.1:" + std::to_string(port) + "\" }\n";
    queue = attached();
    start();
    for (int i = 0; i < 6; ++i) {
      Message message;
      message.body = std::to_string(i);
      message.headers = Table{{"retry-never", true}};
      fail(queue, message);
    }
    ASSERT_TRUE(
        eventually([&] { return rows("SELECT 1 FROM retry_current WHERE state = 'parked'").size() == 6; }));
  }
  std::future<Ran> redrive(const std::string& options) {
    return std::async(std::launch::async, [command = rung_program() + " redrive --queue " + queue +
                                                     " --yes " + options + access() + " >" + said_path(),
                                           this] {
      Ran ran = run_shell("(" + command + " 2>&1)");
      ran.out = said();
      return ran;
    });
  }
  // What the command has said so far.
  std::string said() { return run_shell("cat " + said_path()).out; }
  std::string said_path() { return rung().config_path() + ".said"; }
  std::string access() {
    return cli::by_api() ? " --api http://127.0.0.1:" + std::to_string(port) : " -c " + rung().config_path();
  }

  const int port = free_port();
  std::string queue;
};

TEST_F(CarefulRedriveCommand, GoesOnWhenItsCanaryHasSucceeded) {
  auto command = redrive("--canary 2");
  const Received first = delivery(queue), second = delivery(queue);
  EXPECT_TRUE(eventually([&] { return said().find("canary: 0 of 2 succeeded") != std::string::npos; }));
  for (const Received* got : {&first, &second}) {
    report(*got, "succeeded");
    amqp.ack(*got);
  }
  EXPECT_EQ(amqp.take(queue, 4).size(), 4U);
  const Ran ran = command.get();
  EXPECT_THAT(run_shell(rung_program() + " redrive --queue " + queue + " --yes" + access()).out,
              HasSubstr("no tasks match"));
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("canary succeeded: the others follow"));
  EXPECT_THAT(ran.out, HasSubstr("redrive: 6 of 6 done"));
  const auto shown = [&] { return run_shell(rung_program() + " bulk show 1" + access()).out; };
  EXPECT_THAT(shown(), testing::ContainsRegex("\ncanary +2\n"));
  // The last confirm may be recorded after its delivery.
  EXPECT_TRUE(eventually([&] {
    const std::string text = shown();
    return text.find("succeeded: 2\n") != std::string::npos && text.find("open: 4\n") != std::string::npos;
  })) << shown();
}

TEST_F(CarefulRedriveCommand, StopsWhenItsCanaryFails) {
  auto command = redrive("--canary 2 --watch 5m --rate 100 --ramp --stop-on-failures 5%");
  const Received good = delivery(queue), bad = delivery(queue);
  report(good, "succeeded");
  amqp.ack(good);
  amqp.reject(bad);
  const Ran ran = command.get();
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("bulk 1 stopped at 2 of 6: 1 of the canary's 2 failed: " + retry_id(bad)));
  const std::string rest = "rung redrive --queue " + queue + " --state parked\n";
  EXPECT_THAT(ran.out, HasSubstr("once that is mended: " + rest));
  EXPECT_THAT(run_shell(rung_program() + " bulk show 1" + access()).out,
              HasSubstr("the rest            " + rest));
  EXPECT_EQ(rows("SELECT 1 FROM retry_current WHERE state = 'parked'").size(), 5U);
  expect_nothing(queue);
}

}  // namespace
}  // namespace rung::test
