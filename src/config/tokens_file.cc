// http.tokens_file: a YAML list of tokens with name, role and queues. No message quotes a token.
#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "src/config/draft.h"
#include "src/core/base/utf8.h"

namespace rung::confile {
namespace {

constexpr std::size_t kMostBytes = 1024UL * 1024;
constexpr std::size_t kMostPeople = 1000;
constexpr std::size_t kShortestToken = 16, kLongestToken = 255;
constexpr std::size_t kMostQueues = 100, kLongestQueue = 255;

constexpr std::string_view kTokenForm = "{ name: alice, role: operator, token: \"...\" }";
const std::array<std::string_view, 5> kKeys{"name", "role", "queues", "token", "token_sha256"};

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestPersonName && std::ranges::all_of(text, is_person_name_char);
}

// Whether a [ stands outside of a class: for queues' names it would stand for itself, here it is more likely
// an error.
bool has_open_class(std::string_view pattern) {
  for (std::size_t at = pattern.find('['); at != std::string_view::npos; at = pattern.find('[', at)) {
    const std::size_t first = at + (pattern.substr(at + 1).starts_with('!') ? 2 : 1);
    // A ] that comes first is a member of the class.
    at = first < pattern.size() ? pattern.find(']', first + 1) : std::string_view::npos;
    if (at == std::string_view::npos) return true;
  }
  return false;
}

class TokensParser {
 public:
  explicit TokensParser(Problems& problems) : problems_(problems) {}

  std::vector<PersonToken> parse(const Node& root) {
    if (root.kind != Node::Kind::list || root.items.empty()) {
      problems_.add(root.mark, "expected a list of tokens: - " + std::string(kTokenForm));
      return {};
    }
    if (root.items.size() > kMostPeople) {
      problems_.add(root.items[kMostPeople].mark,
                    "at most " + std::to_string(kMostPeople) + " tokens are allowed");
      return {};
    }
    for (const Node& item : root.items) entry(item);
    return std::move(all_);
  }

 private:
  // What one entry says.
  struct Draft {
    const Node *name = nullptr, *role = nullptr, *queues = nullptr, *token = nullptr, *hash = nullptr;
  };

  void entry(const Node& item) {
    if (item.invalid) return;
    const auto before = problems_.count();
    if (item.kind != Node::Kind::map) return wrong(item, "expected a token: " + std::string(kTokenForm));
    Draft draft;
    for (const auto& [key, value] : item.entries) keep(key, value, draft);
    PersonToken out;
    name_of(item, draft, out.person.name);
    role_of(item, draft, out.person.role);
    if (draft.queues != nullptr) out.person.queues = read_queue_scope(*draft.queues, "queues", problems_);
    digest_of(item, draft, out.digest);
    if (problems_.count() != before) return;
    compare(item, out);
    all_.push_back(std::move(out));
  }

  void keep(const Node& key, const Node& value, Draft& draft) {
    const std::array<const Node**, kKeys.size()> places{&draft.name, &draft.role, &draft.queues, &draft.token,
                                                        &draft.hash};
    const auto* const known = std::ranges::find(kKeys, key.text);
    if (known != kKeys.end()) {
      const Node*& place = *places[static_cast<std::size_t>(known - kKeys.begin())];
      if (place != nullptr) return wrong(key, key.text + ": duplicate key");
      place = &value;
      return;
    }
    const std::string near = closest(key.text, {kKeys.begin(), kKeys.end()});
    wrong(key, (hides(key) ? "unknown key (not shown: it might be a token)" : "unknown key " + shown(key)) +
                   (near.empty() ? ": known keys: name, role, queues, token, token_sha256"
                                 : ": did you mean " + near + "?"));
  }

  void name_of(const Node& item, const Draft& draft, std::string& out) {
    if (draft.name == nullptr) return wrong(item, "name is missing: the audit records it with every change");
    if (draft.name->invalid) return;
    if (!is_name(draft.name->text))
      return wrong(*draft.name, "name: expected 1 to " + std::to_string(kLongestPersonName) +
                                    " letters, digits and . _ @ + -");
    out = draft.name->text;
  }

  void role_of(const Node& item, const Draft& draft, Role& out) {
    constexpr std::string_view kOneOf = "reader, operator, editor or admin";
    if (draft.role == nullptr) return wrong(item, "role is missing: write " + std::string(kOneOf));
    if (draft.role->invalid) return;
    const auto role = role_from(draft.role->text);
    if (role) {
      out = *role;
      return;
    }
    const std::string near = closest(draft.role->text, {kRoleWords.begin(), kRoleWords.end()});
    wrong(*draft.role, "role: " + shown(*draft.role) + " is not " + std::string(kOneOf) +
                           (near.empty() ? "" : ": did you mean " + near + "?"));
  }

