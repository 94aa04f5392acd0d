#include "plugin/rabbitmq/topology/management.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <set>

#include "plugin/rabbitmq/topology/management_rows.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "plugin/rabbitmq/wire/access.h"
#include "src/core/base/addresses.h"
#include "src/core/base/hex.h"
#include "src/core/base/url.h"
#include "src/net/http_client.h"

namespace rung::rabbit {
namespace {

constexpr int kManagementPort = 15672;
constexpr std::string_view kOwnQueues[] = {".failed", ".delay", ".results", ".parked"};
// Queues are listed in pages. Answers are bounded, in case something else listens there: policies come in one
// answer, and `rung attach` makes one for each queue.
constexpr std::size_t kPageQueues = 500, kMostQueues = 200'000;
constexpr std::size_t kMostAnswer = 8UL * 1024 * 1024;   // bytes
constexpr std::size_t kMostListed = 64UL * 1024 * 1024;  // bytes of all pages
// Without statistics, which can be up to five seconds old.
constexpr const char* kFresh = "?disable_stats=true&enable_queue_totals=true";

// One address of the API.
struct Endpoint {
  Endpoint(const Url& url, const BrokerOptions& options, Ms connecting, Ms answering)
      : address(url.host_port(kManagementPort)),
        user(url.user),
        client({.base = url.scheme + "://" + address,
                .user = url.user,
                .password = url.password,
                .ca = options.ca,
                .verify = options.verify_host,
                .connecting = connecting,
                .answering = answering,
                .max_answer = kMostAnswer}) {}
  const std::string address, user;
  net::HttpClient client;
};

class ManagementAdmin final : public QueueAdmin {
 public:
  // `urls`: addresses of one API, the nodes of a cluster.
  ManagementAdmin(const std::vector<Url>& urls, const std::string& vhost, const BrokerOptions& options,
                  Ms timeout)
      : base_(base_path(urls.front().path)), vhost_(vhost), timeout_(timeout) {
    const Ms connecting = urls.size() > 1 ? std::min(timeout, Addresses::kSlice) : timeout;
    for (const Url& url : urls)
      endpoints_.push_back(std::make_unique<Endpoint>(url, options, connecting, timeout));
  }

  std::string name() const override { return "the management API at " + here().address; }

  // Uses a call that the tag policymaker allows; GET /api/vhosts/VHOST needs more.
  Result<void> reach() override {
    auto answer = get(queues_path() + kFresh + "&page=1&page_size=1&columns=name", "list queues");
    if (answer) return {};
    if (answer.error().kind == Error::Kind::not_found) {
      // RabbitMQ 4 gives the same answer if the user has no permissions there.
      return not_found("virtual host '" + vhost_ + "' does not exist, or user '" + here().user +
                       "' has no access to it. If it does not exist, run rabbitmqctl add_vhost " +
                       shell_quote(vhost_) + ", or correct the end of broker.url; if it exists, run " +
                       permit());
    }
    return tl::unexpected(answer.error());
  }

  Result<QueueFacts> queue(std::string_view name) override {
    auto answer = look_at_fresh(name);
    if (!answer) return tl::unexpected(answer.error());
    return queue_facts_of(*answer);
  }

  Result<std::vector<QueueFacts>> queues() override {
    std::vector<QueueFacts> all;
    std::set<std::string> names;  // a queue that was created or deleted meanwhile moves others between pages
    auto listed = list(std::string(kFresh) +
                           "&columns=name,arguments,policy,type,exclusive,auto_delete,durable,node,members,"
                           "effective_policy_definition",
                       [&](const json& row) {
                         if (names.insert(text_at(row, "name")).second) all.push_back(queue_facts_of(row));
                       });
    if (!listed) return tl::unexpected(listed.error());
    return all;
  }

  // Only with statistics there are these counters.
  Result<std::map<std::string, std::int64_t, std::less<>>> published() override {
    std::map<std::string, std::int64_t, std::less<>> all;
    auto listed = list("?columns=name,message_stats.publish", [&](const json& row) {
      const auto stats = row.find("message_stats");
      if (stats != row.end() && stats->is_object() && stats->contains("publish"))
        all[text_at(row, "name")] = number_at(*stats, "publish");
    });
    if (!listed) return tl::unexpected(listed.error());
    return all;
  }

