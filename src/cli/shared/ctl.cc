#include "src/cli/shared/ctl.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "src/core/base/clock.h"
#include "src/core/base/url.h"

extern char** environ;

namespace rung::cli {
namespace {

using PlainJson = nlohmann::json;
using rabbit::Policy;
using rabbit::QueueFacts;

// ------------------------------------------------------------------------------------------------ programs

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> fds{-1, -1};
    if (pipe2(fds.data(), O_CLOEXEC) == 0) read = fds[0], write = fds[1];
  }
  ~Pipe() { close_read(), close_write(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read() { close_one(read); }
  void close_write() { close_one(write); }
  static void close_one(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
};

// Our environment, but with a UTF-8 locale: rabbitmqctl decodes its arguments in the locale's encoding.
std::vector<std::string> environment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("LC_ALL=") && !text.starts_with("LANG=")) out.emplace_back(text);
  }
  out.emplace_back("LC_ALL=C.UTF-8");
  out.emplace_back("LANG=C.UTF-8");
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

Result<pid_t> spawn(std::vector<std::string> words, const Pipe& out, const Pipe& err) {
  std::vector<std::string> env = environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write, STDERR_FILENO);
  posix_spawnattr_t attributes;  // its own process group, so its children are killed with it
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, words[0].c_str(), &actions, &attributes, pointers(words).data(),
                                  pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return transient(words[0] + " could not be started: " + std::strerror(failed));
  return pid;
}

