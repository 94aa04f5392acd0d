// The keys of traces.
#include "tests/unit/config/fixture.h"

namespace rung {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

class ConfigOfTraces : public ConfigTest {};

TEST_F(ConfigOfTraces, TheEndpointIsAServer) {
  EXPECT_EQ(good(kServers).otel.endpoint, "");
  EXPECT_EQ(good(kServers + "otel: { endpoint: \"http://c:4318/\" }\n").otel.endpoint, "http://c:4318");
}

TEST_F(ConfigOfTraces, HeadersAreNeverShown) {
  env("RUNG_TEST_KEY", "open-sesame");
  const Config config = good(kServers +
                             "otel: { endpoint: \"https://c\", headers: { authorization: \"Bearer "
                             "${RUNG_TEST_KEY}\", x-org: me } }\n");
  EXPECT_THAT(config.otel.headers,
              ElementsAre(Pair("authorization", "Bearer open-sesame"), Pair("x-org", "me")));
  EXPECT_THAT(describe(config), Not(HasSubstr("sesame")));
  const std::string wrong = problem("otel: { headers: { authorization: \"${RUNG_TEST_KEY}\\n\" } }\n");
  EXPECT_THAT(wrong, HasSubstr("otel.headers.authorization: the value of a header is printable ASCII"));
  EXPECT_THAT(wrong, Not(HasSubstr("sesame")));
}

TEST_F(ConfigOfTraces, WrongValues) {
  const std::string user = problem("otel: { endpoint: \"http://me:sesame@c\" }\n");
  EXPECT_THAT(user, HasSubstr("put the credentials into otel.headers"));
  EXPECT_THAT(user, Not(HasSubstr("sesame")));
  EXPECT_EQ(good(kServers + "otel: { sample: 0 }\n").otel.sample, 0.0);
}

// Commands that send no traces need no key of the collector.
TEST_F(ConfigOfTraces, VariablesAreForTheSidecar) {
  const std::string file =
      write("rung.yaml", kServers + "otel: { headers: { authorization: \"${RUNG_TEST_UNSET_KEY}\" } }\n");
  EXPECT_THAT(load_config(file, ConfigFor::database).problems, IsEmpty());
  EXPECT_THAT(load_config(file, ConfigFor::broker).problems, IsEmpty());
  EXPECT_FALSE(load_config(file, ConfigFor::sidecar).ok());
}

}  // namespace
}  // namespace rung
