#include "src/net/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace rung::net {
namespace {

constexpr int kLookAgainMs = 1000;
constexpr curl_off_t kMostRetryAfterS = 24 * 60 * 60;

std::string shown_size(std::size_t bytes) {
  constexpr std::size_t kKb = 1024, kMb = kKb * kKb;
  return bytes % kMb == 0 ? std::to_string(bytes / kMb) + " MB" : std::to_string(bytes / kKb) + " KB";
}

// Not a timeout, which has taken long already.
bool may_pass(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
         code == CURLE_SEND_ERROR || code == CURLE_PARTIAL_FILE;
}

}  // namespace

struct HttpClient::Impl {
  explicit Impl(HttpClientOptions o) : options(std::move(o)) {
    // From any thread, any number of times (libcurl 7.84 and later).
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw std::bad_alloc();
    easy = curl_easy_init();
    multi = curl_multi_init();
    if (easy == nullptr || multi == nullptr) throw std::bad_alloc();
    const auto set = [this](CURLoption option, auto value) {
      if (const CURLcode code = curl_easy_setopt(easy, option, value); code != CURLE_OK)
        throw std::runtime_error(std::string("libcurl: ") + curl_easy_strerror(code));
    };
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_PROXY, "");       // ignore the environment
    set(CURLOPT_PATH_AS_IS, 1L);  // a queue may be called ".."
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    if (!options.user.empty()) {
      set(CURLOPT_USERNAME, options.user.c_str());
      set(CURLOPT_PASSWORD, options.password.c_str());
    }
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connecting.count()));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>((options.connecting + options.answering).count()));
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!options.ca.empty()) {
      set(CURLOPT_CAINFO, options.ca.c_str());
      // The system's, else they would be valid, too. A TLS library that has no folder of them says so.
      curl_easy_setopt(easy, CURLOPT_CAPATH, static_cast<const char*>(nullptr));
    }
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);  // people replace the file
    if (!options.verify) {
      set(CURLOPT_SSL_VERIFYPEER, 0L);
      set(CURLOPT_SSL_VERIFYHOST, 0L);
    }
    set(CURLOPT_ERRORBUFFER, static_cast<char*>(detail));
    set(CURLOPT_WRITEFUNCTION, &Impl::take_body);
    set(CURLOPT_HEADERFUNCTION, &Impl::take_header);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_QUICK_EXIT, 1L);  // an interrupted call does not wait for a name server
    for (const auto& [name, value] : options.headers)
      add(headers, value.empty() ? name + ";" : name + ": " + value);  // ";": libcurl's way to say empty
    for (const curl_slist* line = headers; line != nullptr; line = line->next) add(body_headers, line->data);
    add(body_headers, "Content-Type: " + options.content_type);
    add(body_headers, "Expect:");  // no round trip before a large body
  }
  ~Impl() {
    curl_slist_free_all(body_headers);
    curl_slist_free_all(headers);
    curl_multi_cleanup(multi);
    curl_easy_cleanup(easy);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // libcurl's callbacks. A result that is not `size` ends the call.
  static std::size_t take_header(const char*, std::size_t, std::size_t size, void* self) {
    return static_cast<Impl*>(self)->fits(size) ? size : 0;
  }
  static std::size_t take_body(const char* from, std::size_t, std::size_t size, void* self) {
    auto& impl = *static_cast<Impl*>(self);
    if (!impl.fits(size)) return 0;
    impl.answer.append(from, size);
    return size;
  }
  bool fits(std::size_t more) {
    received += more;
    return received <= options.max_answer;
  }

  static void add(curl_slist*& list, const std::string& line) {
    curl_slist* const longer = curl_slist_append(list, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    list = longer;
  }

  // Uses the multi interface: curl_multi_wakeup() is the only call allowed from another thread.
  CURLcode perform() {
    CURLcode code = CURLE_ABORTED_BY_CALLBACK;
    curl_multi_add_handle(multi, easy);
    for (int running = 1; running > 0 && !interrupted;) {
      if (curl_multi_perform(multi, &running) != CURLM_OK) break;
      if (running > 0) curl_multi_poll(multi, nullptr, 0, kLookAgainMs, nullptr);
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg == CURLMSG_DONE) code = message->data.result;
    }
    curl_multi_remove_handle(multi, easy);
    return code;
  }

  std::string what_failed(CURLcode code) const {
    if (received > options.max_answer) return "answers with more than " + shown_size(options.max_answer);
    curl_off_t connected_after = 0;  // us; 0 = never
    curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected_after);
    const bool timed_out = code == CURLE_OPERATION_TIMEDOUT;
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
        (timed_out && connected_after == 0))
      return "is not reachable";
    if (timed_out || interrupted) return "does not answer in time";
    return std::string("cannot be used: ") + (detail[0] != '\0' ? detail : curl_easy_strerror(code));
  }

  const HttpClientOptions options;
  CURL* easy = nullptr;
  CURLM* multi = nullptr;
  curl_slist* headers = nullptr;       // of a request without a body
  curl_slist* body_headers = nullptr;  // of one with a body
  std::string answer;                  // the body of the current call
  std::size_t received = 0;            // bytes of headers and body of the current call
  char detail[CURL_ERROR_SIZE] = {};
  std::atomic<bool> interrupted{false};
};

HttpClient::HttpClient(HttpClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpClient::~HttpClient() = default;

HttpReply HttpClient::send(const char* method, const std::string& path, const std::string& body) {
  HttpReply reply;
  CURL* const easy = impl_->easy;
  const std::string url = impl_->options.base + path;
  impl_->detail[0] = '\0';
  impl_->answer.clear();
  impl_->received = 0;
  // Else it would keep the URL of the call before.
  if (const CURLcode code = curl_easy_setopt(easy, CURLOPT_URL, url.c_str()); code != CURLE_OK) {
    reply.error = impl_->what_failed(code);
    return reply;
  }
  curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
  if (!body.empty()) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
  }
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, body.empty() ? impl_->headers : impl_->body_headers);
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
  const CURLcode code = impl_->perform();
  curl_off_t us = 0;
  curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME_T, &us);
  reply.took = Ms{us / 1000};
  if (code != CURLE_OK) {
    reply.error = impl_->what_failed(code);
    reply.may_pass = may_pass(code);
    impl_->answer = {};
    return reply;
  }
  reply.body = std::exchange(impl_->answer, {});
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  reply.status = static_cast<int>(status);
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
  reply.retry_after = std::chrono::seconds{std::clamp<curl_off_t>(seconds, 0, kMostRetryAfterS)};
  return reply;
}

void HttpClient::interrupt() {
  impl_->interrupted = true;
  curl_multi_wakeup(impl_->multi);
}

}  // namespace rung::net
