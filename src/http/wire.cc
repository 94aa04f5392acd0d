#include "src/http/wire.h"

#include <strings.h>

#include <algorithm>
#include <utility>

namespace rung::http {
namespace {

constexpr std::size_t kMostHeader = 16 * 1024;
constexpr std::size_t kMostHeaderLines = 100;
constexpr std::size_t kReadSize = 16 * 1024;
constexpr std::size_t kMostLinger = 4u << 20;

}  // namespace

Wire::Head Wire::read_head(BootMs deadline, std::size_t most_body) {
  deadline_ = deadline;
  close = too_large = late = no_body = false;
  in_.erase(0, std::exchange(at_, 0));
  std::size_t looked = 0;
  while (true) {
    const std::size_t end = in_.find("\r\n\r\n", looked);
    if (end != std::string::npos) {
      if (end > kMostHeader || !mask(end + 4)) return Head::too_large;
      left_ = end + 4 + most_body + most_body / 8 + 4096;  // chunks have a frame
      return Head::there;
    }
    if (in_.size() > kMostHeader) return Head::too_large;
    looked = in_.size() < 3 ? 0 : in_.size() - 3;
    if (const long n = fill(); n <= 0) return n == -2 ? Head::late : Head::ended;
  }
}

// The names of headers that the library would act upon and must not: parts of a JSON text are no answer, its
// pattern for Range recurses by the header's length, and brotli at its best takes seconds. false: too many
// lines.
bool Wire::mask(std::size_t end) {
  std::size_t lines = 0;
  for (std::size_t at = in_.find("\r\n") + 2; at < end; at = in_.find("\r\n", at) + 2) {
    if (++lines > kMostHeaderLines) return false;
    for (const std::string_view name : {"range:", "if-range:", "accept-encoding:"}) {
      if (in_.size() - at >= name.size() && strncasecmp(in_.data() + at, name.data(), name.size()) == 0)
        in_[at] = '-';
    }
  }
  return true;
}

long Wire::read(char* to, std::size_t size) {
  if (no_body) return 0;
  if (left_ == 0) {
    too_large = true;
    return -1;
  }
  if (in_.empty()) {
    if (!flush(deadline_)) return -1;  // "100 Continue"
    if (const long n = fill(); n <= 0) {
      late = n == -2;
      return -1;  // 0 would be taken for the end of a body that has no length
    }
  }
  const std::size_t n = std::min({size, in_.size() - at_, left_});
  std::copy_n(in_.data() + at_, n, to);
  at_ += n;
  left_ -= n;
  if (at_ == in_.size()) {
    in_.clear();
    at_ = 0;
  }
  return static_cast<long>(n);
}

long Wire::fill() {
  in_.erase(0, std::exchange(at_, 0));
  const std::size_t had = in_.size();
  in_.resize(had + kReadSize);
  const long n = channel_.read(in_.data() + had, kReadSize, deadline_);
  in_.resize(had + static_cast<std::size_t>(std::max(n, 0L)));
  return n;
}

bool Wire::flush(BootMs deadline) {
  const bool ok = out_.empty() || channel_.write(out_.data(), out_.size(), deadline);
  out_.clear();
  return ok;
}

void Wire::linger(BootMs deadline) {
  channel_.finish();
  std::string rest(kReadSize, '\0');
  for (std::size_t taken = 0; taken < kMostLinger;) {
    const long n = channel_.read(rest.data(), rest.size(), deadline);
    if (n <= 0) return;
    taken += static_cast<std::size_t>(n);
  }
}

}  // namespace rung::http
