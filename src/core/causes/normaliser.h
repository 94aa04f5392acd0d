// The scanner behind normalise(): goes once over the text and takes one thing after another. Its parts:
// text.cc (what it has written), groups.cc (brackets, objects), quotes.cc (quotes, key=value), documents.cc
// (JSON, XML, HTML, logfmt), atoms.cc (words, names, paths), hosts.cc (addresses), people.cc (names of people
// and companies), codes.cc (which numbers stay).
//
// One class for all of them, with more members than most here: each part reads on from the same position,
// looks back at the words that others have written, and decides by what stood between. Apart, each would need
// all of it.
//
// Thread: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/core/causes/text.h"
#include "src/core/causes/words.h"

namespace rung::causes {

class Normaliser {
 public:
  // keeps_data: also the keys of JSON whose values vary.
  Normaliser(std::string_view text, std::string_view type, bool keeps_data);
  Text run();
  // Nothing is left but keys: what was omitted is all that there is.
  bool says_nothing(const Text& out) const { return dropped_ && (!spoken_ || out.words.empty()); }

 private:
  // A word that has been written.
  struct Past {
    Roles roles = 0;
    std::uint32_t at = 0, length = 0;  // in out_.words
  };
  // What stands between the last word and here.
  enum Gap : unsigned {
    kBlank = 1,
    kColon = 2,
    kEqual = 4,
    kOpen = 8,  // a bracket or a quote
    kMinus = 16,
    kComma = 32,
    kStop = 64,  // . ; newline
    kStar = 128,
    kOther = 256,
  };

  // text.cc
  void step();
  void take_high();
  void take_mark();
  bool take_operator();
  static unsigned gap_of(char mark);
  void word(std::string_view text, Roles roles, char joint = '\0');
  void name(std::string_view text, bool is_code = true);
  void code(std::string_view text);
  void keep_code(std::string_view written);
  void star();
  bool drop_trace_id();
  void take_back(std::size_t size);
  void append(std::string_view text, char joint);
  std::string_view past_word(std::size_t i) const {
    return {out_.words.data() + past_[i].at, past_[i].length};
  }
  bool past_is(std::size_t i, Roles roles) const { return (past_[i].roles & roles) != 0; }

  // groups.cc
  bool take_group();
  bool take_zone();
  bool take_source();
  bool take_list();
  bool take_pairs();
  void begin_object();
  bool in_object() const { return at_ < object_until_; }
  bool take_inspected();
  void take_bare_value(std::size_t from);
  static std::string words_of(std::string_view group);

  // quotes.cc
  bool take_quote();
  struct Quote {
    std::string_view open, close, other_close;
  };
  static const std::array<Quote, 9> kQuotes;
  std::size_t find_close(std::size_t kind, std::size_t from);
  void quoted(std::size_t from, std::size_t to, std::size_t next);
  void look_into(std::size_t from, std::size_t close, std::size_t next);
  bool named(std::string_view content, std::string_view after) const;
  bool take_value();
  std::size_t end_of_value(std::size_t from) const;

  // documents.cc
  bool key_of_json(std::string_view content, std::string_view after);
  void take_literal_of_json();
  bool take_data(Roles key, std::size_t begin);
  void drop_empty_key();
  bool take_page();
  bool take_element();
  std::size_t end_of_pair(std::size_t from);

  // atoms.cc
  bool take_atom();
  std::size_t end_of_atom(std::size_t from) const;
  bool take_url();
  bool take_path();
  std::size_t end_with_blanks(std::size_t end) const;
  bool take_relative_path(std::size_t end);
  bool take_blob();
  void segments(std::size_t end);
  void segment(std::string_view text, std::size_t end, char joint);
  void letters(std::string_view text, std::size_t end, char joint);
  bool belongs_to_number(std::string_view text, Roles roles, std::size_t end, bool joined) const;
  bool varies(std::string_view text, Roles roles, std::size_t end) const;
  void skip_version(std::size_t end);
  bool date_follows(std::size_t end) const;
  bool is_hex_pair(std::string_view text, std::size_t end) const;
  bool number_follows(std::size_t end) const;
  void mixed(std::string_view text);

  // hosts.cc
  bool take_hex_groups();
  bool take_announced(std::size_t end);
  bool take_attempt(std::size_t end);
  std::size_t end_of_digits(std::size_t from) const;
  std::size_t end_of_ratio(std::size_t end) const;
  bool take_constraint(std::size_t end);
  bool take_address(std::size_t end);
  bool take_mail(std::size_t end);
  bool is_host(std::string_view atom, std::size_t end) const;
  bool is_port(std::size_t colon, std::size_t least) const;

  // people.cc
  bool take_person_or_company();
  bool take_company();
  bool goes_on(std::size_t end) const;
  bool take_person();
  bool is_capital(std::size_t i) const;
  bool is_titled(std::size_t from, std::size_t to) const;

  // codes.cc
  bool is_code(std::string_view number, std::size_t end) const;
  bool is_status(std::size_t end) const;
  bool announces_code(std::string_view token) const;
  bool is_mail_status(std::size_t end) const;
  std::string_view after(std::size_t end) const;

  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  char before() const { return at_ > 0 ? text_[at_ - 1] : '\0'; }
  // Whether no token continues here.
  bool at_boundary() const;
  std::string_view rest() const { return text_.substr(at_); }
  std::size_t end_of_run(std::size_t from, std::string_view stops) const;

  const std::string_view text_;
  std::size_t at_ = 0;
  Text out_;
  std::array<Past, 3> past_;  // the last word first
  // Marks and blanks since the last word, and since the last *.
  unsigned gap_ = 0, since_star_ = 0;
  void mark(unsigned gap) {
    gap_ |= gap;
    since_star_ |= gap;
  }
  const bool keeps_data_;
  bool logfmt_ = false;                          // begins with key=value
  bool spoken_ = false, spoken_before_ = false;  // there are words besides keys; before the last word
  bool dropped_ = false;
  bool nested_ = false;  // reads what stands in brackets
  bool last_is_star_ = false;
  bool code_before_ = false;    // the last word is a code
  bool says_ = false;           // the key before here says what happened
  bool json_value_ = false;     // a value of JSON begins here
  int depth_ = 0, braces_ = 0;  // of brackets
  // Where quotes end that are looked into.
  std::array<std::size_t, 4> closes_{};
  std::size_t open_closes_ = 0;
  std::size_t object_until_ = 0;           // within an object that was printed
  std::size_t page_until_ = 0;             // where a page of HTML ends; 0: none has begun
  std::size_t path_until_ = 0;             // within an array that is a path of JSON
  std::array<std::size_t, 9> searched_{};  // of each kind of quote: no end before here
};

}  // namespace rung::causes
