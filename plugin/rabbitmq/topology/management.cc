#include "plugin/rabbitmq/topology/management.h"

#include <algorithm>
#include <set>
#include <utility>

#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "plugin/rabbitmq/wire/wire.h"
#include "src/core/base/addresses.h"
#include "src/core/base/hex.h"
#include "src/net/http_client.h"

namespace rung::rabbit {
namespace {

using nlohmann::json;

constexpr int kManagementPort = 15672;
constexpr std::string_view kOwnQueues[] = {".failed", ".delay", ".results", ".parked"};
// Queues are listed in pages. Answers are bounded, in case something else listens there: policies come in one
// answer, and `rung attach` makes one for each queue.
constexpr std::size_t kPageQueues = 500, kMostQueues = 200'000;
constexpr std::size_t kMostAnswer = 8UL * 1024 * 1024;   // bytes
constexpr std::size_t kMostListed = 64UL * 1024 * 1024;  // bytes of all pages
constexpr int kMostNesting = 32;  // of arrays and objects: each level takes far more memory than its byte
// Without statistics, which can be up to five seconds old.
constexpr const char* kFresh = "?disable_stats=true&enable_queue_totals=true";

// --- values and rows of the answers ---

std::string text_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::int64_t number_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
}

bool flag_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

// The API returns an empty object sometimes as {}, sometimes as [].
std::optional<std::string> text_in(const json& object, const char* table, const char* key) {
  const auto it = object.find(table);
  if (it == object.end() || !it->is_object() || !it->contains(key)) return std::nullopt;
  return text_at(*it, key);
}
// {} if there is none.
json table_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_object() ? *it : json::object();
}

QueueFacts queue_facts_of(const json& row) {
  QueueFacts facts{text_in(row, "arguments", "x-dead-letter-exchange"), text_at(row, "policy"),
                   text_at(row, "type"), text_at(row, "name")};
  facts.arguments = table_at(row, "arguments");
  if (const auto it = row.find("effective_policy_definition"); it != row.end() && it->is_object())
    facts.effective_policy = *it;
  facts.operator_policy = text_at(row, "operator_policy");
  facts.exclusive = flag_at(row, "exclusive");
  facts.auto_delete = flag_at(row, "auto_delete");
  facts.durable = !row.contains("durable") || flag_at(row, "durable");
  if (std::string node = text_at(row, "node"); !node.empty()) facts.nodes.push_back(std::move(node));
  if (const auto it = row.find("members"); it != row.end() && it->is_array()) {  // of a quorum queue
    for (const json& member : *it) {
      if (member.is_string()) facts.nodes.push_back(member.get<std::string>());
    }
  }
  return facts;
}

// REQUIRES: `row` is an object.
Binding binding_of(const json& row) {
  return {text_at(row, "source"),      text_at(row, "routing_key"),     table_at(row, "arguments"), {},
          text_at(row, "destination"), text_at(row, "destination_type")};
}

Policy policy_of(const json& row) {
  return {text_at(row, "name"), text_at(row, "pattern"), text_at(row, "apply-to"),
          table_at(row, "definition"), static_cast<int>(number_at(row, "priority"))};
}

// The path before /api.
std::string base_path(const std::string& path) {
  if (path.empty()) return {};
  std::string base = "/" + path;
  while (base.ends_with('/')) base.pop_back();
  return base;
}

}  // namespace

