#include "plugin/rabbitmq/wire/codec.h"

#include <bit>
#include <cmath>
#include <type_traits>

#include "src/core/base/result.h"

namespace rung::rabbit {
namespace {

constexpr std::uint16_t kBasicClass = 60;
constexpr std::size_t kFrameHeader = 7;

// --- encoding ---

std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 40;
  return "\"" + std::string(name.substr(0, kMost)) + (name.size() > kMost ? "...\"" : "\"");
}

void put_long(std::string& out, std::string_view text) {
  put32(out, static_cast<std::uint32_t>(text.size()));
  out.append(text);
}

// Fills in the length of what is appended during its lifetime.
class Length {
 public:
  explicit Length(std::string& out) : out_(out), at_(out.size()) { put32(out, 0); }
  void close() {
    const auto size = static_cast<std::uint32_t>(out_.size() - at_ - 4);
    for (int i = 0; i < 4; ++i)
      out_[at_ + static_cast<std::size_t>(i)] = static_cast<char>(size >> (24 - 8 * i));
  }

 private:
  std::string& out_;
  const std::size_t at_;
};

const char* not_a_number(double v) { return std::isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity"; }

// By type, in the order of Value::Variant.
constexpr std::string_view kKinds = "VtbBsuIilLfdDTSxAF";
static_assert(kKinds.size() == std::variant_size_v<Value::Variant>);

Result<void> put_value(const Value& value, std::string& out, int depth);
Result<void> put_table(const Table& table, std::string& out, int depth);

// Encodes the value that follows its type octet.
struct Putter {
  std::string& out;
  int depth;
  using Done = Result<void>;

  Done operator()(std::monostate) const { return {}; }
  template <std::integral T>
  Done operator()(T v) const {
    return put_number(out, v), Done{};
  }
  Done operator()(float v) const { return put_number(out, std::bit_cast<std::uint32_t>(v)), Done{}; }
  Done operator()(double v) const { return put_number(out, std::bit_cast<std::uint64_t>(v)), Done{}; }
  Done operator()(const Decimal& v) const {
    return put_number(out, v.scale), put_number(out, v.value), Done{};
  }
  Done operator()(const Timestamp& v) const { return put_number(out, v.seconds), Done{}; }
  Done operator()(const std::string& v) const { return put_long(out, v), Done{}; }
  Done operator()(const Bytes& v) const { return put_long(out, v.data), Done{}; }
  Done operator()(const Array& v) const {
    if (depth >= kMaxDepth) return permanent("headers are nested deeper than " + std::to_string(kMaxDepth));
    Length length(out);
    for (const Value& item : v) {
      if (auto done = put_value(item, out, depth + 1); !done) return done;
    }
    return length.close(), Done{};
  }
  Done operator()(const Table& v) const {
    if (depth >= kMaxDepth) return permanent("headers are nested deeper than " + std::to_string(kMaxDepth));
    return put_table(v, out, depth + 1);
  }
};

Result<void> put_value(const Value& value, std::string& out, int depth) {
  const auto* f = std::get_if<float>(&value.v);
  const auto* d = std::get_if<double>(&value.v);
  const double number = f != nullptr ? static_cast<double>(*f) : d != nullptr ? *d : 0;
  if (!std::isfinite(number)) return put_value(not_a_number(number), out, depth);
  out.push_back(kKinds[value.v.index()]);
  return std::visit(Putter{out, depth}, value.v);
}

Result<void> put_table(const Table& table, std::string& out, int depth) {
  Length length(out);
  for (const auto& [name, value] : table) {
    if (name.size() > kShortMost) return permanent("the header name " + shown(name) + " is over 255 bytes");
    put_short(out, name);
    if (auto done = put_value(value, out, depth); !done) return done;
  }
  return length.close(), Result<void>{};
}

// --- decoding ---

// Reads from the front of a text. After a read past the end, `ok` is false and every read returns 0.
struct Reader {
  std::string_view rest;
  bool ok = true;

  std::string_view take(std::size_t size) {
    if (!ok || size > rest.size()) {
      ok = false;
      return {};
    }
    const std::string_view taken = rest.substr(0, size);
    rest.remove_prefix(size);
    return taken;
  }
  template <typename T>
  T number() {
    T v = 0;
    for (const char c : take(sizeof(T)))
      v = static_cast<T>((static_cast<std::uint64_t>(v) << 8) | static_cast<unsigned char>(c));
    return v;
  }
  std::string short_text() { return std::string(take(number<std::uint8_t>())); }
  std::string_view long_text() { return take(number<std::uint32_t>()); }
};

void read_table(std::string_view text, Table& table, int depth, bool& ok);

Value read_array(std::string_view text, int depth, bool& ok);

Value read_value(Reader& in, int depth) {
  switch (in.number<char>()) {
    case 't':
      return in.number<std::uint8_t>() != 0;
    case 'b':
      return in.number<std::int8_t>();
    case 'B':
      return in.number<std::uint8_t>();
    case 's':
      return in.number<std::int16_t>();
    case 'u':
      return in.number<std::uint16_t>();
    case 'I':
      return in.number<std::int32_t>();
    case 'i':
      return in.number<std::uint32_t>();
    case 'l':
      return in.number<std::int64_t>();
    case 'L':
      return in.number<std::uint64_t>();
    case 'f':
      return std::bit_cast<float>(in.number<std::uint32_t>());
    case 'd':
      return std::bit_cast<double>(in.number<std::uint64_t>());
    case 'D': {
      const auto scale = in.number<std::uint8_t>();
      return Decimal{scale, in.number<std::int32_t>()};
    }
    case 'T':
      return Timestamp{in.number<std::uint64_t>()};
    case 'S':
      return std::string(in.long_text());
    case 'x':
      return Bytes{std::string(in.long_text())};
    case 'V':
      return {};
    case 'A':
      return read_array(in.long_text(), depth, in.ok);
    case 'F': {
      const std::string_view text = in.long_text();
      if (depth >= kMaxDepth) return Bytes{std::string(text)};
      Table table;
      read_table(text, table, depth + 1, in.ok);
      return table;
    }
    default:
      in.ok = false;
      return {};
  }
}

Value read_array(std::string_view text, int depth, bool& ok) {
  if (depth >= kMaxDepth) return Bytes{std::string(text)};
  Reader in{text};
  Array array;
  while (in.ok && !in.rest.empty()) {
    Value value = read_value(in, depth + 1);
    if (in.ok) array.push_back(std::move(value));
  }
  ok = ok && in.ok;
  return array;
}

void read_table(std::string_view text, Table& table, int depth, bool& ok) {
  Reader in{text};
  while (in.ok && !in.rest.empty()) {
    std::string name = in.short_text();
    Value value = read_value(in, depth);
    if (in.ok) table.emplace_back(std::move(name), std::move(value));
  }
  ok = ok && in.ok;
}

// --- the 14 properties in order, each with its flag ---

// Calls visit(flag, member) for each; the headers come third.
template <typename M, typename Visit>
void each_field(M& message, const Visit& visit) {
  unsigned flag = 1U << 15;
  const auto next = [&](auto& member) {
    visit(static_cast<std::uint16_t>(flag), member);
    flag >>= 1;
  };
  each_property(message.properties, [&](std::string_view name, auto& member) {
    next(member);
    if (name == "content_encoding") next(message.headers);
  });
}

}  // namespace

void put_short(std::string& out, std::string_view text) {
  RUNG_REQUIRE(text.size() <= kShortMost);
  put8(out, static_cast<std::uint8_t>(text.size()));
  out.append(text);
}

Result<void> encode_content_header(const Message& message, std::string& out) {
  const std::size_t before = out.size();
  put16(out, kBasicClass);
  put16(out, 0);  // weight: unused
  put64(out, message.body.size());
  const std::size_t flags_at = out.size();
  put16(out, 0);
  std::uint16_t flags = 0;
  Result<void> done;
  each_field(message, [&](std::uint16_t bit, const auto& member) {
    if (!member || !done) return;
    flags = static_cast<std::uint16_t>(flags | bit);
    using T = std::decay_t<decltype(*member)>;
    if constexpr (std::is_same_v<T, Table>) {
      done = put_table(*member, out, 0);
    } else if constexpr (std::is_same_v<T, std::uint8_t>) {
      put8(out, *member);
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      put64(out, *member);
    } else if (member->size() > kShortMost) {
      done = permanent("the property " + shown(*member) + " is over 255 bytes");
    } else {
      put_short(out, *member);
    }
  });
  if (!done) {
    out.resize(before);
    return done;
  }
  out[flags_at] = static_cast<char>(flags >> 8);
  out[flags_at + 1] = static_cast<char>(flags);
  return done;
}

bool decode_content_header(std::string_view payload, Message& message, std::uint64_t& body_size) {
  Reader in{payload};
  in.take(4);  // class, weight
  body_size = in.number<std::uint64_t>();
  const auto flags = in.number<std::uint16_t>();
  bool headers_ok = true;
  each_field(message, [&](std::uint16_t bit, auto& member) {
    if ((flags & bit) == 0) return;
    using T = std::decay_t<decltype(*member)>;
    if constexpr (std::is_same_v<T, Table>) {
      read_table(in.long_text(), member.emplace(), 0, headers_ok);
    } else if constexpr (std::is_same_v<T, std::string>) {
      member = in.short_text();
    } else {
      member = in.number<T>();
    }
  });
  return in.ok && headers_ok;
}

std::uint32_t Frame::method() const {
  return type == AMQP_FRAME_METHOD ? Reader{payload}.number<std::uint32_t>() : 0;
}

Result<std::size_t> cut_frame(std::string_view stream, std::size_t most, Frame& frame) {
  if (stream.starts_with("AMQP")) return permanent("the broker does not speak AMQP 0-9-1");
  if (stream.size() < kFrameHeader) return std::size_t{0};
  Reader reader{stream};
  frame.type = reader.number<std::uint8_t>();
  frame.channel = reader.number<std::uint16_t>();
  const std::size_t size = reader.number<std::uint32_t>();
  if (size > most) return permanent("not AMQP, or a frame of " + std::to_string(size) + " bytes");
  if (stream.size() < size + kFrameOverhead) return std::size_t{0};
  if (static_cast<unsigned char>(stream[kFrameHeader + size]) != AMQP_FRAME_END)
    return permanent("a frame without its end mark");
  frame.payload = reader.take(size);
  return size + kFrameOverhead;
}

}  // namespace rung::rabbit
