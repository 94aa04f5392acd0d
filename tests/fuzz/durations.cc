// Durations as people write them, and the ladders made of them.
// Input: its first byte chooses; then a duration, a list of durations, or the numbers of an exponential
// ladder.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "levels/ladder.h"
#include "tests/fuzz/fuzz.h"

namespace rung::levels {
namespace {

using fuzz::hold;

void hold_same_again(Ms duration) {
  const std::string text = format_duration(duration);
  const auto again = parse_duration(text);
  hold(again && *again == duration, "a duration prints as what parses to the same", text);
}

// "... write 1h30m": what an error tells to write must be taken.
void hold_advice(std::string_view error) {
  for (const std::string_view begin : {"fractions are not supported, write ", "a unit is repeated: write ",
                                       "the largest unit comes first: write "}) {
    if (!error.starts_with(begin)) continue;
    const auto advice = error.substr(begin.size());
    if (advice.starts_with("smaller units")) continue;
    hold(parse_duration(advice).has_value(), "what an error tells to write is taken", error);
  }
}

std::optional<Ms> one(std::string_view text) {
  const auto parsed = parse_duration(text);
  if (!parsed) {
    hold(!parsed.error().empty() && parsed.error().size() < 200, "an error is a short sentence",
         parsed.error());
    for (const char c : parsed.error())
      hold(c >= ' ' && c < 0x7f, "an error holds no odd byte", parsed.error());
    hold_advice(parsed.error());
    return std::nullopt;
  }
  hold(*parsed >= Ms::zero() && *parsed <= kLongest, "a duration is from 0 to the longest");
  hold_same_again(*parsed);
  return *parsed;
}

void hold_ladder(const Ladder& ladder) {
  hold(ladder.levels() >= 1 && ladder.levels() <= Ladder::kMostLevels, "a ladder has 1 to 1000 levels");
  std::vector<Ms> delays;
  for (int level = 1; level <= ladder.levels(); ++level) {
    const Ms delay = ladder.delay(level);
    hold(delay > Ms::zero() && delay <= kLongest, "a delay is above 0 and at most the longest");
    hold(delays.empty() || delay >= delays.back(), "delays never shrink");
    for (const double dice : {0.0, 0.3, 1.0, 7.0, -1.0, std::nan("")}) {
      const Ms with = ladder.delay(level, dice);
      hold(with >= delay && with <= delay * 2, "jitter only adds, and at most its share");
    }
    delays.push_back(delay);
    hold_same_again(delay);
  }
  hold(ladder.highest() == delays.back(), "the highest is the last");
  hold(ladder.since_first(ladder.levels()) >= ladder.highest(), "the sum is at least its last part");
  const auto again = Ladder::from_list(delays, ladder.jitter());
  hold(again && *again == ladder, "a ladder's delays make the same ladder");
}

void judge(const tl::expected<Ladder, std::string>& ladder) {
  if (ladder) {
    hold_ladder(*ladder);
  } else {
    hold(!ladder.error().empty() && ladder.error().size() < 300, "an error is a short sentence",
         ladder.error());
  }
}

void list(std::string_view text) {
  std::vector<Ms> delays;
  while (!text.empty() && delays.size() < 1100) {
    const auto end = std::min(text.find(','), text.size());
    if (const auto delay = one(text.substr(0, end))) delays.push_back(*delay);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  judge(Ladder::from_list(delays, 0.2));
}

void exponential(std::string_view bytes) {
  struct {
    std::int64_t base = 0, max = 0;
    double factor = 0, jitter = 0;
    std::int32_t levels = 0;
  } raw;
  std::memcpy(&raw, bytes.data(), std::min(bytes.size(), sizeof raw));
  // Any double, and often one that people would write.
  const double factor = raw.levels % 2 == 0 ? raw.factor : 1 + static_cast<double>(raw.base % 40) / 10;
  const double jitter = raw.levels % 3 == 0 ? raw.jitter : static_cast<double>(raw.max % 100) / 100;
  judge(Ladder::from_exponential({Ms{raw.base}, factor, Ms{raw.max}, raw.levels % 1100}, jitter));
  judge(Ladder::from_exponential(
      {Ms{raw.base % kLongest.count()}, factor, Ms{raw.max % kLongest.count()}, raw.levels % 1100}, jitter));
  const Ms any{raw.base};
  hold(!format_duration(any).empty(), "every duration prints");
}

}  // namespace
}  // namespace rung::levels

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = rung::fuzz::text_of(data + 1, size - 1);
  switch (data[0]) {
    case 'l':
      rung::levels::list(rest);
      break;
    case 'e':
      rung::levels::exponential(rest);
      break;
    default:
      (void)rung::levels::one(rest);
  }
  return 0;
}
