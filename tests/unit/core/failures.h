// Failures read from a message's headers, for the tests of headers.
#pragma once

#include <utility>

#include "src/core/machine/headers.h"

namespace rung::testing {

inline Message message_with(Table headers) {
  Message m;
  m.headers = std::move(headers);
  m.body = "body";
  return m;
}
inline Failure failure_of(const Message& m) { return read_failure(m, "rung.failed", "rk"); }
inline Failure failure_of(Table headers) { return failure_of(message_with(std::move(headers))); }

}  // namespace rung::testing
