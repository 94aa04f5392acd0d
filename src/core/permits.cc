#include "src/core/permits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace rung {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max() / 2;

// A sum of fractions may miss a whole number by a rounding error.
int whole(const TokenBucket& bucket) { return static_cast<int>(std::min(bucket.tokens + 1e-6, 1e9)); }

// Divides `total` among the values, each at most `most`: equal shares, what one does not need goes to others.
PermitCounts divide(int total, PermitCounts most, const std::string& turn) {
  PermitCounts out;
  auto it = most.lower_bound(turn);
  while (total > 0 && !most.empty()) {
    const int share = std::max(total / static_cast<int>(most.size()), 1);
    for (auto left = most.size(); left > 0 && total > 0; --left) {
      if (it == most.end()) it = most.begin();
      const int given = std::min({share, it->second, total});
      if (given > 0) out[it->first] += given;
      total -= given;
      it->second -= given;
      it = it->second == 0 ? most.erase(it) : std::next(it);
    }
  }
  return out;
}

}  // namespace

void refill(TokenBucket& bucket, double per_second, EpochMs now) {
  const double burst = TokenBucket::burst(per_second);
  if (bucket.filled_at.ms == 0) {
    bucket = {burst, now};
    return;
  }
  const Ms passed = std::max(now - bucket.filled_at, Ms{0});
  bucket.tokens = std::min(burst, bucket.tokens + per_second * static_cast<double>(passed.count()) / 1000.0);
  bucket.filled_at = now;
}

void give_back(PermitBook& book, const GateRules& rules, const PermitCounts& returned) {
  for (const auto& [value, count] : returned) {
    if (rules.rate > 0) book.queue.tokens += count;
    if (rules.rate_by && !value.empty()) book.values[value].tokens += count;
  }
}

PermitCounts grant(PermitBook& book, const GateRules& rules, const PermitRequest& request, EpochMs now) {
  const double rate = request.ramp_rate.value_or(rules.rate);
  int total = kUnlimited;
  if (rate > 0) {
    refill(book.queue, rate, now);
    total = whole(book.queue);
  }
  if (rules.in_flight > 0) total = std::min(total, std::max(rules.in_flight - book.in_flight, 0));

  PermitCounts most;
  for (const auto& [value, count] : request.wanted) {
    int allowed = count;
    if (rules.rate_by && !value.empty()) {
      TokenBucket& bucket = book.values[value];
      refill(bucket, rules.rate_by->per_second, now);
      allowed = std::min(allowed, whole(bucket));
    }
    if (allowed > 0) most.emplace(value, allowed);
  }
  const PermitCounts granted = divide(total, std::move(most), request.turn);
  for (const auto& [value, count] : granted) {
    if (rate > 0) book.queue.tokens -= count;
    if (rules.rate_by && !value.empty()) book.values[value].tokens -= count;
  }
  return granted;
}

}  // namespace rung
