// Masks as words: `sliding:left=4095,right=0 & document:lengths=366+25+80`.

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/mask_rules.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace stagger {
namespace {

constexpr const char* kByHead = "heads";

bool is_composition(const MaskFamily& family) {
  return std::ranges::any_of(family.keys, [](const MaskKey& key) {
    return std::holds_alternative<std::vector<Mask>>(key.fallback);
  });
}

/// What is between separators; nothing behind the last of them is a part, too.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    if (end + 1 == text.size()) parts.emplace_back();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::int64_t parse_integer(const std::string& place, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    reject_mask(place + " = '" + std::string(text) + "' is not an integer");
  }
  return value;
}

MaskValue parse_value(const std::string& place, const MaskKey& key, std::string_view text) {
  if (std::holds_alternative<std::int64_t>(key.fallback)) return parse_integer(place, text);
  if (std::holds_alternative<bool>(key.fallback)) {
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
    reject_mask(place + " = '" + std::string(text) + "' is neither true nor false");
  }
  std::vector<std::string> parts = split(text, '+');
  if (std::holds_alternative<std::vector<std::string>>(key.fallback)) return parts;
  std::vector<std::int64_t> integers;
  integers.reserve(parts.size());
  for (const std::string& part : parts)
    integers.push_back(parse_integer(place, part));
  return integers;
}

/// The values of `kind:key=value,key=value`.
std::map<std::string, MaskValue, std::less<>> parse_values(const MaskFamily& family,
                                                           std::string_view text) {
  const std::string kind = family.name;
  std::map<std::string, MaskValue, std::less<>> values;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return values;
  for (const std::string& item : split(text.substr(colon + 1), ',')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos) {
      reject_mask(kind + ": '" + item + "' is not key=value; example: " + family.example);
    }
    const std::string name = item.substr(0, equals);
    const MaskKey& key = find_mask_key(family, name);
    const std::string place = kind + ": " + name;
    if (!values.emplace(name, parse_value(place, key, item.substr(equals + 1))).second) {
      reject_mask(place + " is given twice");
    }
  }
  return values;
}

const MaskFamily& family_of(std::string_view text) {
  return find_mask_family(text.substr(0, text.find(':')));
}

/// `kind:key=value,key=value`.
Mask parse_one(std::string_view text) {
  const MaskFamily& family = family_of(text);
  if (family.by_head) {
    reject_mask("heads: comes first, and masks follow it after ;: " + std::string(family.example));
  }
  if (is_composition(family)) {
    reject_mask(std::string(family.name) + ": masks are joined by & and |: " + family.example);
  }
  return make_mask(family.name, parse_values(family, text));
}

/// Masks joined by | of masks joined by & of masks, or of such in parentheses.
class MaskParser {
 public:
  explicit MaskParser(std::string_view text) : text_(text) {}

  Mask parse() {
    skip();
    Mask mask = is_by_head() ? by_head() : either(0);
    if (at_ < text_.size()) {
      reject_mask(here() + (text_[at_] == ';'
                                ? ": masks by head follow `heads`: heads; full; causal"
                                : ": a ) closes nothing"));
    }
    return mask;
  }

 private:
  [[nodiscard]] bool is_by_head() const {
    const std::string_view rest = text_.substr(at_);
    return rest.substr(0, rest.find_first_of(" :;&|()")) == kByHead;
  }

  /// `heads:heads=0+0+1` and its masks, each behind a semicolon.
  Mask by_head() {
    auto values = parse_values(find_mask_family(kByHead), words());
    if (values.contains("of")) reject_mask("heads: masks follow it after ;: heads; full; causal");
    std::vector<Mask> masks;
    while (next(';')) {
      parts_ = 0;
      masks.push_back(either(0));
    }
    values.emplace("of", std::move(masks));
    return make_mask(kByHead, std::move(values));
  }

