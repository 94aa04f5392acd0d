#include "plugin/rabbitmq/management.h"

#include <httplib.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plugin/rabbitmq/topology.h"
#include "src/core/url.h"

namespace rung::rabbit {
namespace {

using nlohmann::json;

constexpr int kManagementPort = 15672;

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("-_./:@%+=,").find(c) != std::string_view::npos;
}
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string text_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::string what_failed(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
      return "is not there";
    case httplib::Error::Read:
    case httplib::Error::Write:
      return "does not answer in time";
    default:
      return "cannot be asked: " + httplib::to_string(error);
  }
}

// The API shows an empty object now as {}, now as [].
std::optional<std::string> text_in(const json& object, const char* table, const char* key) {
  const auto it = object.find(table);
  if (it == object.end() || !it->is_object() || !it->contains(key)) return std::nullopt;
  return text_at(*it, key);
}

class ManagementAdmin final : public QueueAdmin {
 public:
  ManagementAdmin(const Url& url, const Url& broker, const BrokerOptions& options, Ms timeout)
      : address_(url.host_port(kManagementPort)),
        client_(url.scheme + "://" + address_),
        base_(base_path(url.path)),
        vhost_(broker.vhost()) {
    client_.set_basic_auth(url.user, url.password);
    client_.set_connection_timeout(timeout);
    client_.set_read_timeout(timeout);
    client_.set_write_timeout(timeout);
    client_.set_url_encode(false);  // our paths are encoded, to the slash
    if (!options.ca.empty()) client_.set_ca_cert_path(options.ca);
    if (!options.verify_host) client_.enable_server_certificate_verification(false);
  }

  std::string name() const override { return "the management API at " + address_; }

  Result<void> reach() override {
    auto answer = get("/api/vhosts/" + percent_encode(vhost_));
    if (answer) return {};
    if (answer.error().kind == Error::Kind::not_found) {
      return not_found("the broker has no virtual host '" + vhost_ + "', or hides it from this user");
    }
    return tl::unexpected(answer.error());
  }

  Result<QueueFacts> queue(std::string_view name) override {
    auto answer = look_at_fresh(name);
    if (!answer) return tl::unexpected(answer.error());
    return QueueFacts{text_in(*answer, "arguments", "x-dead-letter-exchange"), text_at(*answer, "policy"),
                      text_at(*answer, "type")};
  }

  // The queue as it is now. What GET /api/queues/VHOST/NAME shows of policies is up to five seconds old
  // (3.10): too old for who has just changed one. A list without statistics is not.
  Result<json> look_at_fresh(std::string_view queue) {
    auto answer =
        get("/api/queues/" + percent_encode(vhost_) +
            "?disable_stats=true&enable_queue_totals=true&page=1&page_size=100&use_regex=true&name=" +
            percent_encode(policy_pattern(queue)));
    if (!answer || !answer->is_object() || !answer->contains("items")) return look_at(queue);
    for (const json& row : (*answer)["items"]) {
      if (row.is_object() && text_at(row, "name") == queue) return row;
    }
    return not_found(no_queue(queue));
  }

  // The queue as GET /api/queues/VHOST/NAME has it.
  Result<json> look_at(std::string_view queue) {
    auto answer = get("/api/queues/" + percent_encode(vhost_) + "/" + percent_encode(queue));
    if (!answer && answer.error().kind == Error::Kind::not_found) {
      return not_found(no_queue(queue));
    }
    return answer;
  }

  Result<bool> exchange_exists(std::string_view name) override {
    auto answer = get("/api/exchanges/" + percent_encode(vhost_) + "/" + percent_encode(name));
    if (answer) return true;
    if (answer.error().kind == Error::Kind::not_found) return false;
    return tl::unexpected(answer.error());
  }

