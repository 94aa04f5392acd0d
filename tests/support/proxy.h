// A TCP proxy that hurts what goes through it: cuts, stalls, refuses. Stand it between the code under test
// and a server.
//
//   TcpProxy proxy(url->host, url->port);
//   options.url = with_port(options.url, proxy.port());
//   proxy.cut();        // both sides get a RST
//   proxy.stall();      // nothing is read any more: senders fill their buffers, nobody is told
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
  // Throws std::runtime_error where it cannot listen.
  TcpProxy(std::string host, int port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const { return port_; }
  std::size_t connections() const;                    // open now
  std::size_t accepted() const { return accepted_; }  // ever

  void cut();                             // RST to both sides of every connection; new ones are taken
  void refuse(bool yes = true);           // new connections get a RST at once (those open stay)
  void stall(bool yes = true);            // both directions
  void stall_to_server(bool yes = true);  // what the client sends stays where it is; answers go on
  void half_close();  // forgets the server's side: the client sends into the void and hears nothing
  void cut_after(std::uint64_t bytes);  // the next connection that has sent so many to the server is cut
  // The next connection that sends `first` and after it `then` hears nothing from there on; what it sent
  // arrives.
  void deafen(std::string first, std::string then);
  bool deafened() const;  // one was

 private:
  struct Pair;
  void run();
  void accept_one();
  bool move(Pair& pair);
  void listen_to(Pair& pair);

  const std::string host_;
  const int server_port_;
  int listener_ = -1, wake_ = -1, port_ = 0;
  std::atomic<std::size_t> accepted_{0};
  std::atomic<bool> refuse_{false}, stall_{false}, stall_to_server_{false}, stop_{false};
  std::atomic<std::uint64_t> cut_after_{0};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Pair>> pairs_;  // guarded by mutex_
  std::string deafen_first_, deafen_then_;    // guarded by mutex_; empty: nobody
  bool deafened_ = false;                     // guarded by mutex_
  std::thread thread_;
};

// `url` with another port (and host 127.0.0.1).
std::string with_port(std::string_view url, int port);

}  // namespace rung::test
