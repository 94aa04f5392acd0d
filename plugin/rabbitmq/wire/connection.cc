#include "plugin/rabbitmq/wire/connection.h"

#include <array>
#include <charconv>
#include <cstring>

#include "plugin/rabbitmq/wire/codec.h"

namespace rung::rabbit {
namespace {

constexpr std::uint32_t kFrameMax = 131072;  // what we propose; RabbitMQ's own default
// The largest frame that we accept: more than was negotiated. RabbitMQ doesn't split a content header, and
// adds x-death even to one that already filled its frame (3.10: a message of 130,900 bytes of headers,
// rejected once). Refusing it would repeat after each reconnect, and no message behind it would ever arrive.
constexpr std::size_t kTakenMost = 1024 * 1024;
constexpr std::size_t kReadAtOnce = 128 * 1024;

const Connection::Others kIgnored = [](const Frame&) {};

// Codes that the same call would get again. Not 404: what we consume existed a moment ago, and is declared
// again.
bool is_refusal(int code) { return code == 402 || code == 403 || code == 406; }

Error error_of(const Closing& why) {
  return {is_refusal(why.code) ? Error::Kind::refused : Error::Kind::transient, why.text};
}

// At login, a missing virtual host or one that the user may not access is a refusal too; a connection limit
// is not.
Error login_error_of(const Closing& why, const Url& url) {
  constexpr int kNotAllowed = 530;
  Error error = error_of(why);
  if (why.code == kNotAllowed && why.text.find("limit") == std::string::npos) {
    error.kind = Error::Kind::refused;
    error.message +=
        "; check the virtual host '" + url.vhost() + "' in broker.url and the user's permissions for it";
  }
  if (why.code == 403) {
    const std::string user = url.user.empty() ? "guest" : url.user;
    error.message +=
        "; check the user '" + user + "' and its password in broker.url (or broker.password_file)";
  }
  return error;
}

}  // namespace

Connection::Connection(std::unique_ptr<Wire> wire, const Clock& clock, Address address, Ms heartbeat)
    : wire_(std::move(wire)),
      clock_(clock),
      address_(std::move(address)),
      heartbeat_(heartbeat),
      last_in_(clock_.boot()),
      last_out_(clock_.boot()) {
  init_amqp_pool(&pool_, 4096);
}

Connection::~Connection() { empty_amqp_pool(&pool_); }

Result<std::unique_ptr<Connection>> Connection::open(Addresses& addresses, const Access& access, Ms heartbeat,
                                                     const std::string& name, Waker& waker, Ms most,
                                                     const SetUp& set_up) {
  using Opened = Result<std::unique_ptr<Connection>>;
  return addresses.connect(
      most, [&] { return waker.stopping(); },
      [&](const Address& address, BootMs until) -> Opened {
        auto connection = open_at(address, access, heartbeat, name, waker, until);
        if (!connection || !set_up) return connection;
        auto done = set_up(**connection);
        if (done) return connection;
        if (!address.alone) done.error().message = address.shown + ": " + done.error().message;
        return tl::unexpected(std::move(done.error()));
      });
}

Result<std::unique_ptr<Connection>> Connection::open_at(const Address& address, const Access& access,
                                                        Ms heartbeat, const std::string& name, Waker& waker,
                                                        BootMs deadline) {
  const auto url = access.login(address.url);
  if (!url) return tl::unexpected(url.error());
  const int port = url->port != 0 ? url->port : usual_port(access.uses_tls());
  auto wire = Wire::open(address, port, access, waker, deadline);
  if (!wire) return tl::unexpected(wire.error());
  std::unique_ptr<Connection> connection(new Connection(std::move(*wire), waker.clock(), address, heartbeat));
  if (auto done = connection->login(*url, name, waker, deadline); !done) {
    Error error = done.error();
    error.message = address.shown + ": " + error.message;
    return tl::unexpected(std::move(error));
  }
  return connection;
}

// --- in ---

Result<bool> Connection::fill() {
  if (taken_ == filled_) {
    taken_ = filled_ = 0;
  } else if (taken_ > 0) {
    std::memmove(in_.data(), in_.data() + taken_, filled_ - taken_);
    filled_ -= taken_;
    taken_ = 0;
  }
  if (in_.size() < filled_ + kReadAtOnce) in_.resize(filled_ + kReadAtOnce);
  const auto got = wire_->read(in_.data() + filled_, kReadAtOnce);
  if (!got) return tl::unexpected(got.error());
  if (*got > 0) {
    filled_ += *got;
    last_in_ = clock_.boot();
    return true;
  }
  if (heartbeat_.count() > 0 && clock_.boot() - last_in_ > 2 * heartbeat_) {
    return transient("no heartbeat from the broker for " + std::to_string(2 * heartbeat_.count()) + " ms");
  }
  return false;
}

Result<bool> Connection::next(Frame& frame) {
  for (;;) {
    const auto size = cut_frame({in_.data() + taken_, filled_ - taken_}, kTakenMost, frame);
    if (!size) return tl::unexpected(size.error());
    if (*size == 0) return false;
    taken_ += *size;
    if (frame.type != AMQP_FRAME_HEARTBEAT) return true;
  }
}

const void* Connection::decode(const Frame& frame) {
  recycle_amqp_pool(&pool_);
  void* fields = nullptr;
  const std::uint32_t id = frame.method();
  if (id == 0 || amqp_decode_method(id, &pool_, bytes(frame.payload.substr(4)), &fields) < 0) return nullptr;
  return fields;
}

// --- out ---

void Connection::method(std::uint16_t channel, amqp_method_number_t id, const void* fields) {
  // Names are at most 255 bytes each and our tables are small; the login's properties are the longest.
  std::array<char, 16384> buffer;
  const int size = amqp_encode_method(id, const_cast<void*>(fields), {buffer.size(), buffer.data()});
  if (size < 0) return;  // cannot happen: see above
  put8(out_, AMQP_FRAME_METHOD);
  put16(out_, channel);
  put32(out_, static_cast<std::uint32_t>(size) + 4);
  put32(out_, id);
  out_.append(buffer.data(), static_cast<std::size_t>(size));
  put8(out_, AMQP_FRAME_END);
}

void Connection::frame(std::uint8_t type, std::uint16_t channel, std::string_view payload) {
  put8(out_, type);
  put16(out_, channel);
  put32(out_, static_cast<std::uint32_t>(payload.size()));
  out_.append(payload);
  put8(out_, AMQP_FRAME_END);
}

Result<void> Connection::flush() {
  while (unsent() > 0) {
    const auto n = wire_->write(out_.data() + sent_, unsent());
    if (!n) return tl::unexpected(n.error());
    if (*n == 0) break;
    sent_ += *n;
    written_ += *n;
    last_out_ = clock_.boot();
  }
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  } else if (sent_ > kReadAtOnce) {  // data that a slow socket leaves must not pile up at the front
    out_.erase(0, sent_);
    sent_ = 0;
  }
  return {};
}