  Result<std::vector<Policy>> policies() override {
    auto answer = get("/api/policies/" + percent_encode(vhost_));
    if (!answer) return tl::unexpected(answer.error());
    std::vector<Policy> all;
    for (const json& row : *answer) {
      Policy policy{text_at(row, "name"), text_at(row, "pattern"), text_at(row, "apply-to"), "{}", 0};
      if (const auto it = row.find("definition"); it != row.end() && it->is_object())
        policy.definition = dump(*it);
      if (const auto it = row.find("priority"); it != row.end() && it->is_number_integer())
        policy.priority = it->get<int>();
      all.push_back(std::move(policy));
    }
    return all;
  }

  // Where a policy sends dead letters; none where it does not say.
  Result<std::optional<std::string>> dead_letters_by(std::string_view policy) {
    auto answer = get(policy_suffix(policy));
    if (!answer) return tl::unexpected(answer.error());
    return text_in(*answer, "definition", "dead-letter-exchange");
  }

  Result<void> put(const Policy& policy) override {
    const json body = {{"pattern", policy.pattern},
                       {"apply-to", policy.apply_to},
                       {"priority", policy.priority},
                       {"definition", json::parse(policy.definition, nullptr, false)}};
    auto answer = understood(client_.Put(policy_path(policy.name), dump(body), "application/json"));
    if (!answer) return tl::unexpected(answer.error());
    return {};
  }

  Result<void> remove(std::string_view policy) override {
    auto answer = understood(client_.Delete(policy_path(policy)));
    if (!answer) return tl::unexpected(answer.error());
    return {};
  }

 private:
  static std::string base_path(const std::string& path) {
    if (path.empty()) return {};
    std::string base = "/" + path;
    while (base.ends_with('/')) base.pop_back();
    return base;
  }
  std::string no_queue(std::string_view queue) const {
    return "no queue '" + std::string(queue) + "' in virtual host '" + vhost_ + "'";
  }
  std::string policy_path(std::string_view policy) const { return base_ + policy_suffix(policy); }
  std::string policy_suffix(std::string_view policy) const {
    return "/api/policies/" + percent_encode(vhost_) + "/" + percent_encode(policy);
  }

  Result<json> get(const std::string& path) { return understood(client_.Get(base_ + path)); }

  Result<json> understood(const httplib::Result& answer) const {
    if (!answer) return transient(name() + " " + what_failed(answer.error()));
    const json body = json::parse(answer->body, nullptr, false);
    const std::string said = body.is_object() ? text_at(body, "reason") : std::string();
    if (answer->status == 401 || answer->status == 403) {
      return transient(name() + " does not let this user in (" + std::to_string(answer->status) +
                       (said.empty() ? "" : ", " + said) + "): it needs the tag policymaker");
    }
    if (answer->status == 404) return not_found(name() + " says not found");
    if (answer->status >= 500) return transient(name() + " answers " + std::to_string(answer->status));
    if (answer->status >= 300) {
      return permanent(name() + " refuses (" + std::to_string(answer->status) + "): " + said);
    }
    if (answer->body.empty()) return json();
    // Something else may be listening at a port that we only guessed.
    if (body.is_discarded()) return transient(name() + " does not answer in JSON: is it RabbitMQ's?");
    return body;
  }

  const std::string address_;
  httplib::Client client_;
  const std::string base_, vhost_;
};

Result<std::unique_ptr<ManagementAdmin>> make_admin(const BrokerOptions& options, Ms timeout) {
  auto broker = parse_url(options.url);
  if (!broker) return permanent("broker.url: " + broker.error().message);
  Url url;
  if (options.management.empty()) {
    url.scheme = "http";
    url.host = broker->host;
  } else {
    auto given = parse_url(options.management);
    if (!given) return permanent("broker.management: " + given.error().message);
    url = *std::move(given);
    if (url.scheme != "http" && url.scheme != "https") {
      return permanent("broker.management: its scheme is " + url.scheme + ", it would be http or https");
    }
  }
  if (url.user.empty()) {
    url.user = broker->user.empty() ? "guest" : broker->user;
    url.password = broker->user.empty() ? "guest" : broker->password;
  }
  return std::make_unique<ManagementAdmin>(url, *broker, options, timeout);
}

}  // namespace