  // Page by page.
  Result<void> list(const std::string& query, const std::function<void(const json& row)>& each) {
    listed_bytes_ = 0;
    listing_ = Ms{0};
    for (std::size_t page = 1, pages = 1; page <= pages; ++page) {
      auto answer = get(queues_path() + query + "&page=" + std::to_string(page) +
                            "&page_size=" + std::to_string(kPageQueues),
                        "list queues");
      // The last page is gone: queues were deleted meanwhile.
      if (!answer && page > 1 && answer.error().kind == Error::Kind::permanent) break;
      if (!answer) return tl::unexpected(answer.error());
      const auto items = answer->find("items");
      if (!answer->is_object() || items == answer->end() || !items->is_array())
        return transient(name() + " does not list queues in pages: is it RabbitMQ's?");
      for (const json& row : *items) {
        if (row.is_object()) each(row);
      }
      pages = static_cast<std::size_t>(std::max<std::int64_t>(number_at(*answer, "page_count"), 0));
      if (pages > kMostQueues / kPageQueues || listed_bytes_ > kMostListed)
        return transient(name() + " lists too many queues: more than " + std::to_string(kMostQueues) +
                         ", or more than 64 MB");
      if (listing_ > 10 * timeout_) return transient(name() + " takes too long to list the queues");
      if (items->empty()) break;
    }
    return {};
  }

  // The current state of the queue. The policies in GET /api/queues/VHOST/NAME are up to five seconds old
  // (3.10): too old right after a change. A list without statistics is current.
  Result<json> look_at_fresh(std::string_view queue) {
    auto answer = get(queues_path() + kFresh + "&page=1&page_size=100&use_regex=true&name=" +
                          percent_encode(policy_pattern(queue)),
                      "look at a queue");
    if (!answer) return answer;
    if (!answer->is_object() || !answer->contains("items")) return transient(name() + " lists no queues");
    for (const json& row : (*answer)["items"]) {
      if (row.is_object() && text_at(row, "name") == queue) return row;
    }
    return not_found(no_queue(queue));
  }

  // RabbitMQ shows them to users with the tag monitoring, not policymaker.
  Result<std::vector<std::string>> nodes() {
    auto answer = get("/api/nodes?columns=name", "list nodes");
    if (!answer) return tl::unexpected(answer.error());
    std::vector<std::string> names;
    for (const json& row : *answer) {
      if (row.is_object()) names.push_back(text_at(row, "name"));
    }
    return names;
  }

  Result<std::vector<QueueFacts>> own_queues(std::string_view prefix) override {
    std::vector<QueueFacts> all;
    for (const std::string_view end : kOwnQueues) {
      auto row = row_of(true, std::string(prefix).append(end));
      if (!row && row.error().kind == Error::Kind::not_found) continue;
      if (!row) return tl::unexpected(row.error());
      all.push_back(queue_facts_of(*row));
    }
    return all;
  }

  Result<ExchangeFacts> exchange(std::string_view name) override {
    auto row = row_of(false, name);
    if (!row) return tl::unexpected(row.error());
    return ExchangeFacts{text_at(*row, "name"), text_at(*row, "type"), text_at(*row, "policy"),
                         table_at(*row, "arguments")};
  }

  Result<std::vector<OutBinding>> bindings_of(std::string_view exchange) override {
    auto answer = get(path_of(false, exchange) + "/bindings/source", "list bindings");
    std::vector<OutBinding> all;
    if (!answer && answer.error().kind == Error::Kind::not_found) return all;
    if (!answer) return tl::unexpected(answer.error());
    for (const json& row : *answer) {
      if (row.is_object())
        all.push_back(
            {text_at(row, "destination"), text_at(row, "destination_type"), text_at(row, "routing_key")});
    }
    return all;
  }

  Result<std::vector<Binding>> bindings(bool of_queue, std::string_view name) override {
    auto answer =
        get(path_of(of_queue, name) + (of_queue ? "/bindings" : "/bindings/destination"), "list bindings");
    std::vector<Binding> all;
    if (!answer && answer.error().kind == Error::Kind::not_found) return all;
    if (!answer) return tl::unexpected(answer.error());
    for (const json& row : *answer) {
      if (!row.is_object()) continue;
      all.push_back(binding_of(row));
    }
    return all;
  }