// --- time ---

Result<void> Connection::tick() {
  // If data is unsent, the socket is full: bytes that leave count as a heartbeat.
  if (heartbeat_.count() == 0 || unsent() > 0 || clock_.boot() - last_out_ < heartbeat_ / 2) return {};
  frame(AMQP_FRAME_HEARTBEAT, 0, {});
  return flush();
}

BootMs Connection::wake_at() const {
  if (heartbeat_.count() == 0) return clock_.boot() + std::chrono::seconds{10};
  const auto check = last_in_ + 2 * heartbeat_ + Ms{1};
  return unsent() > 0 ? check : std::min(check, last_out_ + heartbeat_ / 2);
}

void Connection::sleep(Waker& waker, BootMs until) {
  const auto events = static_cast<short>(unsent() > 0 ? POLLIN | POLLOUT : POLLIN);
  waker.sleep(wire_->fd(), events, std::min(until, wake_at()));
}

// --- calls ---

Result<Frame> Connection::await(Waker& waker, BootMs deadline) {
  Frame frame;
  for (;;) {
    auto got = next(frame);
    if (!got) return tl::unexpected(got.error());
    if (*got) return frame;
    if (auto done = flush(); !done) return tl::unexpected(done.error());
    auto more = fill();
    if (!more) return tl::unexpected(more.error());
    if (*more) continue;
    if (auto done = tick(); !done) return tl::unexpected(done.error());
    if (waker.stopping()) return transient("stopping");
    if (waker.now() >= deadline) return transient("no answer from the broker");
    sleep(waker, deadline);
  }
}

