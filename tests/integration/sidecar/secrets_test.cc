// Secrets are replaced while the sidecar runs: the steps of docs/security.md.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/core/base/url.h"
#include "tests/integration/sidecar/messages.h"
#include "tests/support/http_client.h"
#include "tests/support/snapshot.h"

namespace rung::test {
namespace {

class Secrets : public SidecarTest {
 protected:
  Secrets() : folder_(std::filesystem::temp_directory_path() / unique_name("rung-secrets")) {
    std::filesystem::create_directories(folder_);
  }
  ~Secrets() override {
    sidecar_.reset();
    if (!user_.empty()) call_management("DELETE", "/api/users/" + user_);
    std::filesystem::remove_all(folder_);
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  // As the page says: beside it, then renamed.
  std::string replace(const std::string& name, const std::string& text) {
    std::ofstream(path(name + ".new")) << text;
    std::filesystem::rename(path(name + ".new"), path(name));
    return path(name);
  }
  static std::string ctl() { return std::string(std::getenv("RUNG_TEST_RABBITMQCTL")) + " -q"; }
  static void must_run(const std::string& command) {
    const Ran ran = run_shell(command);
    ASSERT_EQ(ran.code, 0) << command << ": " << ran.out;
  }
  // A message goes the whole way.
  void expect_flow(const std::string& queue) {
    fail(queue, order(unique_name("body")));
    EXPECT_EQ(int_header(delivery(queue).message, "retry-attempt"), 1) << rung().log_tail();
  }
  void new_broker_user(const std::string& password) {
    user_ = unique_name("u");
    set_password(password);
    call_management("PUT", "/api/permissions/%2f/" + user_, R"({"configure":".*","write":".*","read":".*"})");
  }
  void set_password(const std::string& password) const {
    call_management("PUT", "/api/users/" + user_, R"({"tags":"","password":")" + password + "\"}");
  }
  // The subject of the certificate that the HTTP API shows.
  static std::string shown_certificate(int port) {
    return run_shell("openssl s_client -connect 127.0.0.1:" + std::to_string(port) +
                     " </dev/null 2>/dev/null | openssl x509 -noout -subject")
        .out;
  }
  void make_certificate(const std::string& name) {
    must_run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=" +
             name + " -keyout " + path("key.new") + " -out " + path("cert.new") + " 2>&1");
    std::filesystem::rename(path("key.new"), path("key.pem"));
    std::filesystem::rename(path("cert.new"), path("cert.pem"));
  }

  // A client's certificate of the servers' authority, as <folder>/client.pem and client.key.
  void make_client_certificate(const std::string& name) {
    const std::string authority = std::getenv("RUNG_TEST_CA");
    const std::string authority_key = std::filesystem::path(authority).parent_path() / "ca.key";
    must_run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name +
             " -keyout " + path("client.key.new") + " -out " + path("csr") +
             " 2>&1 && openssl x509 -req -in " + path("csr") + " -CA " + authority + " -CAkey " +
             authority_key + " -set_serial 0x$(openssl rand -hex 8) -days 2 -out " + path("client.pem.new") +
             " 2>&1");
    std::filesystem::rename(path("client.pem.new"), path("client.pem"));
    std::filesystem::rename(path("client.key.new"), path("client.key"));
  }
  // An authority that has signed nothing here.
  std::string other_authority() {
    make_certificate("another-authority");
    return text_of_file(path("cert.pem"));
  }
  // The keys of broker: or store: for TLS with both of our files.
  std::string tls_keys() const {
    return "  ca: " + yaml(path("ca.pem")) + "\n  cert: " + yaml(path("client.pem")) +
           "\n  key: " + yaml(path("client.key")) + "\n";
  }
  struct DatabaseUser {
    std::string name, account;  // the account as SQL names it
  };
  // The sidecar logs in as this user; `password`: in its URL, "" = none.
  DatabaseUser new_database_user(const std::string& options, const std::string& password) {
    const std::string name = unique_name("u").substr(0, 30);
    const std::string account = "'" + name + "'@'127.0.0.1'";
    db.exec("CREATE USER " + account + " " + options);
    db.exec("GRANT ALL ON `" + db.name() + "`.* TO " + account);
    Url url = *parse_url(db.url());
    url.user = name;
    url.password = password;
    config.store_url = format_url(url);
    return {name, account};
  }
  std::vector<std::vector<std::string>> sessions_of(const std::string& name) {
    return db.query("SELECT id FROM " + db.processlist() + " WHERE user = '" + name + "'");
  }
  std::size_t sessions(const std::string& name) { return sessions_of(name).size(); }
  void kill_sessions(const std::string& name) {
    for (const auto& row : sessions_of(name)) {
      try {
        db.exec("KILL " + row[0]);
      } catch (const std::exception&) {
        // it was gone by then
      }
    }
  }

  std::string user_;  // at the broker

 private:
  const std::filesystem::path folder_;
};

TEST_F(Secrets, TheBrokersPasswordIsReadAnewForEachLogin) {
  new_broker_user("first");
  const auto at = parse_url(amqp_url());
  config.broker_url = "amqp://" + user_ + "@" + at->host + ":" + std::to_string(at->port) + "/%2f";
  config.broker += "  password_file: " + yaml(replace("broker", "first\n")) + "\n";
  const std::string queue = attached();
  start();
  expect_flow(queue);
  set_password("second");
  replace("broker", "second\nmore lines are not read\n");
  must_run(ctl() + " close_all_user_connections " + user_ + " rotated");
  ASSERT_TRUE(rung().logged("broker reconnected")) << rung().log_tail();
  expect_flow(queue);
}

