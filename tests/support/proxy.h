// A TCP proxy that injects faults: cuts, stalls, refuses. Put it between the code under test and a server.
//
//   TcpProxy proxy(url->host, url->port);
//   options.urls[0].port = proxy.port();
//   proxy.cut();        // both sides get a RST
//   proxy.stall();      // reads nothing more: the senders' buffers fill up, without an error
//
// Thread: every method from any thread; one thread inside.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace rung::test {

class TcpProxy {
 public:
  // Throws std::runtime_error if it cannot listen.
  TcpProxy(std::string host, int port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const { return port_; }
  std::size_t connections() const;                    // open now
  std::size_t accepted() const { return accepted_; }  // ever

  void cut();                             // RST to both sides of every connection; new ones are accepted
  void refuse(bool yes = true);           // new connections get a RST at once (those open stay)
  void stall(bool yes = true);            // both directions
  void stall_to_server(bool yes = true);  // only what the client sends; answers still arrive
  void half_close();  // drops the server's side: the client's data is lost, and it receives nothing
  void cut_after(std::uint64_t bytes);  // cuts the next connection that has sent so many bytes to the server
  // Cuts every connection that has sent `text` with its login, now and from now on: a connection's name, for
  // example. "" = none.
  void cut_those_with(std::string text);
  // The next connection that sends `first` and later `then` receives nothing from then on; what it sent
  // arrives.
  void deafen(std::string first, std::string then);
  bool deafened() const;                              // whether that has happened
  std::size_t requests() const { return requests_; }  // ever: data of a client after data of its server

 private:
  struct Pair;
  void run();
  void accept_one();
  bool move(Pair& pair);
  void listen_to(Pair& pair);

  const std::string host_;
  const int server_port_;
  int listener_ = -1, wake_ = -1, port_ = 0;
  std::atomic<std::size_t> accepted_{0}, requests_{0};
  std::atomic<bool> refuse_{false}, stall_{false}, stall_to_server_{false}, stop_{false};
  std::atomic<std::uint64_t> cut_after_{0};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Pair>> pairs_;  // guarded by mutex_
  std::string deafen_first_, deafen_then_;    // guarded by mutex_; empty: no connection
  bool deafened_ = false;                     // guarded by mutex_
  std::string cut_those_with_;                // guarded by mutex_; "" = none
  std::thread thread_;
};

// `url` with another port (and host 127.0.0.1).
std::string with_port(std::string_view url, int port);

}  // namespace rung::test