Closing Connection::closed_by_peer(const Frame& frame) {
  closing_ = {};
  const bool channel = frame.method() == AMQP_CHANNEL_CLOSE_METHOD;
  const auto read = [&](const auto* m) {
    if (m == nullptr) return;
    const std::uint32_t ours = (static_cast<std::uint32_t>(m->class_id) << 16) | m->method_id;
    closing_ = {m->reply_code, std::string(view(m->reply_text)), ours, !channel};
  };
  if (channel) {
    read(decode<amqp_channel_close_t>(frame));
  } else {
    read(decode<amqp_connection_close_t>(frame));
  }
  const amqp_connection_close_ok_t ok{};  // no fields, as the other one
  method(channel ? frame.channel : std::uint16_t{0},
         channel ? AMQP_CHANNEL_CLOSE_OK_METHOD : AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
  (void)flush();  // the turns of a caller that writes nothing more would leave the answer here
  return closing_;
}

Result<const void*> Connection::call(amqp_method_number_t id, const void* fields, Waker& waker,
                                     BootMs deadline, const Others& others, amqp_method_number_t answer) {
  if (answer == 0) answer = id + 1;
  const std::uint16_t channel = (id >> 16) == 10 ? 0 : kChannel;
  closing_ = {};
  method(channel, id, fields);
  for (;;) {
    auto frame = await(waker, deadline);
    if (!frame) return tl::unexpected(frame.error());
    const std::uint32_t got = frame->method();
    if (got == answer && frame->channel == channel) return decode(*frame);
    if (got == AMQP_CONNECTION_CLOSE_METHOD ||
        (got == AMQP_CHANNEL_CLOSE_METHOD && frame->channel == kChannel)) {
      return tl::unexpected(error_of(closed_by_peer(*frame)));
    }
    others(*frame);
  }
}

void Connection::close(BootMs deadline) {
  amqp_connection_close_t fields{};
  fields.reply_code = AMQP_REPLY_SUCCESS;
  fields.reply_text = bytes("done");
  Waker no_wake(clock_);
  (void)call(AMQP_CONNECTION_CLOSE_METHOD, &fields, no_wake, deadline, kIgnored);
}

// --- login ---

namespace {

amqp_table_entry_t yes_entry(const char* name) {
  amqp_table_entry_t entry{};
  entry.key = amqp_cstring_bytes(name);
  entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
  entry.value.value.boolean = 1;
  return entry;
}

std::string server_property(const amqp_connection_start_t* start, std::string_view name) {
  if (start == nullptr) return {};
  const amqp_table_t& properties = start->server_properties;
  for (int i = 0; i < properties.num_entries; ++i) {
    const amqp_table_entry_t& entry = properties.entries[i];
    if (view(entry.key) == name && entry.value.kind == AMQP_FIELD_KIND_UTF8)
      return std::string(view(entry.value.value.bytes));
  }
  return {};
}

}  // namespace

Result<void> Connection::login(const Url& url, const std::string& name, Waker& waker, BootMs deadline) {
  out_.append("AMQP\0\0\x09\x01", 8);
  const auto wait_for = [&](std::uint32_t wanted) -> Result<const void*> {
    auto frame = await(waker, deadline);
    if (!frame) return tl::unexpected(frame.error());
    if (frame->method() == wanted) return decode(*frame);
    if (frame->method() != AMQP_CONNECTION_CLOSE_METHOD)
      return transient("an unexpected answer to the login");
    return tl::unexpected(login_error_of(closed_by_peer(*frame), url));
  };
  auto start = wait_for(AMQP_CONNECTION_START_METHOD);
  if (!start) return tl::unexpected(start.error());
  const auto* hello = static_cast<const amqp_connection_start_t*>(*start);
  cluster_ = server_property(hello, "cluster_name");
  const std::string version = server_property(hello, "version");  // "4.3.1"
  std::from_chars(version.data(), version.data() + version.size(), major_version_);

  // Without these the broker reports neither a deleted queue nor an alarm (trap 8 in tests/guarantees.md).
  std::array capabilities{yes_entry("consumer_cancel_notify"),
                          yes_entry("connection.blocked"),
                          yes_entry("basic.nack"),
                          yes_entry("publisher_confirms"),
                          yes_entry("authentication_failure_close"),
                          yes_entry("per_consumer_qos")};
  amqp_table_entry_t capability_entry{};
  capability_entry.key = amqp_cstring_bytes("capabilities");
  capability_entry.value.kind = AMQP_FIELD_KIND_TABLE;
  capability_entry.value.value.table = {static_cast<int>(capabilities.size()), capabilities.data()};
  std::array properties{text_entry("product", "Rung"), text_entry("platform", "C++"),
                        text_entry("connection_name", name), capability_entry};
  const std::string user = url.user.empty() && url.password.empty() ? "guest" : url.user;
  const std::string password = url.user.empty() && url.password.empty() ? "guest" : url.password;
  const std::string response = std::string(1, '\0') + user + std::string(1, '\0') + password;
  amqp_connection_start_ok_t start_ok{};
  start_ok.client_properties = {static_cast<int>(properties.size()), properties.data()};
  start_ok.mechanism = amqp_cstring_bytes("PLAIN");
  start_ok.response = bytes(response);
  start_ok.locale = amqp_cstring_bytes("en_US");
  method(0, AMQP_CONNECTION_START_OK_METHOD, &start_ok);

  auto asked = wait_for(AMQP_CONNECTION_TUNE_METHOD);
  if (!asked) return tl::unexpected(asked.error());
  if (auto done = tune(*asked); !done) return done;

  amqp_connection_open_t open{};
  const std::string vhost = url.vhost();
  open.virtual_host = bytes(vhost);
  auto opened = call(AMQP_CONNECTION_OPEN_METHOD, &open, waker, deadline, kIgnored);
  if (!opened) return tl::unexpected(closing_.code != 0 ? login_error_of(closing_, url) : opened.error());
  return {};
}

Result<void> Connection::tune(const void* fields) {
  const auto* asked = static_cast<const amqp_connection_tune_t*>(fields);
  if (asked == nullptr) return transient("an unexpected answer to the login");
  frame_max_ =
      asked->frame_max == 0 ? kFrameMax : std::min(kFrameMax, static_cast<std::uint32_t>(asked->frame_max));
  auto seconds = static_cast<std::uint16_t>(std::chrono::ceil<std::chrono::seconds>(heartbeat_).count());
  if (asked->heartbeat != 0 && (seconds == 0 || asked->heartbeat < seconds)) seconds = asked->heartbeat;
  heartbeat_ = std::chrono::seconds{seconds};
  amqp_connection_tune_ok_t ok{};
  ok.channel_max = 1;
  ok.frame_max = static_cast<int>(frame_max_);
  ok.heartbeat = seconds;
  method(0, AMQP_CONNECTION_TUNE_OK_METHOD, &ok);
  return {};
}

}  // namespace rung::rabbit