TEST_F(Secrets, TheDatabasesPasswordIsReadAnewForEachLogin) {
  const auto [name, user] = new_database_user("IDENTIFIED BY 'first'", "");
  config.store += "  password_file: " + yaml(replace("store", "first\n")) + "\n";
  const std::string queue = attached();
  start();
  expect_flow(queue);
  db.exec("ALTER USER " + user + " IDENTIFIED BY 'second'");
  replace("store", "second\n");
  kill_sessions(name);
  expect_flow(queue);
  sidecar_.reset();
  db.exec("DROP USER " + user);
}

TEST_F(Secrets, TheBrokersAuthorityAndOurCertificateAreReadForEachHandshake) {
  new_broker_user("word");
  const auto at = parse_url(std::getenv("RUNG_TEST_AMQPS"));
  config.broker_url = "amqps://" + user_ + ":word@localhost:" + std::to_string(at->port) + "/%2f";
  config.broker += tls_keys();
  const std::string authority = text_of_file(std::getenv("RUNG_TEST_CA"));
  replace("ca.pem", authority);
  make_client_certificate("first");
  const auto reconnect = [&] { must_run(ctl() + " close_all_user_connections " + user_ + " rotated"); };
  const auto shown = [&] { return run_shell(ctl() + " list_connections user peer_cert_subject").out; };
  const std::string queue = attached();
  start();
  expect_flow(queue);
  EXPECT_NE(shown().find(user_ + "\tCN=first"), std::string::npos) << shown();
  make_client_certificate("second");
  replace("ca.pem", other_authority() + authority);  // both are valid
  reconnect();
  ASSERT_TRUE(rung().logged("broker reconnected")) << rung().log_tail();
  expect_flow(queue);
  EXPECT_TRUE(eventually([&] {
    const std::string all = shown();
    return all.find(user_ + "\tCN=second") != std::string::npos &&
           all.find(user_ + "\tCN=first") == std::string::npos;
  })) << shown();
  replace("ca.pem", other_authority());  // the broker's own is no longer valid
  reconnect();
  EXPECT_TRUE(rung().logged("self-signed certificate")) << rung().log_tail();
  replace("ca.pem", authority);
  expect_flow(queue);
}

TEST_F(Secrets, TheDatabasesAuthorityAndOurCertificateAreReadForEachHandshake) {
  const auto [name, user] = new_database_user("IDENTIFIED BY 'word' REQUIRE SUBJECT '/CN=first'", "word");
  config.store += "  tls: verify\n" + tls_keys();
  const std::string authority = text_of_file(std::getenv("RUNG_TEST_MYSQL_CA"));
  replace("ca.pem", authority);
  make_client_certificate("first");
  const std::string queue = attached();
  start();
  expect_flow(queue);
  make_client_certificate("second");
  db.exec("ALTER USER " + user + " REQUIRE SUBJECT '/CN=second'");
  replace("ca.pem", other_authority() + authority);  // both are valid
  kill_sessions(name);
  expect_flow(queue);
  EXPECT_GT(sessions(name), 0U);
  replace("ca.pem", other_authority());  // the database's own is no longer valid
  kill_sessions(name);
  EXPECT_TRUE(rung().logged("self-signed certificate")) << rung().log_tail();
  // A killed session is listed for a moment, and another may have begun before the file was replaced.
  EXPECT_TRUE(eventually([&] { return kill_sessions(name), sessions(name) == 0; }));
  replace("ca.pem", authority);
  expect_flow(queue);
  sidecar_.reset();
  db.exec("DROP USER " + user);
}

// The socket stays where it is: without a token everybody who reaches it would be an admin.
TEST_F(Secrets, AReloadWithoutTokensOpensNothing) {
  const int port = free_port();
  replace("token", "full-token-0123456789\n");
  const std::string listen = "http: { listen: \"127.0.0.1:" + std::to_string(port) + "\"";
  config.more = listen + ", token_file: " + yaml(path("token")) + " }\n";
  start();
  HttpClient client(port);
  ASSERT_TRUE(eventually([&] { return client.call("GET", "/v1/tasks").status == 401; }));
  config.more.clear();
  rung().rewrite(config.text());
  rung().signal(SIGHUP);
  EXPECT_TRUE(rung().logged("the previous HTTP tokens stay in use"));
  EXPECT_EQ(client.call("GET", "/v1/tasks").status, 401);
}

TEST_F(Secrets, TheHttpCertificateIsReadAtAReload) {
  const int port = free_port();
  make_certificate("first");
  config.more = "http: { listen: \"127.0.0.1:" + std::to_string(port) +
                "\", cert: " + yaml(path("cert.pem")) + ", key: " + yaml(path("key.pem")) + " }\n";
  start();
  EXPECT_TRUE(eventually([&] { return shown_certificate(port).find("first") != std::string::npos; }));
  make_certificate("second");
  rung().signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return shown_certificate(port).find("second") != std::string::npos; }))
      << rung().log_tail();
  replace("cert.pem", "no certificate\n");
  rung().signal(SIGHUP);
  EXPECT_TRUE(rung().logged("the previous HTTP certificate stays in use"));
  EXPECT_NE(shown_certificate(port).find("second"), std::string::npos);
}

}  // namespace
}  // namespace rung::test
