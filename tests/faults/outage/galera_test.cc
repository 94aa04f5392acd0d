// One node of a Galera cluster, as MariaDB brings it along: what the program does there, and what it says of
// it. Skipped where the server is MySQL, which has none.
#include <cstdlib>
#include <filesystem>

#include "tests/faults/outage/fixture.h"
#include "tests/support/http_client.h"

namespace rung::test {
namespace {

// Before the servers are started.
bool is_galera() {
  const char* root = std::getenv("RUNG_DB_ROOT");
  const std::string provider = "/usr/lib/galera/libgalera_smm.so";
  if (!std::filesystem::exists((root != nullptr ? root : "") + provider)) return false;
  const std::string port = std::to_string(free_port()), ist = std::to_string(free_port());
  setenv("RUNG_DB_OPTIONS",
         ("--wsrep-on=ON --wsrep-new-cluster --binlog-format=ROW --wsrep-cluster-address=gcomm:// "
          "--wsrep-node-address=127.0.0.1 --wsrep-provider=" +
          provider + " --wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:" + port +
          ";ist.recv_addr=127.0.0.1:" + ist)
             .c_str(),
         1);
  return true;
}
const bool kIsGalera = is_galera();

class Galera : public OutageTest {
 protected:
  void SetUp() override {
    if (!kIsGalera) GTEST_SKIP() << "this server has no Galera";
    ASSERT_EQ(db.query("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'").at(0).at(1), "ON");
  }
};

TEST_F(Galera, TheLogAtStartAndDoctorWarn) {
  start();
  EXPECT_TRUE(rung().logged("check=database.wsrep"));
  EXPECT_TRUE(rung().logged("two writers are not supported"));
  const Ran doctor = run_shell("'" + rung_program() + "' doctor -c '" + rung().config_path() + "' 2>&1");
  EXPECT_NE(doctor.out.find("database.wsrep"), std::string::npos) << doctor.out;
}

TEST_F(Galera, MessagesClimbAndAreParked) {
  start();
  const std::string queue = attached();
  FailingConsumer consumer(queue, failed(), FailingConsumer::How::reject);
  publish_failed(queue, 40);
  EXPECT_EQ(all_ended(queue, consumer, 40), 0U);
}

}  // namespace
}  // namespace rung::test
