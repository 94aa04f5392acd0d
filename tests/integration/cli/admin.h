// RabbitMQ's management API, used as guest: creates a virtual host and users for a test.
// Thread: one at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/core/base/hex.h"
#include "src/core/base/url.h"
#include "tests/support/amqp_probe.h"
#include "tests/support/http_client.h"

namespace rung::cli {

using nlohmann::json;

class BrokerAdmin {
 public:
  BrokerAdmin() {
    call("PUT", "/api/vhosts/" + vhost, "{}");
    permit("guest", ".*", ".*", ".*");
  }
  ~BrokerAdmin() {
    for (const std::string& user : users_) test::call_management("DELETE", "/api/users/" + user);
    test::call_management("DELETE", "/api/vhosts/" + vhost);
  }
  BrokerAdmin(const BrokerAdmin&) = delete;
  BrokerAdmin& operator=(const BrokerAdmin&) = delete;

  // With the password "pw". Returns its name.
  std::string user(const std::string& tags) {
    users_.push_back(test::unique_name("u"));
    call("PUT", "/api/users/" + users_.back(), json{{"password", "pw"}, {"tags", tags}}.dump());
    return users_.back();
  }
  void permit(const std::string& user, const std::string& configure, const std::string& write,
              const std::string& read) {
    call("PUT", "/api/permissions/" + vhost + "/" + user,
         json{{"configure", configure}, {"write", write}, {"read", read}}.dump());
  }
  void queue(const std::string& name, const json& arguments = json::object(), bool auto_delete = false) {
    call("PUT", "/api/queues/" + vhost + "/" + percent_encode(name),
         json{{"durable", true}, {"auto_delete", auto_delete}, {"arguments", arguments}}.dump());
  }
  void remove_queue(const std::string& name) {
    call("DELETE", "/api/queues/" + vhost + "/" + percent_encode(name), {});
  }
  void publish(const std::string& queue, const std::string& body) {
    call("POST", "/api/exchanges/" + vhost + "/amq.default/publish",
         json{{"properties", json::object()},
              {"routing_key", queue},
              {"payload", body},
              {"payload_encoding", "string"}}
             .dump());
  }
  // Takes the queue's messages: payload, redelivered and others, as the API shows them.
  json take(const std::string& queue) { return get_messages(queue, "ack_requeue_false"); }
  // The same, but rejects them: they are dead-lettered, or dropped.
  json reject(const std::string& queue) { return get_messages(queue, "reject_requeue_false"); }
  // An exchange, and a binding of a queue to it.
  void exchange(const std::string& name, const std::string& type) {
    call("PUT", "/api/exchanges/" + vhost + "/" + percent_encode(name), json{{"type", type}}.dump());
  }
  void bind(const std::string& exchange, const std::string& queue, const std::string& key) {
    call("POST", "/api/bindings/" + vhost + "/e/" + percent_encode(exchange) + "/q/" + percent_encode(queue),
         json{{"routing_key", key}}.dump());
  }
  void unbind(const std::string& exchange, const std::string& queue, const std::string& key) {
    call("DELETE",
         "/api/bindings/" + vhost + "/e/" + percent_encode(exchange) + "/q/" + percent_encode(queue) + "/" +
             (key.empty() ? "~" : percent_encode(key)),
         {});
  }
  void policy(const std::string& name, const std::string& pattern, const json& definition, int priority = 0) {
    call("PUT", "/api/policies/" + vhost + "/" + percent_encode(name),
         json{{"pattern", pattern}, {"definition", definition}, {"priority", priority}}.dump());
  }
  void operator_policy(const std::string& name, const std::string& pattern, const json& definition) {
    call("PUT", "/api/operator-policies/" + vhost + "/" + percent_encode(name),
         json{{"pattern", pattern}, {"definition", definition}, {"apply-to", "queues"}}.dump());
  }
  void default_queue_type(const std::string& type) {
    call("PUT", "/api/vhosts/" + vhost, json{{"default_queue_type", type}}.dump());
  }
  void remove_policy(const std::string& name) {
    call("DELETE", "/api/policies/" + vhost + "/" + percent_encode(name), {});
  }
  json get(const std::string& path) { return test::call_management("GET", path).json(); }
  // Names of the policies, sorted by the broker.
  std::vector<std::string> policies() {
    std::vector<std::string> names;
    for (const json& policy : get("/api/policies/" + vhost)) names.push_back(policy["name"]);
    return names;
  }
  // The broker's URL for a user, at this virtual host.
  std::string url(const std::string& user, const std::string& password = "pw") const {
    const auto broker = *parse_url(test::amqp_url());
    return "amqp://" + user + ":" + password + "@" + broker.host_port(5672) + "/" + vhost;
  }

  const std::string vhost = test::unique_name("v");

 private:
  json get_messages(const std::string& queue, const char* ackmode) {
    return call("POST", "/api/queues/" + vhost + "/" + percent_encode(queue) + "/get",
                json{{"count", 1000}, {"ackmode", ackmode}, {"encoding", "auto"}}.dump());
  }
  static json call(const std::string& method, const std::string& path,
                   const std::optional<std::string>& body) {
    const auto answer = test::call_management(method, path, body);
    if (answer.status < 200 || answer.status > 299)
      throw std::runtime_error(method + " " + path + ": " + std::to_string(answer.status) + " " +
                               answer.body);
    return answer.json();
  }

  std::vector<std::string> users_;
};

}  // namespace rung::cli