  Mask either(int depth) {
    std::vector<Mask> parts;
    do
      parts.push_back(both(depth));
    while (next('|'));
    return joined("or", std::move(parts));
  }

  Mask both(int depth) {
    std::vector<Mask> parts;
    do
      parts.push_back(one(depth));
    while (next('&'));
    return joined("and", std::move(parts));
  }

  Mask one(int depth) {
    if (depth > kMaxJsonDepth) {
      throw Error(ErrorKind::limit, "a mask nested deeper than " + std::to_string(kMaxJsonDepth));
    }
    if (next('(')) {
      Mask mask = either(depth + 1);
      if (!next(')')) reject_mask(here() + ": a ) is missing");
      return mask;
    }
    const std::size_t begin = at_;
    const std::string_view one = words();
    if (one.empty() && !text_.empty()) {
      at_ = begin;
      reject_mask(here() + ": a mask is missing");
    }
    if (++parts_ > kMaxMaskParts) {
      throw Error(ErrorKind::limit,
                  "a mask of more than " + std::to_string(kMaxMaskParts) + " masks");
    }
    return parse_one(one);
  }

  /// Passes over what is written of one mask.
  std::string_view words() {
    const std::size_t end = std::min(text_.find_first_of("&|();", at_), text_.size());
    const std::string_view words = text_.substr(at_, end - at_);
    at_ = end;
    return words.substr(0, words.find_last_not_of(' ') + 1);
  }

  static Mask joined(const char* kind, std::vector<Mask> parts) {
    if (parts.size() == 1) return std::move(parts.front());
    return make_mask(kind, {{"of", std::move(parts)}});
  }

  /// Passes over spaces, and over the letter if it comes next.
  bool next(char letter) {
    skip();
    if (at_ == text_.size() || text_[at_] != letter) return false;
    ++at_;
    skip();
    return true;
  }
  void skip() { at_ = std::min(text_.find_first_not_of(' ', at_), text_.size()); }

  [[nodiscard]] std::string here() const { return "column " + std::to_string(at_ + 1); }

  std::string_view text_;
  std::size_t at_ = 0;
  int parts_ = 0;
};

std::string value_words(const MaskValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  std::string words;
  const char* separator = "";  // an item may be empty
  const auto add = [&](const std::string& item) { words += std::exchange(separator, "+") + item; };
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    for (const std::int64_t item : *integers)
      add(std::to_string(item));
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& item : *strings)
      add(item);
  }
  return words;
}

/// The words of the masks that a mask is made of, `&` or `|` between them.
std::string joined_words(const Mask& mask, const char* sign) {
  std::string words;
  for (const Mask& part : mask.masks("of")) {
    // What binds closer than the sign needs no parentheses: masks of `and` within `or`.
    const bool apart =
        is_composition(*part.family) && (sign[0] == '&' || part.family == mask.family);
    words += words.empty() ? "" : std::string(" ") + sign + " ";
    words += apart ? "(" + mask_words(part) + ")" : mask_words(part);
  }
  return words;
}

}  // namespace

Mask parse_mask(std::string_view text) {
  return MaskParser(text).parse();
}

std::string mask_words(const Mask& mask) {
  if (mask.family->by_head) {
    std::string words = kByHead;
    const MaskValue& heads = mask.values.find("heads")->second;
    if (!mask.integers("heads").empty()) words += ":heads=" + value_words(heads);
    for (const Mask& each : mask.masks("of"))
      words += "; " + mask_words(each);
    return words;
  }
  if (is_composition(*mask.family)) {
    return joined_words(mask, mask.family->ranges == and_ranges ? "&" : "|");
  }
  std::string words = mask.family->name;
  char separator = ':';
  for (const MaskKey& key : mask.family->keys) {
    const MaskValue& value = mask.values.find(key.name)->second;
    if (value == key.fallback && !key.required) continue;
    words += std::exchange(separator, ',') + std::string(key.name) + "=" + value_words(value);
  }
  return words;
}

}  // namespace stagger
