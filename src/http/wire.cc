#include "src/http/wire.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace rung::http {
namespace {

constexpr std::size_t kMostHeader = 16 * 1024;
constexpr std::size_t kMostHeaderLines = 100;
constexpr std::size_t kWireRead = 16 * 1024;
constexpr std::size_t kMostLinger = 32u << 20;
constexpr std::size_t kMostFrameLine = 1024;  // of a chunk's size, or a trailer
constexpr int kMostTrailers = 32;

bool is_token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  const auto fits = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kOthers.find(c) != std::string_view::npos;
  };
  return !text.empty() && std::ranges::all_of(text, fits);
}

bool is_control(char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f; }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Said twice, each reader could take another one of them.
bool only_once(std::string_view name) {
  constexpr std::string_view kNames[] = {"host",     "content-length", "transfer-encoding", "content-type",
                                         "if-match", "authorization",  "content-encoding",  "origin"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// uri-host [":" port] of RFC 9110, without percent-encoding: no user, no path. Empty is allowed there, not
// here.
bool is_host(std::string_view text) {
  constexpr std::string_view kOthers = "-._~";
  const bool bracket = text.starts_with('[');
  const std::size_t end = bracket ? text.find(']') : text.find(':');
  const std::string_view name = text.substr(bracket ? 1 : 0, bracket ? end - 1 : end);
  std::string_view rest = end == std::string_view::npos ? "" : text.substr(bracket ? end + 1 : end);
  const auto fits = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kOthers.find(c) != std::string_view::npos || (bracket && c == ':');
  };
  if (name.empty() || (bracket && end == std::string_view::npos) || !std::ranges::all_of(name, fits))
    return false;
  if (rest.empty()) return true;
  const bool colon = rest.starts_with(':');
  rest.remove_prefix(1);
  return colon && rest.size() <= 5 && rest.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<void> read_request_line(std::string_view line, RequestHead& head) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return permanent("this is no HTTP request");
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  head.version = line.substr(last + 1);
  const bool odd =
      std::ranges::any_of(head.target, [](char c) { return is_control(c) || c == ' ' || c == '\t'; });
  if (!is_token(head.method) || head.target.empty() || odd ||
      (head.version != "HTTP/1.1" && head.version != "HTTP/1.0"))
    return permanent("this is no HTTP request");
  return {};
}

Result<void> read_header(std::string_view line, RequestHead& head) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return permanent("a header is NAME: VALUE on one line, with no blank before the colon");
  std::string name = lower(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (std::ranges::any_of(value, is_control)) return permanent("a header holds a control character");
  if (only_once(name) && head.find(name) != nullptr)
    return permanent("the header " + name + " stands there twice");
  if (name == "transfer-encoding") head.chunked = true;
  if (name == "content-length") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), head.length);
    if (error != std::errc{} || end != value.data() + value.size() || value.empty())
      return permanent("Content-Length is a number");
  }
  if (name == "host" && !is_host(value))
    return permanent("Host is a name or an address, with or without a port: rung.example:8025");
  head.headers.emplace_back(std::move(name), value);
  return {};
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = static_cast<char>(c | 0x20);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

// None: a % that two hexadecimal digits do not follow.
std::optional<std::string> decoded(std::string_view text, bool plus_is_blank) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' && plus_is_blank ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? digit(text[i + 1]) : -1;
    const int low = high >= 0 ? digit(text[i + 2]) : -1;
    if (low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace

Result<Pairs> parse_query(std::string_view text) {
  Pairs out;
  while (!text.empty()) {
    const std::size_t end = text.find('&');
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto name = decoded(pair.substr(0, equals), true);
    auto value = decoded(equals == std::string_view::npos ? "" : pair.substr(equals + 1), true);
    if (!name || !value) return permanent("behind a % in the query stand two hexadecimal digits");
    out.emplace_back(*std::move(name), *std::move(value));
  }
  return out;
}

std::string decode_path(std::string_view text) {
  for (const std::string_view slash : {"%2f", "%2F"}) {
    if (text.find(slash) != std::string_view::npos) return std::string(text);
  }
  return decoded(text, false).value_or(std::string(text));
}

const std::string* RequestHead::find(std::string_view name) const {
  for (const auto& [mine, value] : headers) {
    if (mine == name) return &value;
  }
  return nullptr;
}

std::string RequestHead::get(std::string_view name) const {
  const std::string* value = find(name);
  return value != nullptr ? *value : "";
}

Result<RequestHead> parse_head(std::string_view text) {
  RequestHead head;
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = text.find("\r\n");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    // A line that ends otherwise is two for one reader and one for the next.
    if (line.find_first_of("\r\n") != std::string_view::npos) return permanent("a line ends by CR and LF");
    if (auto read = first ? read_request_line(line, head) : read_header(line, head); !read)
      return tl::unexpected(read.error());
    first = false;
  }
  if (first) return permanent("this is no HTTP request");
  if (head.chunked && head.find("content-length") != nullptr)
    return permanent("say a body's length once: Content-Length, or Transfer-Encoding: chunked");
  return head;
}

