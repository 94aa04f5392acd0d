// Errors, classified where they arise: worth a retry, or permanent.
// Thread: values, free of threads.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace rung {

struct Error {
  enum class Kind {
    transient,  // the same call may succeed later: a server away, a lock, a time-out
    permanent,  // the same call fails again: bad input, a row that the database cannot hold, too large
    not_found,  // the requested item does not exist
    refused,    // the server answers and refuses: a login, a right, a table or a vhost is missing, a queue is
                // declared otherwise. A person has to correct it, and the same call succeeds then. In the
                // middle of work it is waited out like an outage; at start it ends the process (start.wait)
  };
  Kind kind = Kind::permanent;
  std::string message;  // for people; never contains a secret or a payload

  // The request itself is valid: the call is worth repeating later.
  bool is_transient() const { return kind == Kind::transient || kind == Kind::refused; }
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> transient(std::string message) {
  return tl::unexpected<Error>(Error{Error::Kind::transient, std::move(message)});
}
inline tl::unexpected<Error> permanent(std::string message) {
  return tl::unexpected<Error>(Error{Error::Kind::permanent, std::move(message)});
}
inline tl::unexpected<Error> not_found(std::string message) {
  return tl::unexpected<Error>(Error{Error::Kind::not_found, std::move(message)});
}

}  // namespace rung
