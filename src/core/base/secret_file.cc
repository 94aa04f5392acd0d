#include "src/core/base/secret_file.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

namespace rung {
namespace {

constexpr std::size_t kMostOfSecret = 4096;

tl::unexpected<Error> refusal(std::string message) {
  return tl::unexpected(Error{Error::Kind::refused, std::move(message)});
}

Result<std::string> secret_text(const std::string& path, std::size_t most) {
  auto text = read_start(path, most);
  if (text && text->starts_with("\xEF\xBB\xBF"))
    return refusal("begins with a byte order mark (EF BB BF): save it as UTF-8 without one");
  return text;
}

Result<std::string> checked(std::string line, const std::string& which, const std::string& what) {
  if (line.size() > kMostOfSecret)
    return refusal(which + " of the file is longer than " + std::to_string(kMostOfSecret) + " bytes: not a " +
                   what);
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) return refusal(which + " of the file is empty: it must be the " + what);
  if (line.find('\0') != std::string::npos)
    return refusal(which + " of the file contains a NUL byte: not a " + what);
  return line;
}

}  // namespace

Result<std::string> read_start(const std::string& path, std::size_t most) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text(most, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.fail() && !in.eof()))
    return refusal("cannot be read: " + std::generic_category().message(errno));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

Result<std::vector<std::string>> read_secret_lines(const std::string& path, const std::string& what,
                                                   std::size_t most) {
  auto text = secret_text(path, (kMostOfSecret + 2) * most + 1);
  if (!text) return tl::unexpected(text.error());
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  std::vector<std::string> lines;
  for (std::size_t from = 0; from <= text->size();) {
    if (lines.size() == most) return refusal("the file has more than " + std::to_string(most) + " lines");
    const std::size_t end = std::min(text->find('\n', from), text->size());
    auto line = checked(text->substr(from, end - from),
                        lines.empty() ? "the first line" : "line " + std::to_string(lines.size() + 1), what);
    if (!line) return tl::unexpected(line.error());
    lines.push_back(*std::move(line));
    from = end + 1;
  }
  return lines;
}

Result<std::string> read_password_file(const std::string& path) {
  auto text = secret_text(path, kMostOfSecret + 2);
  if (!text) return tl::unexpected(text.error());
  return checked(text->substr(0, text->find('\n')), "the first line", "password");
}

}  // namespace rung
