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
      ranges_.try_emplace(pointer);
    for (const std::string& pointer : pointers)
      deepest_ = std::max(deepest_, depth_of(pointer));
  }

  std::vector<TextRange> run(std::span<const std::string> pointers) {
    at_ = text_.size() - without_bom(text_).size();
    counted_ = at_;
    while (at_ < text_.size())
      step();
    std::vector<TextRange> ranges;
    ranges.reserve(pointers.size());
    for (const std::string& pointer : pointers)
      ranges.push_back(ranges_.at(pointer));
    return ranges;
  }

 private:
  /// An array or object that is open.
  struct Open {
    bool array = false;
    std::int64_t index = 0;
    std::size_t pointer = 0;     ///< length of its own pointer
    bool key_next = false;       ///< of an object: the next string is a key
    TextRange* range = nullptr;  ///< its own, if that is asked for
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
        counted_ = ++at_;
        column_ = 1;
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
        if (open_.empty()) return;
        end(open_.back().range);
        open_.pop_back();
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
    TextRange* const range = begin();
    if (letter == '[' || letter == '{') {
      open_.push_back({.array = letter == '[',
                       .pointer = pointer_.size(),
                       .key_next = letter == '{',
                       .range = range});
      ++at_;
      return;
    }
    if (letter == '"') {
      skip_string();
    } else {
      while (at_ < text_.size() &&
             std::string_view(",]} \t\r\n").find(text_[at_]) == std::string_view::npos)
        ++at_;
    }
    end(range);
  }

  TextRange* begin() {
    if (open_.size() > deepest_) return nullptr;
    const auto found = ranges_.find(pointer_);
    if (found == ranges_.end() || found->second.begin.line > 0) return nullptr;
    found->second.begin = place();
    return &found->second;
  }
  void end(TextRange* range) {
    if (range != nullptr) range->end = place();
  }

  /// Counts on from the place that was asked for before.
  TextPlace place() {
    const std::size_t at = std::min(at_, text_.size());
    column_ += code_points(text_.substr(counted_, at - counted_));
    counted_ = at;
    return {line_, column_};
  }

  /// To behind the quote that ends it.
  void skip_string() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }

  std::string_view text_;
  std::unordered_map<std::string, TextRange> ranges_;
  std::size_t deepest_ = 0;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::int64_t column_ = 1;
  std::size_t counted_ = 0;  ///< up to where columns of the line are counted
  std::string pointer_;
  std::vector<Open> open_;
};

}  // namespace

std::int64_t code_points(std::string_view text) {
  return std::ranges::count_if(
      text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0U) != 0x80U; });
}

std::vector<TextRange> json_places(std::string_view text, std::span<const std::string> pointers) {
  return Scanner(text, pointers).run(pointers);
}

}  // namespace stagger
