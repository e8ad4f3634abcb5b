#include "core/json_place.hpp"

#include "core/text.hpp"

#include <algorithm>
#include <unordered_map>

namespace stagger {
namespace {

/// Goes through a JSON text and keeps the pointer of the value that it is at.
class Scanner {
 public:
  Scanner(std::string_view text, std::span<const std::string> pointers) : text_(text) {
    for (const std::string& pointer : pointers)
      places_.try_emplace(pointer);
    for (const std::string& pointer : pointers)
      deepest_ = std::max(deepest_, depth_of(pointer));
  }

  std::vector<TextPlace> run(std::span<const std::string> pointers) {
    at_ = text_.size() - without_bom(text_).size();
    line_begin_ = at_;
    while (at_ < text_.size())
      step();
    std::vector<TextPlace> places;
    places.reserve(pointers.size());
    for (const std::string& pointer : pointers)
      places.push_back(places_.at(pointer));
    return places;
  }

 private:
  /// An array or object that is open.
  struct Open {
    bool array = false;
    std::int64_t index = 0;
    std::size_t pointer = 0;  ///< length of its own pointer
    bool key_next = false;    ///< of an object: the next string is a key
  };

  static std::size_t depth_of(const std::string& pointer) {
    std::size_t depth = 0;
    for (const char letter : pointer)
      depth += letter == '/' ? 1 : 0;
    return depth;
  }

  void step() {
    const char letter = text_[at_];
    switch (letter) {
      case '\n':
        ++line_;
        line_begin_ = ++at_;
        return;
      case ' ':
      case '\t':
      case '\r':
      case ':':
        ++at_;
        return;
      case ',':
        ++at_;
        next_item();
        return;
      case ']':
      case '}':
        ++at_;
        if (!open_.empty()) open_.pop_back();
        return;
      default:
        value_or_key(letter);
    }
  }

  void next_item() {
    if (open_.empty()) return;
    ++open_.back().index;
    open_.back().key_next = !open_.back().array;
  }

  void value_or_key(char letter) {
    if (!open_.empty() && open_.back().key_next) {
      const std::size_t begin = at_ + 1;
      skip_string();
      open_.back().key_next = false;
      pointer_.resize(open_.back().pointer);
      if (open_.size() <= deepest_) {
        pointer_ += '/';
        pointer_ += text_.substr(begin, at_ - begin - 1);
      }
      return;
    }
    if (!open_.empty() && open_.back().array) {
      pointer_.resize(open_.back().pointer);
      if (open_.size() <= deepest_) pointer_ += "/" + std::to_string(open_.back().index);
    }
    note();
    if (letter == '[' || letter == '{') {
      open_.push_back(
          {.array = letter == '[', .pointer = pointer_.size(), .key_next = letter == '{'});
      ++at_;
    } else if (letter == '"') {
      skip_string();
    } else {
      while (at_ < text_.size() &&
             std::string_view(",]} \t\r\n").find(text_[at_]) == std::string_view::npos)
        ++at_;
    }
  }

  void note() {
    if (open_.size() > deepest_) return;
    const auto found = places_.find(pointer_);
    if (found == places_.end() || found->second.line > 0) return;
    found->second = {line_, static_cast<std::int64_t>(at_ - line_begin_) + 1};
  }

  /// To behind the quote that ends it.
  void skip_string() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }

  std::string_view text_;
  std::unordered_map<std::string, TextPlace> places_;
  std::size_t deepest_ = 0;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  std::int64_t line_ = 1;
  std::string pointer_;
  std::vector<Open> open_;
};

}  // namespace

std::vector<TextPlace> json_places(std::string_view text, std::span<const std::string> pointers) {
  return Scanner(text, pointers).run(pointers);
}

}  // namespace stagger
