#include "src/core/message/header_names.h"

#include <algorithm>
#include <array>

namespace rung {
namespace {

constexpr auto kOurs = std::to_array<std::string_view>(
    {header::kId, header::kAttempt, header::kLevel, header::kLevels, header::kLadder, header::kQueue,
     header::kError, header::kAfter, header::kMaxAttempts, header::kFirstFailedAt, header::kNever,
     header::kErrorType, header::kResult, header::kNotBefore, header::kExecutor, header::kExchange,
     header::kRoutingKey, header::kToken, "retry-complaint"});

constexpr std::array<std::string_view, 3> kOurOrigin = {header::kOriginExchange, header::kOriginRoutingKey,
                                                        header::kReason};

}  // namespace

bool is_own_header(std::string_view name) {
  return std::ranges::find(kOurs, name) != kOurs.end() ||
         std::ranges::find(kOurOrigin, name) != kOurOrigin.end();
}

}  // namespace rung
