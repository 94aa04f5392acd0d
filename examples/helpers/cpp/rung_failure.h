// Why a message failed, as headers for Rung: for any client library. rung_retry.h sends them with rabbitmq-c.
// C++17.
#pragma once

#include <cxxabi.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>

namespace rung_retry {

constexpr std::size_t kTextBytes = 8 * 1024, kErrorBytes = 16 * 1024;  // Rung keeps 16 KiB

inline std::string demangled(const char* name) {
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string out = status == 0 ? plain : name;
  std::free(plain);
  return out;
}

// A failure that records where it was constructed (link with -rdynamic, for names). Exceptions of other types
// are reported without a stack.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& what) : std::runtime_error(what) {
    size_ = backtrace(frames_.data(), static_cast<int>(frames_.size()));
  }

  std::string stack() const {
    std::string out;
    char** lines = backtrace_symbols(frames_.data(), size_);
    for (int i = 1; lines != nullptr && i < size_; ++i) {  // 0 is this constructor
      const std::string line = readable(lines[i]);
      if (line.find("rung_retry::Retry::") != std::string::npos) break;  // the rest is the consumer's loop
      out += "\n  at " + line;
    }
    std::free(lines);
    return out;
  }

 private:
  // "program(_Z4workRK3Job+0x5a) [0x55..]" -> "work(Job const&)+0x5a"
  static std::string readable(const std::string& line) {
    const auto open = line.find('('), plus = line.find('+', open), close = line.find(')', open);
    if (open == std::string::npos || plus == std::string::npos || close == std::string::npos) return line;
    return demangled(line.substr(open + 1, plus - open - 1).c_str()) + line.substr(plus, close - plus);
  }

  std::array<void*, 32> frames_{};
  int size_ = 0;
};

// Retries cannot succeed: Rung parks the message at once.
class GiveUp : public Failure {
 public:
  using Failure::Failure;
};

// Retry after this time: RetryLater("in maintenance", "30s").
class RetryLater : public Failure {
 public:
  RetryLater(const std::string& what, std::string after) : Failure(what), after_(std::move(after)) {}
  const std::string& after() const { return after_; }

 private:
  std::string after_;
};

// An answer of an HTTP service. After 429 and 503, `retry_after` is the header Retry-After as it was
// received.
class HttpError : public Failure {
 public:
  HttpError(const std::string& what, int status, std::string retry_after)
      : Failure(what), status_(status), retry_after_(std::move(retry_after)) {}

  // "" = it does not say.
  std::string after() const {
    if ((status_ != 429 && status_ != 503) || retry_after_.empty()) return "";
    if (retry_after_.find_first_not_of('0') == std::string::npos) return "1s";  // at once is a hot loop
    if (retry_after_.find_first_not_of("0123456789") == std::string::npos) return retry_after_ + "s";
    std::tm until{};
    if (strptime(retry_after_.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &until) == nullptr) return "";
    return std::to_string(std::max<long long>(1, timegm(&until) - std::time(nullptr))) + "s";
  }

 private:
  int status_;
  std::string retry_after_;
};

using Headers = std::map<std::string, std::string>;

// At most `most` bytes of UTF-8, on a character's boundary.
inline std::string cut(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  text.resize(most);
  return text;
}

// The directives of `error`, or of the first exception nested in it that has one (std::throw_with_nested).
inline void add_directives(Headers& headers, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const GiveUp&) {
    headers["retry-never"] = "true";
  } catch (const RetryLater& later) {
    headers["retry-after"] = later.after();
  } catch (const std::exception& other) {
    const auto* http = dynamic_cast<const HttpError*>(&other);
    if (const std::string after = http != nullptr ? http->after() : ""; !after.empty()) {
      headers["retry-after"] = after;
    } else if (const auto* nesting = dynamic_cast<const std::nested_exception*>(&other);
               nesting != nullptr && nesting->nested_ptr() != nullptr) {
      add_directives(headers, nesting->nested_ptr());
    }
  } catch (...) {  // anything can be thrown; it has no directive
  }
}

// The type that was thrown: std::throw_with_nested wraps it into a template of the library's.
inline std::string type_of(const std::exception& error) {
  const std::string name = demangled(typeid(error).name());
  const auto open = name.find('<'), close = name.rfind('>');
  const bool wrapped =
      dynamic_cast<const std::nested_exception*>(&error) != nullptr && name.rfind("std::", 0) == 0;
  return wrapped && open < close ? name.substr(open + 1, close - open - 1) : name;
}

// Who handled the attempt: retry_history.executor.
inline std::string executor() {
  std::array<char, 200> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"?"};
  return std::string(host.data()) + ":" + std::to_string(getpid());
}

constexpr const char* kOriginExchange = "retry-origin-exchange";
constexpr const char* kOriginKey = "retry-origin-routing-key";

// How the message came. `says_origin`: it has both headers above.
struct Delivery {
  std::string exchange, routing_key;
  bool says_origin = false;
};

// Adds where the message came from. A retry comes by rung.return or directly, and says that itself.
inline void add_origin(Headers& headers, const Delivery& delivery, const std::string& prefix = "rung") {
  const bool ours = delivery.exchange.empty() || delivery.exchange == prefix + ".return";
  if (ours && delivery.says_origin) return;
  headers[kOriginExchange] = delivery.exchange;
  headers[kOriginKey] = delivery.routing_key;
}

// Headers to set on the message for rung.failed, which keeps its own; with those of add_origin(), and the
// delivery's routing key.
inline Headers failure_headers(const std::string& queue, const std::exception_ptr& error) {
  std::string text, type;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    type = type_of(known);
    text = cut(type + ": " + known.what(), kTextBytes);
    if (const auto* failure = dynamic_cast<const Failure*>(&known)) text += failure->stack();
  } catch (...) {
    type = demangled(abi::__cxa_current_exception_type()->name());
    text = "something of type " + type + " was thrown";
  }
  Headers headers{{"retry-queue", queue},
                  {"retry-error", cut(text, kErrorBytes)},
                  {"retry-error-type", cut(type, 255)},
                  {"retry-executor", executor()}};
  add_directives(headers, error);
  return headers;
}

}  // namespace rung_retry
