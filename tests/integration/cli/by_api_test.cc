// Commands over HTTP: what is wrong with a token, an address or an answer is said; and both ways print the
// same bytes, for both ask the same handlers. The tests of what changes something run both ways, see
// fixture.h.
#include <regex>

#include "src/core/task/task.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

using Words = std::vector<std::string>;

class ByApi : public CliTest {
 protected:
  ByApi() { store(); }

  static std::string token(std::string_view name) { return "token-of-" + std::string(name) + "-0123456789"; }
  // A server with a token for each role, named as the role.
  ApiServer& server() {
    if (server_ == nullptr) {
      http::Tokens tokens;
      for (const std::string_view word : kWords<Role>)
        tokens.people.push_back(person(std::string(word), *from_word<Role>(word), token(word)));
      // An editor of other queues.
      PersonToken stranger = person("stranger", Role::edits, token("stranger"));
      stranger.person.queues =
          std::make_shared<const QueueScope>(std::vector<QueuePattern>{QueuePattern("his-*")});
      tokens.people.push_back(std::move(stranger));
      server_ = std::make_unique<ApiServer>(config_path(), tokens);
    }
    return *server_;
  }
  static Ran run(Words words) {
    words.insert(words.begin(), RUNG_TEST_PROGRAM);
    return run_program(words);
  }
  Ran as(std::string_view role, Words words) {
    const Words access = {"--api", server().url(), "--token-file", file("token", token(role) + "\n")};
    words.insert(words.end(), access.begin(), access.end());
    return run(std::move(words));
  }
  Ran by_database(Words words) {
    words.insert(words.end(), {"-c", config_path()});
    return run(std::move(words));
  }
  // The same API as if it were elsewhere.
  static Ran from(const std::string& url, Words words) {
    words.insert(words.end(), {"--api", url});
    return run(std::move(words));
  }

 private:
  std::unique_ptr<ApiServer> server_;
};

TEST_F(ByApi, AReaderSeesAllButTheMessage) {
  const TaskId id = insert(fresh("orders", 1h));
  const Ran shown = as("reader", {"show", id.str()});
  EXPECT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("first boom"), HasSubstr("they need a token with the role editor"),
                               Not(HasSubstr("acme"))));
  const json as_json = json::parse(as("reader", {"show", id.str(), "--json"}).out);
  EXPECT_EQ(as_json["denied"], json::array({"retry_bodies"}));
  EXPECT_THAT(as("reader", {"show", id.str(), "--body"}).err,
              HasSubstr("this token may not read bodies: properties, headers and body"));
  EXPECT_THAT(as("editor", {"show", id.str(), "--body"}).out, AllOf(HasSubstr("acme"), HasSubstr("hello")));
}

// The origin has headers and properties that the message had before: only for those who may see messages.
TEST_F(ByApi, AReaderSeesNoEarlierContentEither) {
  NewTask task = fresh("orders", 1h);
  task.origin_json = add_earlier(R"({"retry-error":"first boom","retry-token":"t0ken"})",
                                 {.attempt = 1, .properties = "{}", .headers = R"({"card":"4111"})"});
  const TaskId id = insert(task);
  for (const std::string role : {"reader", "operator", "stranger"}) {
    const Ran shown = as(role, {"show", id.str(), "--json"});
    EXPECT_EQ(shown.exit, 0) << shown.err;
    EXPECT_EQ(json::parse(shown.out)["origin"], (json{{"retry-error", "first boom"}})) << role;
  }
  EXPECT_THAT(as("editor", {"show", id.str(), "--json"}).out, AllOf(HasSubstr("4111"), HasSubstr("t0ken")));
}

TEST_F(ByApi, TheTokenIsWrong) {
  insert(fresh("orders", 1h));
  const Ran unknown =
      run({"list", "--api", server().url(), "--token-file", file("other", "somebody-else-1234\n")});
  EXPECT_EQ(unknown.exit, 1);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr(server().url()), HasSubstr("unknown token"), HasSubstr("other")));
  EXPECT_THAT(unknown.err, Not(HasSubstr("somebody-else"))) << "never shown";
  const Ran none = run({"list", "--api", server().url()});
  EXPECT_EQ(none.exit, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("a token is required"), HasSubstr("no token file is given")));
  EXPECT_THAT(run({"list", "--api", server().url(), "--token-file", "/no/such"}).err, HasSubstr("/no/such"));
  EXPECT_THAT(run({"list", "--api", server().url(), "--token-file", file("empty", "")}).err,
              HasSubstr("empty"));
}

TEST_F(ByApi, ACertificateIsVerified) {
  const TaskId id = insert(fresh("orders", 1h));
  const std::string cert = file("cert.pem", ""), key = file("key.pem", "");
  const auto made =
      run_program({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key,
                   "-out", cert, "-subj", "/CN=rung", "-addext", "subjectAltName=IP:127.0.0.1"});
  ASSERT_EQ(made.exit, 0) << made.err;
  write_config("http: { cert: \"" + cert + "\", key: \"" + key + "\" }\n");
  const std::string token_file = file("token", token("reader"));
  const Words list = {"list", "--api", server().url(), "--token-file", token_file};
  ASSERT_THAT(server().url(), testing::StartsWith("https://"));
  Words with_ca = list;
  with_ca.insert(with_ca.end(), {"--ca", cert});
  EXPECT_THAT(run(with_ca).out, HasSubstr(id.str()));
  const Ran unknown = run(list);
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("cannot be used"), HasSubstr("certificate")));
  EXPECT_THAT(run({"list", "--api", "http://127.0.0.1:1", "--ca", cert}).err,
              HasSubstr("--ca: only with https"));
}