  void digest_of(const Node& item, const Draft& draft, Sha256& out) {
    if ((draft.token == nullptr) == (draft.hash == nullptr))
      return wrong(item, draft.token == nullptr
                             ? "token is missing: write token, or token_sha256 with its hash"
                             : "write token or token_sha256, not both");
    if (draft.token != nullptr) return plain(*draft.token, out);
    if (draft.hash->invalid) return;
    const auto bytes = from_hex_digits(draft.hash->text);
    if (draft.hash->kind != Node::Kind::text || !bytes || bytes->size() != out.size())
      return wrong(*draft.hash,
                   "token_sha256: expected 64 hexadecimal digits: printf %s \"$TOKEN\" | sha256sum");
    std::ranges::transform(*bytes, out.begin(), [](char c) { return static_cast<std::uint8_t>(c); });
  }

  void plain(const Node& token, Sha256& out) {
    if (token.invalid) return;
    const std::string& text = token.text;
    if (token.kind != Node::Kind::text || text.size() < kShortestToken || text.size() > kLongestToken)
      return wrong(token, "token: expected " + std::to_string(kShortestToken) + " to " +
                              std::to_string(kLongestToken) + " characters: openssl rand -hex 32 makes one");
    // It is sent in a header.
    if (std::ranges::any_of(text, [](char c) { return c <= ' ' || c >= 0x7f; }))
      return wrong(token, "token: only visible ASCII characters are allowed: openssl rand -hex 32 makes one");
    out = sha256(text);
  }

  // With the entries before it.
  void compare(const Node& item, const PersonToken& token) {
    const auto line = std::to_string(item.mark.line);
    const auto [same, is_new] = lines_.emplace(token.digest, line);
    if (!is_new) wrong(item, "the same token as in line " + same->second + ": use different tokens");
    const auto first = std::ranges::find(
        all_, token.person.name, [](const auto& one) -> const std::string& { return one.person.name; });
    if (first == all_.end()) return;
    const auto texts = [](const PersonToken& one) {
      return one.person.queues == nullptr ? std::vector<std::string>() : one.person.queues->texts();
    };
    if (first->person.role != token.person.role || texts(*first) != texts(token))
      wrong(item, token.person.name + " has another role or other queues in line " +
                      lines_.at(first->digest) + ": tokens of one name are for one person");
  }

  // Quoted, unless it could be a token in the wrong place.
  static std::string shown(const Node& node) { return hides(node) ? "the value" : in_quotes(node.text); }
  static bool hides(const Node& node) { return node.substituted || node.text.size() >= kShortestToken; }
  void wrong(const Node& node, std::string what) { problems_.add(node.mark, std::move(what)); }

  Problems& problems_;
  std::vector<PersonToken> all_;
  std::map<Sha256, std::string> lines_;  // by token
};

}  // namespace

QueueScopePtr read_queue_scope(const Node& list, const std::string& path, Problems& problems) {
  const auto refuse = [&](const Node& node, const std::string& what) {
    problems.add(node.mark, path + ": " + what);
    return nullptr;
  };
  if (list.invalid) return nullptr;
  if (list.kind != Node::Kind::list || list.items.empty())
    return refuse(list,
                  "expected a list of names, * matches any characters: [orders, \"billing.*\"]; "
                  "leave it out for all queues");
  if (list.items.size() > kMostQueues)
    return refuse(list, "at most " + std::to_string(kMostQueues) + " are allowed");
  std::vector<QueuePattern> patterns;
  for (const Node& item : list.items) {
    if (item.invalid) continue;
    const std::string& text = item.text;
    if (item.kind != Node::Kind::text || text.empty() || text.size() > kLongestQueue || !is_utf8(text) ||
        text.find('\0') != std::string::npos) {
      refuse(item, "expected a name or a pattern of 1 to 255 bytes of UTF-8");
    } else if (has_open_class(text)) {
      refuse(item, "a [ without its ]: write [abc], or [[] for the character");
    } else {
      patterns.emplace_back(text);
    }
  }
  return std::make_shared<const QueueScope>(std::move(patterns));
}

std::vector<PersonToken> read_tokens_file(const std::string& file, Mark at, Problems& problems) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');  // the file may be /dev/zero
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.fail() && !in.eof())) {
    problems.add(at, "http.tokens_file: " + in_quotes(file) + " cannot be read");
    return {};
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMostBytes) {
    problems.add(at, "http.tokens_file: " + in_quotes(file) + " is larger than 1 MB");
    return {};
  }
  Problems own(file);
  std::vector<PersonToken> all;
  if (const auto root = parse_document(text, own)) all = TokensParser(own).parse(*root);
  for (ConfigProblem& problem : own.take()) problems.add_other(std::move(problem));
  return all;
}

}  // namespace rung::confile
