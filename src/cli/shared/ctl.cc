#include "src/cli/shared/ctl.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "src/core/base/url.h"

namespace rung::cli {
namespace {

using PlainJson = nlohmann::json;
using rabbit::Policy;
using rabbit::QueueFacts;

// rabbitmqctl decodes its arguments in the locale's encoding.
const io::Variables kUtf8 = {{"LC_ALL", "C.UTF-8"}, {"LANG", "C.UTF-8"}};

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

Result<PlainJson> rows_of(std::string_view output, const std::string& command) {
  PlainJson rows = PlainJson::parse(output, nullptr, false);
  if (!rows.is_array()) return transient("rabbitmqctl " + command + ": the output is not JSON");
  return rows;
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

  Result<std::string> exchange_type(std::string_view name) override {
    auto out = run({"list_exchanges", vhost(), "--formatter", "json", "name", "type"});
    if (!out) return tl::unexpected(out.error());
    const auto rows = rows_of(*out, "list_exchanges");
    if (!rows) return tl::unexpected(rows.error());
    for (const PlainJson& row : *rows) {
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
      auto rows = rows_of(*out, "list_bindings");
      if (!rows) return tl::unexpected(rows.error());
      bindings_ = *std::move(rows);
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
    auto ran = run_program(words, kCtlTimeout, kUtf8);
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

Result<std::vector<Policy>> read_policies(std::string_view text) {
  const auto rows = rows_of(text, "list_policies");
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Policy> all;
  for (const PlainJson& row : *rows) {
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
  const auto rows = rows_of(text, "list_queues");
  if (!rows) return tl::unexpected(rows.error());
  std::vector<QueueFacts> all;
  for (const PlainJson& row : *rows) {
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