  Result<std::vector<Policy>> policies() override {
    auto answer = get("/api/policies/" + percent_encode(vhost_), "list policies");
    if (!answer) return tl::unexpected(answer.error());
    std::vector<Policy> all;
    for (const json& row : *answer) all.push_back(policy_of(row));
    return all;
  }

  Result<void> put(const Policy& policy) override {
    const json body = {{"pattern", policy.pattern},
                       {"apply-to", policy.apply_to},
                       {"priority", policy.priority},
                       {"definition", json::parse(policy.definition, nullptr, false)}};
    auto answer = ask("set a policy", "PUT", policy_path(policy.name), dump(body));
    if (!answer) return tl::unexpected(answer.error());
    return {};
  }

  Result<void> remove(std::string_view policy) override {
    auto answer = ask("remove a policy", "DELETE", policy_path(policy));
    if (!answer) return tl::unexpected(answer.error());
    return {};
  }

  void interrupt() override {
    interrupted_ = true;
    for (const auto& endpoint : endpoints_) endpoint->client.interrupt();
  }

 private:
  const Endpoint& here() const { return *endpoints_[at_]; }

  // Asks the node that answered last, else the next one. All our requests may be repeated. `doing`: what the
  // call is for, used in the message about a refusal.
  Result<json> ask(const char* doing, const char* method, const std::string& path,
                   const std::string& body = "") {
    for (std::size_t tried = 1;; ++tried) {
      const net::HttpReply reply = endpoints_[at_]->client.send(method, base_ + path, body);
      const bool serves = reply.status > 0 && reply.status < 500;
      listed_bytes_ += reply.body.size();
      listing_ += reply.took;
      if (serves || tried == endpoints_.size() || interrupted_) return understood(reply, doing);
      at_ = (at_ + 1) % endpoints_.size();
    }
  }

  static std::string base_path(const std::string& path) {
    if (path.empty()) return {};
    std::string base = "/" + path;
    while (base.ends_with('/')) base.pop_back();
    return base;
  }
  std::string no_queue(std::string_view queue) const {
    return "no queue '" + std::string(queue) + "' in virtual host '" + vhost_ + "'";
  }
  std::string policy_path(std::string_view policy) const {
    return "/api/policies/" + percent_encode(vhost_) + "/" + percent_encode(policy);
  }

  std::string queues_path() const { return "/api/queues/" + percent_encode(vhost_); }

  std::string path_of(bool queue, std::string_view name) const {
    return (queue ? queues_path() : "/api/exchanges/" + percent_encode(vhost_)) + "/" + percent_encode(name);
  }
  // The queue, or else exchange, of that name.
  Result<json> row_of(bool queue, std::string_view name) {
    return get(path_of(queue, name), queue ? "look at a queue" : "look at an exchange");
  }

  Result<json> get(const std::string& path, const char* doing) { return ask(doing, "GET", path); }

  std::string permit() const {
    return "rabbitmqctl set_permissions -p " + shell_quote(vhost_) + " " + shell_quote(here().user) +
           " '.*' '.*' '.*' (docs/permissions.md has smaller ones)";
  }

  // Says which right is missing, and the command that grants it.
  Error refused(int status, const std::string& said, const char* doing) const {
    const std::string& login = here().user;
    const std::string user = "user '" + login + "'";
    const std::string code = " (" + std::to_string(status) + (said.empty() ? "" : ", " + said) + ")";
    const auto says = [&](const char* text) { return said.find(text) != std::string::npos; };
    const std::string tag = "rabbitmqctl set_user_tags " + shell_quote(login) +
                            " policymaker (it replaces the user's other tags: name them, too)";
    std::string what;
    if (says("Login failed") || said == "Not_Authorized") {  // RabbitMQ 3 and 4
      what = name() + " refuses the login" + code + ": the password of " + user +
             " is wrong, or there is no such user; correct broker.management or broker.url";
    } else if (says("localhost")) {
      what = name() + " refuses the login" + code + ": " + user +
             " may log in from the broker's own machine only";
    } else if (says("Not management user")) {
      what = name() + " does not let " + user + " in" + code + ": the user has no tag; run " + tag;
    } else if (says("virtual host")) {
      what = name() + " does not let " + user + " see virtual host '" + vhost_ + "'" + code +
             ": the user has no permissions there; run " + permit();
    } else {
      what = name() + " does not let " + user + " " + doing + code + ": it needs the tag policymaker; run " +
             tag;
    }
    return {Error::Kind::transient, what};
  }

