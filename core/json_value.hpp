#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger {

/// A place in a parsed JSON document. A view: the document must outlive it, and so must the value
/// it was taken from (its path is put together only for a message).
/// Every accessor throws Error{invalid_input} with source and path if the value is something else.
class JsonValue {
 public:
  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_array() const;
  [[nodiscard]] bool is_string() const;
  [[nodiscard]] bool is_integer() const;
  [[nodiscard]] bool is_boolean() const;
  [[nodiscard]] bool is_null() const;

  [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most) const;
  [[nodiscard]] double number(double least, double most) const;  ///< an integer too
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string string() const;
  /// Which of the known words a string is; `what` names it in the message if it is none.
  [[nodiscard]] std::size_t word(const char* what, std::span<const char* const> known) const;

  [[nodiscard]] std::size_t size() const;  ///< an array's items
  [[nodiscard]] JsonValue item(std::size_t index) const;

  [[nodiscard]] std::vector<std::string> keys() const;  ///< an object's, ascending
  [[nodiscard]] bool has(const std::string& key) const;
  [[nodiscard]] JsonValue at(const std::string& key) const;
  /// Throws if the object has a key that is none of these.
  void expect_keys(std::initializer_list<const char*> known) const;
  /// Throws unless the key `schema` has this value.
  void expect_schema(const char* schema) const;

  [[nodiscard]] std::string dump() const;  ///< the value as JSON text

  [[noreturn]] void reject(const std::string& what) const;

 private:
  friend class JsonDocument;
  JsonValue(const void* value, const JsonValue* parent, std::string key, std::size_t index)
      : value_(value), parent_(parent), key_(std::move(key)), index_(index) {}
  [[nodiscard]] std::string path() const;

  const void* value_;
  const JsonValue* parent_;
  std::string key_;
  std::size_t index_;
};

/// A JSON text, parsed. Throws Error{invalid_input} if it is malformed, nested deeper than
/// kMaxJsonDepth or an object has a key twice.
class JsonDocument {
 public:
  JsonDocument(std::string_view text, std::string source);
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  [[nodiscard]] const JsonValue& root() const { return *root_; }

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
  std::unique_ptr<JsonValue> root_;
};

/// One of several documents in a text, and what messages call it: `runs.jsonl (3)`.
struct JsonText {
  std::string_view text;
  std::string source;
};

/// The objects of a text that are one after the other: where braces close. What is between them is
/// left to the parser to refuse. One at least.
[[nodiscard]] std::vector<JsonText> json_texts(std::string_view text, const std::string& source);

/// The text as a JSON string with its quotes; bytes that are no UTF-8 are replaced.
[[nodiscard]] std::string json_quote(const std::string& text);

}  // namespace stagger