TEST_F(ByApi, NobodyAnswers) {
  const Ran away = from("http://127.0.0.1:1", {"list"});
  EXPECT_EQ(away.exit, 2);
  EXPECT_THAT(away.err, HasSubstr("the API http://127.0.0.1:1 is not reachable"));
  EXPECT_THAT(from("ftp://host", {"list"}).err, HasSubstr("begins with https:// or http://"));
  EXPECT_THAT(from("http://me:pw@host", {"list"}).err, HasSubstr("a token is in --token-file"));
  EXPECT_EQ(run({"list", "--api", "http://host", "-c", config_path()}).exit, 1);
  const std::string token_file = file("secret", token("reader"));
  for (const std::string host : {"rung.invalid", "127.rung.invalid", "127.0.0.1.rung.invalid", "192.0.2.1"}) {
    const Ran plain = run({"list", "--api", "http://" + host, "--token-file", token_file});
    EXPECT_EQ(plain.exit, 1) << host;
    EXPECT_THAT(plain.err, HasSubstr("would send the token in plain text: use https://")) << host;
  }
  EXPECT_EQ(run({"list", "--token-file", config_path()}).exit, 1);
}

TEST_F(ByApi, AConfigMayHaveAnApiAlone) {
  const TaskId id = insert(fresh("orders", 1h));
  file("reader.token", token("reader") + "\n");
  const std::string config =
      file("api.yaml", "api: { url: \"" + server().url() + "\", token_file: reader.token }\n");
  const auto with = [&](Words words) {
    words.insert(words.end(), {"-c", config});
    return run(std::move(words));
  };
  EXPECT_THAT(with({"list"}).out, HasSubstr(id.str()));
  EXPECT_THAT(with({"cancel", id.str()}).err, HasSubstr("needs the role operator"));
  const Ran checked = with({"check"});
  EXPECT_EQ(checked.exit, 0) << checked.err;
  EXPECT_THAT(checked.out, AllOf(HasSubstr("api: " + server().url()), HasSubstr("reader.token"),
                                 HasSubstr("only for commands that work over HTTP")));
  EXPECT_EQ(json::parse(with({"check", "--json"}).out)["api"]["url"], server().url());
  for (const Words& words : {Words{"run"}, {"migrate"}, {"attach", "orders"}, {"doctor"}, {"healthcheck"}}) {
    const Ran ran = with(words);
    EXPECT_EQ(ran.exit, 1) << words[0] << ran.out;
    EXPECT_THAT(ran.err, HasSubstr("only the API of an instance")) << words[0];
  }
}

// What cannot be equal: times of now, and durations up to now.
std::string without_now(const std::string& text) {
  static const std::regex ages(R"re("(oldest_overdue_ms|seen_at|expires_at|ended_counted_at)": [^,\n]*)re");
  static const std::regex late(R"re(the oldest \((\d+)\) by [^\n"]*)re");
  return std::regex_replace(std::regex_replace(text, ages, "\"$1\": -"), late, "the oldest $1");
}

TEST_F(ByApi, BothWaysPrintTheSameBytes) {
  const std::string id = insert(fresh("orders", 1h, "m-1")).str(),
                    second = insert(fresh("q/\xc3\xbc", 2h)).str();
  ASSERT_EQ(as("admin", {"cancel", id, "--reason", "withdrawn"}).exit, 0);
  ASSERT_EQ(by_database({"fire", "--queue", "q/\xc3\xbc", "--reason", "it's \"now\"", "--yes"}).exit, 0);
  ASSERT_EQ(as("admin", {"pause", "orders", "--reason", "deploy"}).exit, 0);
  const std::vector<Words> commands = {{"list", "--state", "scheduled,cancelled", "--queue", "q/\xc3\xbc"},
                                       {"list", "--count", "--by", "queue"},
                                       {"show", "m-1"},
                                       {"show", second, "--body"},
                                       {"show", "none"},
                                       {"history", id},
                                       {"bulk", "show", "1"},
                                       {"bulk", "show", "99"},
                                       {"audit", "--action", "cancel", "--since", "1h", "--who", "a"},
                                       {"audit", id},
                                       {"causes", "000000000000"},
                                       {"queues"},
                                       {"stats"},
                                       {"redrive", "--queue", "orders", "--dry-run", "--by", "queue"},
                                       {"redrive", id, "--to-exchange", prefix + ".failed"},
                                       {"cancel", "1"},
                                       {"fire", id}};
  for (const Words& words : commands) {
    for (const bool as_json : {true, false}) {
      Words all = words;
      all.push_back(as_json ? "--json" : "--utc");
      if (!as_json && words[0] == "audit") all.pop_back();  // its times are UTC
      std::string text;
      for (const std::string& word : all) text += word + " ";
      const Ran one = by_database(all), other = as("admin", all);
      EXPECT_EQ(without_now(other.out), without_now(one.out)) << text;
      EXPECT_EQ(other.exit, one.exit) << text;
      EXPECT_EQ(without_now(other.err), without_now(one.err)) << text;
    }
  }
}

}  // namespace
}  // namespace rung::cli