// Reads both until both are closed; false if `deadline` passes first.
bool read_all(Pipe& out, Pipe& err, Ran& ran, const Clock& clock, BootMs deadline) {
  std::array<char, 16384> buffer{};
  while (out.read >= 0 || err.read >= 0) {
    const std::int64_t left = (deadline - clock.boot()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> fds{pollfd{out.read, POLLIN, 0}, pollfd{err.read, POLLIN, 0}};
    poll(fds.data(), fds.size(), static_cast<int>(left));
    const auto take = [&](const pollfd& fd, Pipe& pipe, std::string& to) {
      if (fd.revents == 0) return;
      const ssize_t got = ::read(fd.fd, buffer.data(), buffer.size());
      if (got > 0) to.append(buffer.data(), static_cast<std::size_t>(got));
      if (got == 0 || (got < 0 && errno != EINTR)) pipe.close_read();
    };
    take(fds[0], out, ran.out);
    take(fds[1], err, ran.err);
  }
  return true;
}

// ---------------------------------------------------------------------------------------------- rabbitmqctl

std::vector<std::string> ctl_words(bool* named) {
  const char* command = std::getenv("RUNG_RABBITMQCTL");
  *named = command != nullptr && *command != '\0';
  if (!*named) return {"rabbitmqctl"};
  if (access(command, X_OK) == 0) return {command};  // a path, which can contain spaces
  std::istringstream stream{std::string(command)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool is_local(const std::string& host) {
  if (host == "localhost" || host == "::1" || host.starts_with("127.")) return true;
  std::array<char, 256> ours{};
  if (gethostname(ours.data(), ours.size() - 1) != 0) return false;
  const std::string_view name(ours.data());
  return host == name || host.starts_with(std::string(name) + ".");
}

// The first non-empty line, for a one-line message.
std::string first_line(const Ran& ran) {
  for (const std::string* text : {&ran.err, &ran.out}) {
    std::istringstream stream{*text};
    for (std::string line; std::getline(stream, line);) {
      if (!line.empty()) return line.substr(0, line.find(" Please see "));  // "... diagnostics below"
    }
  }
  return "exit code " + std::to_string(ran.exit);
}

std::string text_at(const PlainJson& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// arguments: [["x-max-length","signedint",5], ...] or {"x-max-length": 5, ...}
PlainJson as_object(const PlainJson& arguments) {
  PlainJson object = arguments.is_object() ? arguments : PlainJson::object();
  if (!arguments.is_array()) return object;
  for (const PlainJson& entry : arguments) {
    if (entry.is_array() && entry.size() == 3 && entry[0].is_string())
      object[entry[0].get<std::string>()] = entry[2];
  }
  return object;
}

class CtlAdmin final : public rabbit::QueueAdmin {
 public:
  explicit CtlAdmin(const BrokerOptions& options) : words_(ctl_words(&named_)) {
    if (auto urls = parse_urls(options.url, options.other_urls)) urls_ = *std::move(urls);
  }

  std::string name() const override { return words_.empty() ? "rabbitmqctl" : words_[0]; }

  Result<void> reach() override {
    if (words_.empty()) return permanent("RUNG_RABBITMQCTL is blank: set it to a command");
    const auto local = std::ranges::find_if(urls_, [](const Url& url) { return is_local(url.host); });
    if (!named_ && local == urls_.end()) {
      return transient("rabbitmqctl manages the broker on this machine, not " + first().host +
                       " (RUNG_RABBITMQCTL can name a command that does)");
    }
    auto status = run({"status", "--formatter", "json"});
    if (!status) return tl::unexpected(status.error());
    if (named_) return {};
    const int port = local->port != 0 ? local->port : local->scheme == "amqps" ? 5671 : 5672;
    if (!listens_at(*status, port)) {
      return transient("rabbitmqctl reaches a different broker: that one does not listen on port " +
                       std::to_string(port));
    }
    return {};
  }

  Result<QueueFacts> queue(std::string_view name) override {
    auto out = list_queues();
    if (!out) return tl::unexpected(out.error());
    return read_queue(*out, name, first().vhost());
  }

  Result<std::vector<QueueFacts>> queues() override {
    auto out = list_queues();
    if (!out) return tl::unexpected(out.error());
    return read_queues(*out);
  }

  Result<bool> exchange_exists(std::string_view name) override {
    auto out = run({"list_exchanges", vhost(), "--formatter", "json", "name"});
    if (!out) return tl::unexpected(out.error());
    const PlainJson rows = PlainJson::parse(*out, nullptr, false);
    if (!rows.is_array()) return transient("rabbitmqctl list_exchanges: the output is not JSON");
    for (const PlainJson& row : rows) {
      if (row.is_object() && row.value("name", PlainJson()) == PlainJson(name)) return true;
    }
    return false;
  }

  Result<std::string> exchange_type(std::string_view name) override {
    auto out = run({"list_exchanges", vhost(), "--formatter", "json", "name", "type"});
    if (!out) return tl::unexpected(out.error());
    const PlainJson rows = PlainJson::parse(*out, nullptr, false);
    if (!rows.is_array()) return transient("rabbitmqctl list_exchanges: the output is not JSON");
    for (const PlainJson& row : rows) {
      if (row.is_object() && row.value("name", PlainJson()) == PlainJson(name)) return text_at(row, "type");
    }
    return std::string();
  }

  // One call of the program lists all bindings.
  Result<std::vector<rabbit::Binding>> bindings(bool of_queue, std::string_view name) override {
    if (!bindings_) {
      auto out = run({"list_bindings", vhost(), "--formatter", "json", "source_name", "destination_name",
                      "destination_kind", "routing_key", "arguments"});
      if (!out) return tl::unexpected(out.error());
      bindings_ = PlainJson::parse(*out, nullptr, false);
      if (!bindings_->is_array()) return transient("rabbitmqctl list_bindings: the output is not JSON");
    }
    std::vector<rabbit::Binding> all;
    for (const PlainJson& row : *bindings_) {
      if (!row.is_object() || text_at(row, "destination_name") != name ||
          (text_at(row, "destination_kind") == "queue") != of_queue)
        continue;
      all.push_back({text_at(row, "source_name"), text_at(row, "routing_key"),
                     as_object(row.value("arguments", PlainJson())).dump()});
    }
    return all;
  }

  Result<std::vector<Policy>> policies() override {
    auto out = run({"list_policies", vhost(), "--formatter", "json"});
    if (!out) return tl::unexpected(out.error());
    return read_policies(*out);
  }

  Result<void> put(const Policy& p) override {
    auto out = run({"set_policy", vhost(), "--priority=" + std::to_string(p.priority), "--apply-to",
                    p.apply_to, p.name, p.pattern, p.definition});
    if (!out) return tl::unexpected(out.error());
    return {};
  }

  Result<void> remove(std::string_view policy) override {
    auto out = run({"clear_policy", vhost(), std::string(policy)});
    if (!out) return tl::unexpected(out.error());
    return {};
  }

 private:
  const Url& first() const { return urls_.front(); }
  std::string vhost() const { return "--vhost=" + first().vhost(); }

  Result<std::string> list_queues() const {
    return run({"list_queues", vhost(), "--formatter", "json", "name", "arguments", "policy", "exclusive"});
  }

  // Its stdout; --quiet suppresses informational output.
  Result<std::string> run(std::vector<std::string> arguments) const {
    std::vector<std::string> words = words_;
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.emplace_back("--quiet");
    auto ran = run_program(words, kCtlTimeout);
    if (!ran) return tl::unexpected(ran.error());
    if (ran->exit == 0) return std::move(ran->out);
    const std::string what = name() + " " + arguments[0] + ": " + first_line(*ran);
    // sysexits: 64 usage, 65 data: the broker rejected the request. Otherwise it was not reached.
    return ran->exit == 64 || ran->exit == 65 ? Result<std::string>(permanent(what))
                                              : Result<std::string>(transient(what));
  }

  std::optional<PlainJson> bindings_;
  bool named_ = false;
  const std::vector<std::string> words_;
  std::vector<Url> urls_ = {Url{}};
};

}  // namespace

Result<Ran> run_program(const std::vector<std::string>& words, Ms timeout) {
  Ran ran;
  Pipe out, err;
  if (out.read < 0 || err.read < 0)
    return transient(std::string("cannot create a pipe: ") + std::strerror(errno));
  auto pid = spawn(words, out, err);
  if (!pid) return tl::unexpected(pid.error());
  out.close_write();
  err.close_write();
  const SystemClock clock;  // child processes run in real time
  const BootMs deadline = clock.boot() + timeout;
  bool done = read_all(out, err, ran, clock, deadline);
  int status = 0;
  // Both pipes are closed: the program has ended or is about to.
  while (done && waitpid(*pid, &status, WNOHANG) == 0) {
    if (clock.boot() >= deadline) done = false;
    std::this_thread::sleep_for(Ms{2});
  }
  if (!done) {
    kill(-*pid, SIGKILL);
    waitpid(*pid, &status, 0);
    return transient(words[0] + " did not answer within " + std::to_string(timeout.count()) + " ms");
  }
  ran.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (ran.exit == 127 && ran.err.empty()) return transient(words[0] + ": command not found");
  return ran;
}

Result<std::vector<Policy>> read_policies(std::string_view text) {
  const PlainJson rows = PlainJson::parse(text, nullptr, false);
  if (!rows.is_array()) return transient("rabbitmqctl list_policies: the output is not JSON");
  std::vector<Policy> all;
  for (const PlainJson& row : rows) {
    if (!row.is_object()) continue;
    Policy policy{text_at(row, "name"), text_at(row, "pattern"), text_at(row, "apply-to"), "{}", 0};
    const PlainJson definition = row.value("definition", PlainJson());
    policy.definition = definition.is_string() ? definition.get<std::string>() : definition.dump();
    if (const PlainJson priority = row.value("priority", PlainJson()); priority.is_number_integer())
      policy.priority = priority.get<int>();
    all.push_back(std::move(policy));
  }
  return all;
}

Result<std::vector<QueueFacts>> read_queues(std::string_view text) {
  const PlainJson rows = PlainJson::parse(text, nullptr, false);
  if (!rows.is_array()) return transient("rabbitmqctl list_queues: the output is not JSON");
  std::vector<QueueFacts> all;
  for (const PlainJson& row : rows) {
    if (!row.is_object()) continue;
    const PlainJson arguments = as_object(row.value("arguments", PlainJson()));
    QueueFacts facts{std::nullopt,
                     text_at(row, "policy"),
                     text_at(arguments, "x-queue-type"),
                     text_at(row, "name"),
                     arguments.dump(-1, ' ', false, PlainJson::error_handler_t::replace),
                     row.value("exclusive", PlainJson()) == true};
    if (arguments.contains("x-dead-letter-exchange"))
      facts.dead_letter_argument = text_at(arguments, "x-dead-letter-exchange");
    all.push_back(std::move(facts));
  }
  return all;
}

Result<QueueFacts> read_queue(std::string_view text, std::string_view name, std::string_view vhost) {
  auto all = read_queues(text);
  if (!all) return tl::unexpected(all.error());
  for (QueueFacts& facts : *all) {
    if (facts.name == name) return std::move(facts);
  }
  return not_found("no queue '" + std::string(name) + "' in virtual host '" + std::string(vhost) + "'");
}

bool listens_at(std::string_view status, int port) {
  const PlainJson all = PlainJson::parse(status, nullptr, false);
  if (!all.is_object() || !all.contains("listeners") || !all["listeners"].is_array()) return false;
  for (const PlainJson& one : all["listeners"]) {
    if (one.is_object() && one.value("port", PlainJson()) == port &&
        text_at(one, "protocol").starts_with("amqp"))
      return true;
  }
  return false;
}

std::unique_ptr<rabbit::QueueAdmin> ctl_admin(const BrokerOptions& options) {
  return std::make_unique<CtlAdmin>(options);
}

}  // namespace rung::cli
