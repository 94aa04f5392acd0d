// Resolves host names within a time limit. getaddrinfo() can hang for longer than we may wait, so each name
// is resolved in a thread of its own, which is abandoned when the time is up.
// Thread: any.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/core/base/clock.h"
#include "src/core/base/result.h"

namespace rung {

// For each host its numeric addresses ("10.0.0.7", "fe80::2"), in the resolver's order, or the error, which
// is transient. All hosts are resolved in parallel. A numeric address resolves to itself. `stopping`: ends
// the wait; may be empty.
std::vector<Result<std::vector<std::string>>> look_up(const std::vector<std::string>& hosts,
                                                      const Clock& clock, BootMs deadline,
                                                      const std::function<bool()>& stopping = {});

}  // namespace rung