AttachedAnswer ask_attached(const BrokerOptions& options, std::string_view queue, Ms timeout) {
  auto admin = make_admin(options, timeout);
  if (!admin) return {Attached::unknown, admin.error().message};
  auto facts = (*admin)->queue(queue);
  if (!facts) {
    const bool gone = facts.error().kind == Error::Kind::not_found;
    return {gone ? Attached::no_such_queue : Attached::unknown, facts.error().message};
  }
  const std::string ours = failed_exchange(options.prefix);
  if (const auto& argument = facts->dead_letter_argument) {
    if (*argument == ours) return {Attached::yes_by_argument, {}};
    return {Attached::no, "its argument x-dead-letter-exchange is '" + *argument + "'"};
  }
  if (facts->policy.empty()) return {Attached::no, "nothing says where its dead letters go"};
  auto by_policy = (*admin)->dead_letters_by(facts->policy);
  if (!by_policy) return {Attached::unknown, by_policy.error().message};
  if (*by_policy == ours) return {Attached::yes_by_policy, facts->policy};
  if (!*by_policy) return {Attached::no, "nothing says where its dead letters go"};
  return {Attached::no, "policy '" + facts->policy + "' sends its dead letters to '" + **by_policy + "'"};
}

Result<void> declare_once(const BrokerOptions& options, Ms timeout) {
  auto url = parse_url(options.url);
  if (!url) return permanent("broker.url: " + url.error().message);
  std::shared_ptr<Tls> tls;
  if (url->scheme == "amqps") {
    auto loaded = Tls::load(options);
    if (!loaded) return tl::unexpected(loaded.error());
    tls = *std::move(loaded);
  }
  Waker waker;
  const auto deadline = Clock::now() + timeout;
  const Connection::Others nothing = [](const Frame&) {};
  auto opened = Connection::open(*url, tls.get(), options.heartbeat, options.connection_name + " (attach)",
                                 waker, deadline);
  if (!opened) return tl::unexpected(opened.error());
  if (auto done = (*opened)->open_channel(waker, deadline, nothing); !done) return done;
  auto done = declare_topology(options, **opened, waker, deadline, nothing);
  (*opened)->close(Clock::now() + std::chrono::seconds{1});
  return done;
}

std::string failed_exchange(std::string_view prefix) { return std::string(prefix) + ".failed"; }
std::string policy_name(std::string_view queue) { return "rung-" + std::string(queue); }

std::string policy_pattern(std::string_view queue) {
  std::string out = "^";
  for (const char c : queue) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + "$";
}

std::string policy_definition(std::string_view prefix) {
  return dump(json{{"dead-letter-exchange", failed_exchange(prefix)}});
}

std::string shell_quote(std::string_view text) {
  if (!text.empty() && std::ranges::all_of(text, is_word)) return std::string(text);
  if (std::ranges::none_of(text, is_control)) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
    return out + "'";
  }
  // A control character would be lost or run as a command on its way through a terminal.
  constexpr std::string_view kOctal = "01234567";
  std::string out = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_control(c)) {
      out += '\\';
      for (const int shift : {6, 3, 0}) out += kOctal[(byte >> shift) & 7];
    } else {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "'";
}

std::string policy_command(std::string_view prefix, std::string_view vhost, std::string_view queue) {
  // rabbitmqctl reads its words in the locale's encoding: in C a name beyond ASCII would become another.
  std::string out = is_ascii(queue) && is_ascii(vhost) && is_ascii(prefix) ? "" : "LC_ALL=C.UTF-8 ";
  out += "rabbitmqctl set_policy ";
  out += vhost.starts_with('-') ? "--vhost=" + shell_quote(vhost) : "-p " + shell_quote(vhost);
  out += " --apply-to queues " + shell_quote(policy_name(queue)) + " " + shell_quote(policy_pattern(queue)) +
         " " + shell_quote(policy_definition(prefix));
  return out;
}

Result<std::unique_ptr<QueueAdmin>> management_admin(const BrokerOptions& options, Ms timeout) {
  auto admin = make_admin(options, timeout);
  if (!admin) return tl::unexpected(admin.error());
  return std::unique_ptr<QueueAdmin>(*std::move(admin));
}

}  // namespace rung::rabbit
