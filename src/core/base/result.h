// Errors, classified where they arise: worth a retry, or permanent.
// Thread: values.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace rung {

struct Error {
  enum class Kind {
    transient,  // the same call may succeed later: a server away, a lock, a time-out
    permanent,  // the same call fails again: bad input, a row that the database cannot hold, too large
    not_found,  // the requested item does not exist
    refused,    // the server answers and refuses: a login, a right, a table or a vhost is missing, or a queue
                // exists with other arguments. A person has to fix it; then the same call succeeds. Running
                // work waits, as during an outage; at start the process gives up (start.wait)
  };
  Kind kind = Kind::permanent;
  std::string message;  // for people; never contains a secret or a payload

  // The request itself is valid: the call is worth repeating later.
  bool is_transient() const { return kind == Kind::transient || kind == Kind::refused; }
};

template <typename T>
using Result = tl::expected<T, Error>;

// The value; an error is thrown as `Thrown`, which is made of it. Each layer has its own: StoreError of the
// store's jobs, Problem of the API, Failed of the command line.
template <typename Thrown, typename T>
T value_or_throw(Result<T> result) {
  if (!result) throw Thrown(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

inline tl::unexpected<Error> transient(std::string message) {
  return tl::unexpected<Error>(Error{Error::Kind::transient, std::move(message)});
}
inline tl::unexpected<Error> permanent(std::string message) {
  return tl::unexpected<Error>(Error{Error::Kind::permanent, std::move(message)});
}
inline tl::unexpected<Error> not_found(std::string message) {
  return tl::unexpected<Error>(Error{Error::Kind::not_found, std::move(message)});
}

// --- RUNG_REQUIRE states a precondition or an invariant as code, in all builds: a process that goes on
// without it would do something else than it says. What was broken goes to stderr; the other instances take
// over. Thread: any.

[[noreturn]] inline void broken_requirement(const char* what, const char* file, int line) {
  std::fprintf(stderr, "rung: %s:%d: not as required: %s\n", file, line, what);
  std::abort();
}

}  // namespace rung

#define RUNG_REQUIRE(condition) \
  ((condition) ? static_cast<void>(0) : ::rung::broken_requirement(#condition, __FILE__, __LINE__))
