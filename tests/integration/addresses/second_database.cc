#include "tests/integration/addresses/second_database.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "src/core/base/url.h"
#include "tests/support/sidecar.h"

namespace rung::test {
namespace {

std::string must_run(const std::string& command) {
  Ran ran = run_shell(command);
  if (ran.code != 0) throw std::runtime_error(command + ": " + ran.out);
  return std::move(ran.out);
}

const std::string& second_dir() {
  static const std::string& dir = *new std::string([] {  // outlives what atexit() calls
    std::string made = (std::filesystem::temp_directory_path() / "rung-second.XXXXXX").string();
    if (mkdtemp(made.data()) == nullptr) throw std::runtime_error("mkdtemp " + made);
    must_run("'" RUNG_TEST_SERVERS_SCRIPT "' start '" + made + "' --owner-pid " + std::to_string(getpid()));
    std::atexit([] { (void)run_shell("'" RUNG_TEST_SERVERS_SCRIPT "' stop '" + second_dir() + "'"); });
    return made;
  }());
  return dir;
}

constexpr const char* kUser = "rung_plain";

}  // namespace

SecondDatabase::SecondDatabase() {
  const auto url = parse_url(must_run(". '" + second_dir() + "/env'; printf %s \"$RUNG_TEST_MYSQL\""));
  if (!url) throw std::runtime_error(url.error().message);
  port_ = url->port;
  broker_ = must_run(". '" + second_dir() + "/env'; printf %s \"$RUNG_TEST_AMQP\"");
  read_only(false);
}

SecondDatabase::~SecondDatabase() { read_only(false); }

void SecondDatabase::read_only(bool yes) { sql(std::string("SET GLOBAL read_only = ") + (yes ? "1" : "0")); }

std::string SecondDatabase::sql(const std::string& statement) {
  return must_run("'" + second_dir() + "/sql' -N -e \"" + statement + "\"");
}

std::string plain_user(SecondDatabase& second, const std::string& schema, int port) {
  const std::string user = "'" + std::string(kUser) + "'@'%'";
  const std::string make =
      "CREATE USER IF NOT EXISTS " + user + " IDENTIFIED BY 'word'; GRANT ALL ON " + schema + ".* TO " + user;
  second.sql(make);
  must_run("\"$RUNG_TEST_SQL\" -e \"" + make + "\"");
  return "mysql://" + std::string(kUser) + ":word@127.0.0.1:" + std::to_string(port) + "/" + schema;
}

}  // namespace rung::test