  Result<json> understood(const net::HttpReply& answer, const char* doing) const {
    if (answer.status == 0) return transient(name() + " " + answer.error);
    if (!nested_within(answer.body, kMostNesting))
      return transient(name() + " answers with JSON that is nested too deep: is it RabbitMQ's?");
    const json body = json::parse(answer.body, nullptr, false);
    const std::string said = body.is_object() ? text_at(body, "reason") : std::string();
    if (answer.status == 401 || answer.status == 403)
      return tl::unexpected(refused(answer.status, said, doing));
    if (answer.status == 404) return not_found(name() + " answers 404 (not found)");
    if (answer.status >= 500) return transient(name() + " answers " + std::to_string(answer.status));
    if (answer.status >= 300) {
      return permanent(name() + " refuses (" + std::to_string(answer.status) + "): " + said);
    }
    if (answer.body.empty()) return json();
    // At a port that we only guessed, something else may be listening.
    if (body.is_discarded()) return transient(name() + " does not answer in JSON: is it RabbitMQ's?");
    return body;
  }

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::size_t at_ = 0;
  std::size_t listed_bytes_ = 0;  // of answers, since queues() began
  Ms listing_{0};                 // how long they took
  std::atomic<bool> interrupted_{false};
  const std::string base_, vhost_;
  const Ms timeout_;
};

Result<Url> given_management(const std::string& text) {
  auto url = parse_url(text);
  if (!url) return permanent("broker.management: " + url.error().message);
  if (url->scheme != "http" && url->scheme != "https")
    return permanent("broker.management: unsupported scheme " + url->scheme + ": use http or https");
  return url;
}

Result<std::unique_ptr<ManagementAdmin>> make_admin(const BrokerOptions& options, Ms timeout) {
  const auto brokers = parse_urls(options.url, options.other_urls);
  if (!brokers) return permanent("broker.url: " + brokers.error().message);
  std::vector<Url> urls;
  for (const Url& given : *brokers) {
    const auto login = with_password(options, given);
    if (!login) return tl::unexpected(login.error());
    const Url& broker = *login;
    Url url;
    url.scheme = "http";
    url.host = broker.host;
    if (!options.rabbitmq.management.empty()) {
      auto management = given_management(options.rabbitmq.management);
      if (!management) return tl::unexpected(management.error());
      url = *std::move(management);
    }
    if (url.user.empty()) {
      url.user = broker.user.empty() ? "guest" : broker.user;
      url.password = broker.user.empty() ? "guest" : broker.password;
    }
    const auto same = [&](const Url& other) { return other.host_port(0) == url.host_port(0); };
    if (std::ranges::none_of(urls, same)) urls.push_back(std::move(url));
  }
  return std::make_unique<ManagementAdmin>(urls, brokers->front().vhost(), options, timeout);
}

}  // namespace

Result<std::map<std::string, std::int64_t, std::less<>>> QueueAdmin::published() {
  return not_found(name() + " does not count what is published to queues");
}

Result<std::vector<OutBinding>> QueueAdmin::bindings_of(std::string_view) {
  return not_found(name() + " does not list what an exchange is bound to");
}

std::vector<std::string> cluster_nodes(const BrokerOptions& options, const std::vector<QueueFacts>& queues,
                                       Ms timeout) {
  if (auto admin = make_admin(options, timeout)) {
    if (auto all = (*admin)->nodes()) return *std::move(all);
  }
  std::set<std::string> names;
  for (const QueueFacts& queue : queues) names.insert(queue.nodes.begin(), queue.nodes.end());
  return {names.begin(), names.end()};
}

Result<std::unique_ptr<QueueAdmin>> management_admin(const BrokerOptions& options, Ms timeout) {
  auto admin = make_admin(options, timeout);
  if (!admin) return tl::unexpected(admin.error());
  return std::unique_ptr<QueueAdmin>(*std::move(admin));
}

}  // namespace rung::rabbit
