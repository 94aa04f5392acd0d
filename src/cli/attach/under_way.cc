#include "src/cli/attach/under_way.h"

#include <fmt/format.h>

#include <cstdio>
#include <thread>

#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

constexpr Ms kPollUnderWay{500};
constexpr Ms kTellEvery{5000};

}  // namespace

void tell(const std::string& line) {
  const std::string text = "rung: " + one_line(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

bool has_no_tables(const Error& error) {
  return error.kind == Error::Kind::refused && error.message.find("rung migrate") != std::string::npos;
}

int wait_for_none(const Clock& clock, BootMs until, const std::function<Result<std::int64_t>()>& open,
                  const WaitWords& words) {
  BootMs told{0};
  for (;;) {
    const auto left = open();
    if (!left) return report_error(left.error());
    if (*left == 0) return kSuccess;
    const std::string still = fmt::format("{} deliveries are still {}", *left, words.still);
    const BootMs now = clock.boot();
    if (now >= until) return report_error(kUserError, still + words.gives_up);
    if (now - told >= kTellEvery) {
      tell(still + " (Ctrl-C ends the wait: " + words.interrupts + ")");
      told = now;
    }
    std::this_thread::sleep_for(kPollUnderWay);
  }
}

}  // namespace rung::cli
