// What a connection says, request by request. The head is read as a whole, bounded, held against the grammar
// and taken apart here; so is the framing of the body. The library is handed a request line and the body's
// bytes and nothing else: what two readers take for different things is how requests are smuggled, and
// headers that it would act upon (Range, Accept-Encoding) are no business of ours. What a request says has
// one deadline. What is written leaves in one. Thread: one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/result.h"
#include "src/core/time.h"
#include "src/http/channel.h"
#include "src/http/message.h"

namespace rung::http {

// A request's first lines, as they came. Header values are without the blanks around them.
struct RequestHead {
  std::string method, target, version;
  Pairs headers;           // names in lower case
  bool chunked = false;    // Transfer-Encoding, whatever it says
  std::size_t length = 0;  // Content-Length

  const std::string* find(std::string_view name) const;  // in lower case; nullptr: not there
  std::string get(std::string_view name) const;          // "" where it is not there
  bool has_body() const { return chunked || length > 0; }
};

// What stands behind the ? of a target: NAME=VALUE, split at the first =, percent-decoded, a + is a blank.
Result<Pairs> parse_query(std::string_view text);
// Percent-decoded where that can be done; what is left is no path of ours. With an encoded slash nothing is
// decoded: it is part of a segment, and a proxy that compares paths sees one segment.
std::string decode_path(std::string_view text);

// `text`: all lines, each with its CRLF, without the empty one. An error is a sentence for a 400.
Result<RequestHead> parse_head(std::string_view text);

class Wire {
 public:
  explicit Wire(Channel& channel) : channel_(channel) {}

  enum class Head { there, ended, late, too_large, wrong };
  // Waits for the next request's head. Of the body at most `most_body` bytes are taken.
  Head read_head(BootMs deadline, std::size_t most_body);
  const RequestHead& head() const { return head_; }
  const std::string& why() const { return why_; }  // it is wrong

  // For the library: "METHOD / HTTP/1.1" and an empty line, then the body's bytes, then 0. -1: an error, the
  // flags below say which.
  long read(char* to, std::size_t size);
  void write(std::string_view bytes) { out_.append(bytes); }
  bool flush(BootMs deadline);
  // Ends it so that the other side reads the answer and not a reset, which what it still sends would cause.
  void linger(BootMs deadline);

  bool has_input() const { return in_.size() > at_; }
  // Of the request at hand:
  bool close = false;                                    // the connection ends with its answer
  bool too_large = false, late = false, broken = false;  // why a read failed

 private:
  enum class Part { data, chunk, chunk_end, trailer, end };

  long fill();
  bool more();  // something to take stands in in_
  bool begin_body();
  bool next_line(std::string& line);
  bool next_chunk();
  bool after_chunk();

  Channel& channel_;
  BootMs deadline_{0};
  std::string in_, out_;
  std::size_t at_ = 0;  // of in_, how much has been taken
  RequestHead head_;
  std::string why_, line_;  // line_: what the library reads first
  std::size_t line_at_ = 0;
  bool begun_ = false;  // the body was asked for
  Part part_ = Part::end;
  std::size_t left_ = 0;   // of the body, or of the chunk at hand
  std::size_t taken_ = 0;  // of the body so far, most_body_ at most
  std::size_t most_body_ = 0;
  int trailers_ = 0;
};

}  // namespace rung::http
