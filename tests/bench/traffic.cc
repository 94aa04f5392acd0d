// The benchmarks' publisher and consumer: uses little CPU, so that the servers get it. Prints one line of
// JSON. Writes frames by hand, a batch per system call; reads with rabbitmq-c.
//
//   bench_traffic publish --url URL --exchange E --key K --count N [--rate R] [--delay MS | --due EPOCH_MS]
//                         --as WAY
//   bench_traffic consume --url URL --queue Q --count N [--deliveries K]
//
// A message is persistent, its message-id "m-<number>", its header bench-due the time when a consumer should
// get it (us since the epoch, this machine's clock). The consumer rejects each until its K-th delivery,
// which it acks, and ends when N messages have reached it.
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using std::chrono::microseconds;

struct Options {
  std::string url, exchange, key, queue;
  std::string as = "nothing";
  std::int64_t count = 0, rate = 0, delay_ms = 0, due_ms = 0;
  static constexpr int bytes = 512, window = 5000, prefetch = 1000;
  int deliveries = 1;
};

[[noreturn]] void die(const std::string& what) {
  std::cerr << "bench_traffic: " << what << "\n";
  std::exit(1);
}

std::int64_t now_us() {
  return std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

amqp_bytes_t bytes_of(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

class Connection {
 public:
  explicit Connection(std::string url) : state_(amqp_new_connection()) {
    amqp_connection_info info{};
    if (amqp_parse_url(url.data(), &info) != AMQP_STATUS_OK) die("no AMQP URL: " + url);
    amqp_socket_t* socket = amqp_tcp_socket_new(state_);
    if (amqp_socket_open(socket, info.host, info.port) != AMQP_STATUS_OK) die("the broker is not there");
    constexpr int kFrame = 131072;
    const auto in =
        amqp_login(state_, info.vhost, 0, kFrame, 0, AMQP_SASL_METHOD_PLAIN, info.user, info.password);
    if (in.reply_type != AMQP_RESPONSE_NORMAL) die("the broker does not let us in");
    amqp_channel_open(state_, 1);
    check("channel.open");
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    amqp_connection_close(state_, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(state_);
  }

  amqp_connection_state_t get() const { return state_; }
  void check(const char* what) const {
    if (amqp_get_rpc_reply(state_).reply_type != AMQP_RESPONSE_NORMAL)
      die(std::string(what) + " was refused");
  }
  bool read_ahead() const { return amqp_frames_enqueued(state_) != 0 || amqp_data_in_buffer(state_) != 0; }
  bool readable(int timeout_ms) const {
    pollfd one{amqp_get_sockfd(state_), POLLIN, 0};
    return read_ahead() || poll(&one, 1, timeout_ms) > 0;
  }

 private:
  amqp_connection_state_t state_;
};

// One publish as bytes: a method, a header and a body frame.
class Frames {
 public:
  explicit Frames(const Options& options)
      : options_(options), body_(static_cast<std::size_t>(options.bytes), 'x') {}

  void add(std::int64_t number, std::int64_t due_us) {
    begin(AMQP_FRAME_METHOD);
    put(AMQP_BASIC_PUBLISH_METHOD, 4);
    put(0, 2);
    put_short(options_.exchange);
    put_short(options_.key);
    put(0, 1);
    end();
    begin(AMQP_FRAME_HEADER);
    put(AMQP_BASIC_CLASS, 2);
    put(0, 2);
    put(body_.size(), 8);
    properties(number, due_us);
    end();
    begin(AMQP_FRAME_BODY);
    out_ += body_;
    end();
  }
  bool empty() const { return out_.empty(); }
  void write(int fd) {
    for (std::size_t done = 0; done < out_.size();) {
      const ssize_t n = send(fd, out_.data() + done, out_.size() - done, MSG_NOSIGNAL);
      if (n > 0) {
        done += static_cast<std::size_t>(n);
      } else if (errno == EAGAIN) {
        pollfd one{fd, POLLOUT, 0};
        poll(&one, 1, 1000);
      } else {
        die(std::string("write: ") + std::strerror(errno));
      }
    }
    out_.clear();
  }

 private:
  void begin(int type) {
    put(static_cast<std::uint64_t>(type), 1);
    put(1, 2);  // the channel
    size_at_ = out_.size();
    put(0, 4);
  }
  void end() {
    const std::size_t size = out_.size() - size_at_ - 4;
    for (std::size_t i = 0; i < 4; ++i)
      out_[size_at_ + i] = static_cast<char>((size >> (8 * (3 - i))) & 0xFFU);
    put(AMQP_FRAME_END, 1);
  }
  void put(std::uint64_t value, std::size_t width) {
    for (std::size_t i = width; i-- > 0;) out_ += static_cast<char>((value >> (8 * i)) & 0xFFU);
  }
  void put_short(std::string_view text) {
    put(text.size(), 1);
    out_ += text;
  }
  void properties(std::int64_t number, std::int64_t due_us) {
    const std::string id = "m-" + std::to_string(number);
    const std::int64_t wait_ms = std::max<std::int64_t>(1, (due_us - now_us() + 999) / 1000);
    const std::string expiration = std::to_string(wait_ms);
    std::array<amqp_table_entry_t, 2> headers{};
    int count = 0;
    const auto header = [&](std::string_view name, std::int64_t value) {
      amqp_table_entry_t& entry = headers[static_cast<std::size_t>(count++)];
      entry.key = bytes_of(name);
      entry.value.kind = AMQP_FIELD_KIND_I64;
      entry.value.value.i64 = value;
    };
    header("bench-due", due_us);
    if (options_.as == "x-delay") header("x-delay", wait_ms);
    if (options_.as == "not-before") header("retry-not-before", due_us / 1000);
    amqp_basic_properties_t p{};
    p._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_HEADERS_FLAG;
    p.delivery_mode = 2;
    p.message_id = bytes_of(id);
    p.headers = {count, headers.data()};
    if (options_.as == "expiration") {
      p._flags |= AMQP_BASIC_EXPIRATION_FLAG;
      p.expiration = bytes_of(expiration);
    }
    std::array<char, 512> room{};
    const int used = amqp_encode_properties(AMQP_BASIC_CLASS, &p, {room.size(), room.data()});
    if (used < 0) die("properties do not fit");
    out_.append(room.data(), static_cast<std::size_t>(used));
  }

  const Options& options_;
  const std::string body_;
  std::string out_;
  std::size_t size_at_ = 0;
};

class Confirms {
 public:
  Confirms(Connection& broker, std::int64_t count)
      : broker_(broker), confirmed_(static_cast<std::size_t>(count) + 1, false) {}
  std::int64_t count() const { return count_; }
  // Takes what is there; waits `timeout_ms` for the first.
  void take(int timeout_ms) {
    while (broker_.readable(timeout_ms)) {
      timeout_ms = 0;
      amqp_frame_t frame{};
      if (amqp_simple_wait_frame(broker_.get(), &frame) != AMQP_STATUS_OK) die("the connection broke");
      if (frame.frame_type != AMQP_FRAME_METHOD) continue;
      if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD) die("the broker did not confirm a publish");
      const auto* ack = static_cast<amqp_basic_ack_t*>(frame.payload.method.decoded);
      const auto tag = static_cast<std::size_t>(ack->delivery_tag);
      for (std::size_t i = ack->multiple != 0 ? first_ : tag; i <= tag; ++i) {
        count_ += confirmed_[i] ? 0 : 1;
        confirmed_[i] = true;
      }
      while (first_ < confirmed_.size() && confirmed_[first_]) ++first_;
      amqp_maybe_release_buffers(broker_.get());
    }
  }

 private:
  Connection& broker_;
  std::vector<bool> confirmed_;  // by delivery tag
  std::size_t first_ = 1;        // all before are
  std::int64_t count_ = 0;
};

nlohmann::json publish(const Options& options) {
  constexpr std::int64_t kBatch = 64;
  Connection broker(options.url);
  amqp_confirm_select(broker.get(), 1);
  broker.check("confirm.select");
  Frames frames(options);
  Confirms confirms(broker, options.count);
  const std::int64_t began = now_us();
  std::int64_t sent = 0;
  while (sent < options.count) {
    std::int64_t most = std::min(options.count - sent, kBatch);
    if (options.rate > 0) {
      const std::int64_t by_now = (now_us() - began) * options.rate / 1'000'000 + 1;
      most = std::min(most, by_now - sent);
      if (most <= 0) {
        confirms.take(0);
        const std::int64_t next = began + sent * 1'000'000 / options.rate;
        std::this_thread::sleep_for(microseconds(std::max<std::int64_t>(next - now_us(), 0)));
        continue;
      }
    }
    most = std::min(most, options.window - (sent - confirms.count()));
    if (most <= 0) {
      confirms.take(1000);
      continue;
    }
    for (std::int64_t i = 0; i < most; ++i) {
      const std::int64_t due =
          options.due_ms > 0 ? options.due_ms * 1000 : now_us() + options.delay_ms * 1000;
      frames.add(sent++, due);
    }
    frames.write(amqp_get_sockfd(broker.get()));
    confirms.take(0);
  }
  while (confirms.count() < options.count) confirms.take(1000);
  return {
      {"messages", sent}, {"seconds", static_cast<double>(now_us() - began) / 1e6}, {"cpu", cpu_seconds()}};
}

std::int64_t due_of(const amqp_basic_properties_t& p) {
  for (int i = 0; i < p.headers.num_entries; ++i) {
    const amqp_table_entry_t& entry = p.headers.entries[i];
    const std::string_view name(static_cast<char*>(entry.key.bytes), entry.key.len);
    if (name == "bench-due") return entry.value.value.i64;
  }
  die("a message without bench-due");
}

// Acks and rejects, several in one frame if they get the same answer.
class Words {
 public:
  explicit Words(Connection& broker) : broker_(broker) {}
  void say(std::uint64_t tag, bool ack, std::uint64_t most) {
    if (count_ > 0 && ack != ack_) flush();
    tag_ = tag;
    ack_ = ack;
    if (++count_ >= most) flush();
  }
  void flush() {
    if (count_ == 0) return;
    const bool multiple = count_ > 1;
    const int status = ack_ ? amqp_basic_ack(broker_.get(), 1, tag_, multiple)
                            : amqp_basic_nack(broker_.get(), 1, tag_, multiple, false);
    if (status != AMQP_STATUS_OK) die("a word on a delivery did not go out");
    count_ = 0;
  }

 private:
  Connection& broker_;
  std::uint64_t tag_ = 0, count_ = 0;
  bool ack_ = true;
};

nlohmann::json consume(const Options& options) {
  Connection broker(options.url);
  amqp_basic_qos(broker.get(), 1, 0, static_cast<std::uint16_t>(options.prefetch), false);
  broker.check("basic.qos");
  amqp_basic_consume(broker.get(), 1, bytes_of(options.queue), amqp_empty_bytes, false, false, false,
                     amqp_empty_table);
  broker.check("basic.consume");
  std::cerr << "ready" << std::endl;
  std::vector<int> seen(static_cast<std::size_t>(options.count), 0);
  std::vector<std::int64_t> late;
  late.reserve(seen.size());
  Words words(broker);
  std::int64_t finished = 0, deliveries = 0, twice = 0, first = 0, last = 0;
  while (finished < options.count) {
    if (!broker.read_ahead() && !broker.readable(0)) words.flush();
    amqp_envelope_t envelope{};
    amqp_maybe_release_buffers(broker.get());
    if (amqp_consume_message(broker.get(), &envelope, nullptr, 0).reply_type != AMQP_RESPONSE_NORMAL)
      die("the connection broke");
    last = now_us();
    if (deliveries++ == 0) first = last;
    const amqp_basic_properties_t& p = envelope.message.properties;
    const std::string id(static_cast<char*>(p.message_id.bytes), p.message_id.len);
    const std::size_t number = std::stoul(id.substr(2));
    if (number >= seen.size()) die("a message of another run: " + id);
    const int times = ++seen[number];
    if (times > options.deliveries) ++twice;
    if (times == options.deliveries) {
      ++finished;
      late.push_back(last - due_of(p));
    }
    words.say(envelope.delivery_tag, times >= options.deliveries,
              static_cast<std::uint64_t>(options.prefetch / 8 + 1));
    amqp_destroy_envelope(&envelope);
  }
  words.flush();
  std::sort(late.begin(), late.end());
  const auto at = [&](double share) {
    const auto i = static_cast<std::size_t>(share * static_cast<double>(late.size() - 1));
    return static_cast<double>(late[i]) / 1000.0;
  };
  return {{"deliveries", deliveries}, {"twice", twice},      {"first_us", first},    {"last_us", last},
          {"p50_ms", at(0.5)},        {"p99_ms", at(0.99)},  {"p999_ms", at(0.999)}, {"max_ms", at(1)},
          {"min_ms", at(0)},          {"cpu", cpu_seconds()}};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"what the benches publish and consume with"};
  app.require_subcommand(1);
  CLI::App* publishes = app.add_subcommand("publish");
  CLI::App* consumes = app.add_subcommand("consume");
  for (CLI::App* each : {publishes, consumes}) {
    each->add_option("--url", options.url)->required();
    each->add_option("--count", options.count)->required();
  }
  publishes->add_option("--exchange", options.exchange);
  publishes->add_option("--key", options.key)->required();
  publishes->add_option("--rate", options.rate);
  publishes->add_option("--delay", options.delay_ms);
  publishes->add_option("--due", options.due_ms);
  publishes->add_option("--as", options.as)
      ->check(CLI::IsMember({"nothing", "x-delay", "not-before", "expiration"}));
  consumes->add_option("--queue", options.queue)->required();
  consumes->add_option("--deliveries", options.deliveries);
  CLI11_PARSE(app, argc, argv);
  std::cout << (publishes->parsed() ? publish(options) : consume(options)).dump() << "\n";
  return 0;
}
