// What a connection says, request by request, with what the library doesn't look after: the header is read as
// a whole, and bounded; so is the body, however it is announced; and all of it has one deadline. What is
// written leaves in one. Thread: one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/core/time.h"
#include "src/http/channel.h"

namespace rung::http {

class Wire {
 public:
  explicit Wire(Channel& channel) : channel_(channel) {}

  enum class Head { there, ended, late, too_large };
  // Waits for the next request's header. What is read afterwards is bounded by `most_body`.
  Head read_head(BootMs deadline, std::size_t most_body);
  // Bytes; -1: an error, the flags below say which; 0: there is no body.
  long read(char* to, std::size_t size);
  void write(std::string_view bytes) { out_.append(bytes); }
  bool flush(BootMs deadline);
  // Ends it so that the other side reads the answer and not a reset, which what it still sends would cause.
  void linger(BootMs deadline);

  bool has_input() const { return in_.size() > at_; }
  // Of the request at hand:
  bool close = false;                    // the connection ends with its answer
  bool too_large = false, late = false;  // why a read failed
  bool no_body = false;  // none is announced: the library would read on to the connection's end

 private:
  long fill();
  bool mask(std::size_t end);

  Channel& channel_;
  BootMs deadline_{0};
  std::string in_, out_;
  std::size_t at_ = 0;    // of in_, how much has been taken
  std::size_t left_ = 0;  // how much may be taken for this request
};

}  // namespace rung::http
