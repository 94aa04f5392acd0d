// Functions for messages by their tag (AMQP's property `type`): the registry, and the consumer that calls
// them.
//
//   Handlers handlers;
//   handlers.on("order.close", [](const Job& job) { ... });     // what it throws is reported, with its stack
//   handlers.run("amqp://guest:guest@127.0.0.1:5672/%2f", "orders.close");
//
// Thread: one, which calls the functions.
#pragma once

#include <cxxabi.h>
#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <functional>
#include <stdexcept>
#include <typeinfo>

#include "../../consumers/cpp/client.h"

struct Job {
  std::string tag, body, message_id, retry_id;
  std::int64_t attempt = 0;  // Rung's count of its deliveries; 0 = not a delivery from Rung
  // The same for repeated deliveries: a unique key for your work.
  const std::string& key() const { return message_id.empty() ? retry_id : message_id; }
};

// A failure that records where it was constructed (link with -rdynamic, for names).
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& what) : std::runtime_error(what) {
    size_ = backtrace(frames_.data(), kMost);
  }

  std::string stack() const {
    std::string out;
    char** lines = backtrace_symbols(frames_.data(), size_);
    for (int i = 1; lines != nullptr && i < size_; ++i) {  // 0 is this constructor
      const std::string line = readable(lines[i]);
      // The remaining frames belong to the consumer.
      if (line.find("Handlers::") != std::string::npos) break;
      out += "\n  at " + line;
    }
    std::free(lines);
    return out;
  }

 private:
  static constexpr int kMost = 32;

  // "program(_Z4workRK3Job+0x5a) [0x55..]" -> "work(Job const&)+0x5a"
  static std::string readable(const std::string& line) {
    const auto open = line.find('('), plus = line.find('+', open), close = line.find(')', open);
    if (open == std::string::npos || plus == std::string::npos || close == std::string::npos) return line;
    int status = 0;
    char* plain =
        abi::__cxa_demangle(line.substr(open + 1, plus - open - 1).c_str(), nullptr, nullptr, &status);
    const std::string name = status == 0 ? plain : line.substr(open + 1, plus - open - 1);
    std::free(plain);
    return name + line.substr(plus, close - plus);
  }

  std::array<void*, kMost> frames_{};
  int size_ = 0;
};

// A permanent failure: Rung parks the task at once.
class Never : public Failure {
 public:
  using Failure::Failure;
};

// A failure with a delay before the retry: Later("in maintenance", "30s").
class Later : public Failure {
 public:
  Later(const std::string& what, std::string after) : Failure(what), after_(std::move(after)) {}
  const std::string& after() const { return after_; }

 private:
  std::string after_;
};

class Handlers {
 public:
  using Function = std::function<void(const Job&)>;

  void on(const std::string& tag, Function function) {
    if (!by_tag_.emplace(tag, std::move(function)).second) throw std::logic_error("two handlers for " + tag);
  }

  // Consumes until the connection is lost.
  void run(const std::string& url, const std::string& queue) {
    Client client(url, queue);
    client.run([&](const amqp_envelope_t& envelope) { handle(client, envelope); });
  }

 private:
  void handle(Client& client, const amqp_envelope_t& envelope) {
    const amqp_message_t& message = envelope.message;
    const amqp_table_t headers = headers_of(message);
    const bool tagged = (message.properties._flags & AMQP_BASIC_TYPE_FLAG) != 0;
    const Job job{tagged ? std::string(view(message.properties.type)) : "", std::string(view(message.body)),
                  message_id_of(message), text(headers, "retry-id"), number(headers, "retry-attempt")};
    Added result = call(job);
    result["retry-executor"] = executor();
    const bool failed = result.contains("retry-error");
    if (!job.retry_id.empty()) {
      result["retry-result"] = failed ? "failed" : "succeeded";
      client.report(headers, result);  // Rung has the message: the result is enough
    } else if (failed) {
      client.forward_failure(message, result);  // Rung does not have the message yet
    }
    client.ack(envelope);
  }

  // Headers that describe the failure; none on success.
  Added call(const Job& job) const {
    Added why;
    try {
      const auto function = by_tag_.find(job.tag);
      if (function == by_tag_.end()) throw Failure("no handler for tag '" + job.tag + "'");
      function->second(job);
      return why;
    } catch (const Never& error) {
      why = {{"retry-error", error.what() + error.stack()},
             {"retry-error-type", "Never"},
             {"retry-never", "true"}};
    } catch (const Later& error) {
      why = {{"retry-error", error.what() + error.stack()},
             {"retry-error-type", "Later"},
             {"retry-after", error.after()}};
    } catch (const Failure& error) {
      why = {{"retry-error", error.what() + error.stack()}, {"retry-error-type", "Failure"}};
    } catch (const std::exception& error) {
      why = {{"retry-error", error.what()}, {"retry-error-type", plain(typeid(error))}};
    } catch (...) {  // anything can be thrown; the consumer must survive it
      const std::string type = plain(*abi::__cxa_current_exception_type());
      why = {{"retry-error", "something of type " + type + " was thrown"}, {"retry-error-type", type}};
    }
    std::printf("%s %s: attempt %lld failed: %s\n", job.tag.c_str(), job.key().c_str(),
                static_cast<long long>(job.attempt), why["retry-error"].c_str());
    std::fflush(stdout);
    return why;
  }

  static std::string plain(const std::type_info& type) {
    int status = 0;
    char* name = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
    std::string out = status == 0 ? name : type.name();
    std::free(name);
    return out;
  }

  // Who handled the attempt, for retry_history.
  static std::string executor() {
    std::array<char, 200> host{};
    if (gethostname(host.data(), host.size() - 1) != 0) host = {"?"};
    return std::string(host.data()) + ":" + std::to_string(getpid());
  }

  std::map<std::string, Function> by_tag_;
};
