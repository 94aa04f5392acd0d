// The addresses of hosts' names, found within a bound: getaddrinfo() can hang for longer than we may, so each
// name is looked up in a thread of its own, which nobody waits for when it is too late.
// Thread: free.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/core/clock.h"
#include "src/core/result.h"

namespace rung {

// For each host its addresses as numbers ("10.0.0.7", "fe80::2"), in the resolver's order; or why there are
// none: transient. All are looked up at the same time. An address is its own answer. `stopping`: ends the
// wait; may be empty.
std::vector<Result<std::vector<std::string>>> look_up(const std::vector<std::string>& hosts,
                                                      const Clock& clock, BootMs deadline,
                                                      const std::function<bool()>& stopping = {});

}  // namespace rung