Wire::Head Wire::read_head(BootMs deadline, std::size_t most_body) {
  deadline_ = deadline;
  most_body_ = most_body;
  close = too_large = late = broken = begun_ = false;
  in_.erase(0, std::exchange(at_, 0));
  std::size_t looked = 0;
  while (true) {
    if (looked == 0 && in_.starts_with("\r\n")) in_.erase(0, 2);  // some send it after a body
    const std::size_t end = in_.find("\r\n\r\n", looked);
    const std::size_t size = end != std::string::npos ? end + 2 : in_.size();
    // Who ends lines by LF alone would else be waited for.
    for (std::size_t i = looked; i < size; ++i) {
      if (in_[i] != '\n' || (i > 0 && in_[i - 1] == '\r')) continue;
      why_ = "a line ends by CR and LF";
      return Head::wrong;
    }
    if (size > kMostHeader) return Head::too_large;
    if (end != std::string::npos) {
      const std::string_view text(in_.data(), size);
      if (static_cast<std::size_t>(std::ranges::count(text, '\n')) > kMostHeaderLines + 1)
        return Head::too_large;
      auto head = parse_head(text);
      if (!head) {
        why_ = head.error().message;
        return Head::wrong;
      }
      head_ = *std::move(head);
      at_ = size + 2;
      line_ = head_.method + " / HTTP/1.1\r\n\r\n";
      line_at_ = 0;
      return Head::there;
    }
    looked = in_.size() < 3 ? 0 : in_.size() - 3;
    if (const long n = fill(); n <= 0) return n == -2 ? Head::late : Head::ended;
  }
}

bool Wire::begin_body() {
  begun_ = true;
  left_ = head_.length;
  part_ = head_.chunked ? Part::chunk : left_ > 0 ? Part::data : Part::end;
  taken_ = 0;
  trailers_ = 0;
  if (part_ == Part::end || has_input() || head_.version != "HTTP/1.1" ||
      lower(head_.get("expect")) != "100-continue")
    return true;
  write("HTTP/1.1 100 Continue\r\n\r\n");
  return flush(deadline_);
}

long Wire::read(char* to, std::size_t size) {
  if (line_at_ < line_.size()) {
    const std::size_t n = line_.copy(to, size, line_at_);
    line_at_ += n;
    return static_cast<long>(n);
  }
  if (!begun_ && !begin_body()) return -1;
  while (part_ != Part::data) {
    if (part_ == Part::end) return 0;
    if (!(part_ == Part::chunk ? next_chunk() : after_chunk())) return -1;
  }
  if (taken_ + left_ > most_body_) {
    too_large = true;
    return -1;
  }
  if (!more()) return -1;
  const std::size_t n = std::min({size, in_.size() - at_, left_});
  std::copy_n(in_.data() + at_, n, to);
  at_ += n;
  taken_ += n;
  left_ -= n;
  if (left_ == 0) part_ = head_.chunked ? Part::chunk_end : Part::end;
  return static_cast<long>(n);
}

// A chunk's size in hexadecimal digits; what stands behind a ; is not looked at.
bool Wire::next_chunk() {
  std::string line;
  if (!next_line(line)) return false;
  const std::string_view digits = trimmed(std::string_view(line).substr(0, line.find(';')));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), left_, 16);
  if (digits.empty() || digits.size() > 15 || error != std::errc{} || end != digits.data() + digits.size()) {
    broken = true;
    return false;
  }
  part_ = left_ > 0 ? Part::data : Part::trailer;
  return true;
}

bool Wire::after_chunk() {
  std::string line;
  if (!next_line(line)) return false;
  if (part_ == Part::chunk_end) {
    broken = !line.empty();
    part_ = Part::chunk;
  } else if (line.empty()) {
    part_ = Part::end;
  } else {
    broken = ++trailers_ > kMostTrailers;
  }
  return !broken;
}

bool Wire::next_line(std::string& line) {
  while (true) {
    if (!more()) return false;
    const char c = in_[at_++];
    if (c == '\n' && line.ends_with('\r')) {
      line.pop_back();
      return true;
    }
    // A CR that no LF follows, an LF alone, or too long.
    broken = c == '\n' || line.ends_with('\r') || line.size() >= kMostFrameLine;
    if (broken) return false;
    line += c;
  }
}

bool Wire::more() {
  if (has_input()) return true;
  const long n = fill();
  late = n == -2;
  return n > 0;
}

long Wire::fill() {
  in_.erase(0, std::exchange(at_, 0));
  const std::size_t had = in_.size();
  in_.resize(had + kWireRead);
  const long n = channel_.read(in_.data() + had, kWireRead, deadline_);
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
  std::string rest(kWireRead, '\0');
  for (std::size_t taken = 0; taken < kMostLinger;) {
    const long n = channel_.read(rest.data(), rest.size(), deadline);
    if (n <= 0) return;
    taken += static_cast<std::size_t>(n);
  }
}

}  // namespace rung::http
