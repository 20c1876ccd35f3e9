// SPDX-License-Identifier: BSD-2-Clause
// Reads what `verbena status --json` prints, so that tests need no JSON library.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::testing {

// A JSON value. A missing member is null, so a path can be followed without checks:
// status()["devices"].items().
class Json {
 public:
  using Member = std::pair<std::string, Json>;

  // Returns null if the text is not JSON.
  static Json parse(std::string_view text);

  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_true() const { return kind_ == Kind::kTrue; }
  // A string's text, or a number as it was written.
  const std::string& text() const { return text_; }
  std::uint64_t number() const { return std::strtoull(text_.c_str(), nullptr, 10); }
  const std::vector<Json>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }

  const Json& operator[](std::string_view name) const {
    static const Json nothing;
    for (const auto& [member, value] : members_) {
      if (member == name) return value;
    }
    return nothing;
  }

 private:
  enum class Kind { kNull, kTrue, kFalse, kNumber, kString, kArray, kObject };
  class Reader;

  Kind kind_ = Kind::kNull;
  std::string text_;
  std::vector<Json> items_;
  std::vector<Member> members_;
};

class Json::Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool read_all(Json& value) { return read(value, 0) && (skip_blanks(), at_ == text_.size()); }

 private:
  static constexpr int kDeepest = 64;

  void skip_blanks() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string::npos) {
      ++at_;
    }
  }

  bool take(std::string_view word) {
    skip_blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool read(Json& value, int depth) {
    if (depth == kDeepest) return false;
    if (take("{")) return read_members(value, depth);
    if (take("[")) return read_items(value, depth);
    if (take("\"")) return value.kind_ = Kind::kString, read_string(value.text_);
    if (take("null")) return true;
    if (take("true")) return value.kind_ = Kind::kTrue, true;
    if (take("false")) return value.kind_ = Kind::kFalse, true;
    return read_number(value);
  }

  bool read_members(Json& value, int depth) {
    value.kind_ = Kind::kObject;
    if (take("}")) return true;
    do {
      Member member;
      if (!take("\"") || !read_string(member.first) || !take(":")) return false;
      if (!read(member.second, depth + 1)) return false;
      value.members_.push_back(std::move(member));
    } while (take(","));
    return take("}");
  }

  bool read_items(Json& value, int depth) {
    value.kind_ = Kind::kArray;
    if (take("]")) return true;
    do {
      Json item;
      if (!read(item, depth + 1)) return false;
      value.items_.push_back(std::move(item));
    } while (take(","));
    return take("]");
  }

  bool read_number(Json& value) {
    value.kind_ = Kind::kNumber;
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           std::string_view("+-.eE0123456789").find(text_[at_]) != std::string::npos) {
      ++at_;
    }
    value.text_ = text_.substr(begin, at_ - begin);
    return at_ != begin;
  }

  bool read_string(std::string& out) {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (c != '\\') {
        out += c;
      } else if (!read_escaped(out)) {
        return false;
      }
    }
    return false;
  }

  bool read_escaped(std::string& out) {
    if (at_ == text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    const std::size_t place = kNames.find(c);
    if (place != std::string_view::npos) return out += kMeant[place], true;
    if (c != 'u' || at_ + 4 > text_.size()) return false;
    add_utf8(out, std::strtoul(std::string(text_.substr(at_, 4)).c_str(), nullptr, 16));
    at_ += 4;
    return true;
  }

  // Appends a character below U+10000. Verbena does not escape the others.
  static void add_utf8(std::string& out, unsigned long code) {
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6);
      out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      out += static_cast<char>(0xe0 | code >> 12);
      out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      out += static_cast<char>(0x80 | (code & 0x3f));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

inline Json Json::parse(std::string_view text) {
  Json value;
  return Reader(text).read_all(value) ? value : Json();
}

}  // namespace verbena::testing