struct QueueAdmin::Endpoint {
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

QueueAdmin::QueueAdmin(const std::vector<Url>& urls, const BrokerOptions& options, Ms timeout)
    : base_(base_path(urls.front().path)), vhost_(options.vhost()), timeout_(timeout) {
  const Ms connecting = urls.size() > 1 ? std::min(timeout, Addresses::kSlice) : timeout;
  for (const Url& url : urls)
    endpoints_.push_back(std::make_unique<Endpoint>(url, options, connecting, timeout));
}

QueueAdmin::~QueueAdmin() = default;

std::string QueueAdmin::name() const { return "the management API at " + here().address; }

template <typename T>
Result<std::vector<T>> QueueAdmin::list(const std::string& path, const char* doing,
                                        T (*make)(const json& row)) {
  auto answer = get(path, doing);
  if (!answer) return tl::unexpected(answer.error());
  std::vector<T> all;
  for (const json& one : *answer) {
    if (one.is_object()) all.push_back(make(one));
  }
  return all;
}

Result<std::vector<Binding>> QueueAdmin::list_bindings(const std::string& path) {
  auto all = list(path, "list bindings", binding_of);
  if (!all && all.error().kind == Error::Kind::not_found) return std::vector<Binding>{};
  return all;
}

// Uses a call that the tag policymaker allows; GET /api/vhosts/VHOST needs more.
Result<void> QueueAdmin::reach() {
  auto answer = get(path_of("queues") + kFresh + "&page=1&page_size=1&columns=name", "list queues");
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

// The policies in GET /api/queues/VHOST/NAME are up to five seconds old (3.10): too old right after a change.
// A list without statistics is current.
Result<QueueFacts> QueueAdmin::queue(std::string_view name) {
  auto answer = get(path_of("queues") + kFresh +
                        "&page=1&page_size=100&use_regex=true&name=" + percent_encode(policy_pattern(name)),
                    "look at a queue");
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->is_object() || !answer->contains("items")) return transient(this->name() + " lists no queues");
  for (const json& row : (*answer)["items"]) {
    if (row.is_object() && text_at(row, "name") == name) return queue_facts_of(row);
  }
  return not_found("no queue '" + std::string(name) + "' in virtual host '" + vhost_ + "'");
}

Result<std::vector<QueueFacts>> QueueAdmin::queues() {
  std::vector<QueueFacts> all;
  std::set<std::string> names;  // a queue that was created or deleted meanwhile moves others between pages
  auto listed =
      each_queue(std::string(kFresh) +
                     "&columns=name,arguments,policy,type,exclusive,auto_delete,durable,node,members,"
                     "effective_policy_definition",
                 [&](const json& row) {
                   if (names.insert(text_at(row, "name")).second) all.push_back(queue_facts_of(row));
                 });
  if (!listed) return tl::unexpected(listed.error());
  return all;
}

// Only with statistics there are these counters.
Result<std::map<std::string, std::int64_t, std::less<>>> QueueAdmin::published() {
  std::map<std::string, std::int64_t, std::less<>> all;
  auto listed = each_queue("?columns=name,message_stats.publish", [&](const json& row) {
    const auto stats = row.find("message_stats");
    if (stats != row.end() && stats->is_object() && stats->contains("publish"))
      all[text_at(row, "name")] = number_at(*stats, "publish");
  });
  if (!listed) return tl::unexpected(listed.error());
  return all;
}

Result<std::vector<QueueFacts>> QueueAdmin::own_queues(std::string_view prefix) {
  std::vector<QueueFacts> all;
  for (const std::string_view end : kOwnQueues) {
    auto row = get(path_of("queues", std::string(prefix).append(end)), "look at a queue");
    if (!row && row.error().kind == Error::Kind::not_found) continue;
    if (!row) return tl::unexpected(row.error());
    all.push_back(queue_facts_of(*row));
  }
  return all;
}

Result<ExchangeFacts> QueueAdmin::exchange(std::string_view name) {
  auto row = get(path_of("exchanges", name), "look at an exchange");
  if (!row) return tl::unexpected(row.error());
  return ExchangeFacts{text_at(*row, "name"), text_at(*row, "type"), text_at(*row, "policy"),
                       table_at(*row, "arguments")};
}

Result<std::vector<Binding>> QueueAdmin::bindings_of(std::string_view exchange) {
  return list_bindings(path_of("exchanges", exchange) + "/bindings/source");
}

Result<std::vector<Binding>> QueueAdmin::bindings(bool of_queue, std::string_view name) {
  return list_bindings(of_queue ? path_of("queues", name) + "/bindings"
                                : path_of("exchanges", name) + "/bindings/destination");
}

Result<std::vector<Policy>> QueueAdmin::policies() {
  return list(path_of("policies"), "list policies", policy_of);
}

Result<void> QueueAdmin::put(const Policy& policy) {
  const json body = {{"pattern", policy.pattern},
                     {"apply-to", policy.apply_to},
                     {"priority", policy.priority},
                     {"definition", policy.definition}};
  auto answer = ask("set a policy", "PUT", path_of("policies", policy.name),
                    body.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

Result<void> QueueAdmin::remove(std::string_view policy) {
  auto answer = ask("remove a policy", "DELETE", path_of("policies", policy));
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

Result<std::vector<std::string>> QueueAdmin::nodes() {
  return list<std::string>("/api/nodes?columns=name", "list nodes",
                           [](const json& row) { return text_at(row, "name"); });
}

void QueueAdmin::interrupt() {
  interrupted_ = true;
  for (const auto& endpoint : endpoints_) endpoint->client.interrupt();
}

// --- requests and answers ---

// "/api/queues/VHOST", or one of them by its name.
std::string QueueAdmin::path_of(const char* what, std::string_view name) const {
  const std::string all = std::string("/api/") + what + "/" + percent_encode(vhost_);
  return name.empty() ? all : all + "/" + percent_encode(name);
}

Result<void> QueueAdmin::each_queue(const std::string& query, const Row& row) {
  listed_bytes_ = 0;
  listing_ = Ms{0};
  for (std::size_t page = 1, pages = 1; page <= pages; ++page) {
    auto answer = get(path_of("queues") + query + "&page=" + std::to_string(page) +
                          "&page_size=" + std::to_string(kPageQueues),
                      "list queues");
    // The last page is gone: queues were deleted meanwhile.
    if (!answer && page > 1 && answer.error().kind == Error::Kind::permanent) break;
    if (!answer) return tl::unexpected(answer.error());
    const auto items = answer->find("items");
    if (!answer->is_object() || items == answer->end() || !items->is_array())
      return transient(name() + " does not list queues in pages: is it RabbitMQ's?");
    for (const json& one : *items) {
      if (one.is_object()) row(one);
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

Result<json> QueueAdmin::ask(const char* doing, const char* method, const std::string& path,
                             const std::string& body) {
  net::HttpReply reply;
  for (std::size_t tried = 1;; ++tried) {
    reply = endpoints_[at_]->client.send(method, base_ + path, body);
    listed_bytes_ += reply.body.size();
    listing_ += reply.took;
    const bool serves = reply.status > 0 && reply.status < 500;
    if (serves || tried == endpoints_.size() || interrupted_) break;
    at_ = (at_ + 1) % endpoints_.size();
  }
  if (reply.status == 0) return transient(name() + " " + reply.error);
  bool too_deep = false;
  const auto shallow = [&](int depth, json::parse_event_t event, const json&) {
    const bool opens =
        event == json::parse_event_t::array_start || event == json::parse_event_t::object_start;
    too_deep = too_deep || (opens && depth >= kMostNesting);
    return !too_deep;
  };
  const json answer = json::parse(reply.body, shallow, false);
  if (too_deep) return transient(name() + " answers with JSON that is nested too deep: is it RabbitMQ's?");
  const std::string said = answer.is_object() ? text_at(answer, "reason") : std::string();
  if (reply.status == 401 || reply.status == 403) return tl::unexpected(refused(reply.status, said, doing));
  if (reply.status == 404) return not_found(name() + " answers 404 (not found)");
  if (reply.status >= 500) return transient(name() + " answers " + std::to_string(reply.status));
  if (reply.status >= 300)
    return permanent(name() + " refuses (" + std::to_string(reply.status) + "): " + said);
  if (reply.body.empty()) return json();
  // At a port that we only guessed, something else may be listening.
  if (answer.is_discarded()) return transient(name() + " does not answer in JSON: is it RabbitMQ's?");
  return answer;
}

Result<json> QueueAdmin::get(const std::string& path, const char* doing) { return ask(doing, "GET", path); }

std::string QueueAdmin::permit() const {
  return "rabbitmqctl set_permissions -p " + shell_quote(vhost_) + " " + shell_quote(here().user) +
         " '.*' '.*' '.*' (docs/permissions.md has smaller ones)";
}

// Says which right is missing, and the command that grants it.
Error QueueAdmin::refused(int status, const std::string& said, const char* doing) const {
  const std::string& login = here().user;
  const std::string user = "user '" + login + "'";
  const std::string code = " (" + std::to_string(status) + (said.empty() ? "" : ", " + said) + ")";
  const auto says = [&](const char* text) { return said.find(text) != std::string::npos; };
  const std::string tag = "rabbitmqctl set_user_tags " + shell_quote(login) +
                          " policymaker (it replaces the user's other tags: name them, too)";
  std::string what;
  if (says("Login failed") || said == "Not_Authorized") {  // RabbitMQ 3 and 4
    what = " refuses the login" + code + ": the password of " + user +
           " is wrong, or there is no such user; correct broker.management or broker.url";
  } else if (says("localhost")) {
    what = " refuses the login" + code + ": " + user + " may log in from the broker's own machine only";
  } else if (says("Not management user")) {
    what = " does not let " + user + " in" + code + ": the user has no tag; run " + tag;
  } else if (says("virtual host")) {
    what = " does not let " + user + " see virtual host '" + vhost_ + "'" + code +
           ": the user has no permissions there; run " + permit();
  } else {
    what = " does not let " + user + " " + doing + code + ": it needs the tag policymaker; run " + tag;
  }
  return {Error::Kind::transient, name() + what};
}

// --- which API ---

Result<std::unique_ptr<QueueAdmin>> management_admin(const BrokerOptions& options, Ms timeout) {
  std::vector<Url> urls;
  for (const Url& given : options.urls) {
    const auto login = with_password(options, given);
    if (!login) return tl::unexpected(login.error());
    const Url& broker = *login;
    Url url = options.rabbitmq.management.value_or(Url());
    if (!options.rabbitmq.management) {
      url.scheme = "http";
      url.host = broker.host;
    }
    if (url.user.empty()) {
      url.user = broker.user.empty() ? "guest" : broker.user;
      url.password = broker.user.empty() ? "guest" : broker.password;
    }
    const auto same = [&](const Url& other) { return other.host_port(0) == url.host_port(0); };
    if (std::ranges::none_of(urls, same)) urls.push_back(std::move(url));
  }
  return std::make_unique<QueueAdmin>(urls, options, timeout);
}

std::vector<std::string> cluster_nodes(const BrokerOptions& options, const std::vector<QueueFacts>& queues,
                                       Ms timeout) {
  if (auto admin = management_admin(options, timeout)) {
    if (auto all = (*admin)->nodes()) return *std::move(all);
  }
  std::set<std::string> names;
  for (const QueueFacts& queue : queues) names.insert(queue.nodes.begin(), queue.nodes.end());
  return {names.begin(), names.end()};
}

}  // namespace rung::rabbit
