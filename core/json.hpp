#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace stagger {

/// A JSON value that is put together to be written; what is read is a JsonValue
/// (core/json_value.hpp). Members keep the order in which they were added:
///
///     Json json = {{"schema", "stagger.report/1"}, {"makespan", 108}};
///     json["problem"] = problem_json(problem);
class Json {
 public:
  struct Member;

  Json();  ///< null
  Json(std::nullptr_t);
  Json(bool value);
  template <std::signed_integral T>
  Json(T value);
  template <std::unsigned_integral T>
  Json(T value);
  Json(double value);
  Json(const char* text);
  Json(std::string text);
  /// null if absent.
  template <class T>
  Json(const std::optional<T>& value);
  template <class T>
  Json(const std::vector<T>& items);
  Json(std::initializer_list<Member> members);
  [[nodiscard]] static Json array();   ///< an empty one
  [[nodiscard]] static Json object();  ///< an empty one

  /// The member of an object, added as null if it is not there; null becomes an object.
  Json& operator[](const std::string& key);
  /// Appends to an array; null becomes an array.
  void push_back(Json item);
  /// Adds the members of another object behind its own.
  void append(const Json& object);

  [[nodiscard]] bool empty() const;  ///< null, or nothing in it
  [[nodiscard]] Json& back();        ///< of an array that is not empty

  /// The text with a member or an item on each line, indented by one space a level; without a
  /// newline at the end. Bytes that are no UTF-8 are replaced.
  [[nodiscard]] std::string text() const;
  /// The text on one line: `{"a": 1, "b": [1,2]}`.
  [[nodiscard]] std::string line() const;

 private:
  using Items = std::vector<Json>;
  using Members = std::vector<Member>;

  /// `indent` < 0: on one line.
  void write(std::string& text, int indent) const;

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Items,
               Members>
      value_;
};

struct Json::Member {
  std::string key;
  Json value = {};
};

// Defined here, where a Member is complete: clang asks for that.

inline Json::Json() : value_(nullptr) {}
inline Json::Json(std::nullptr_t) : value_(nullptr) {}
inline Json::Json(bool value) : value_(value) {}
template <std::signed_integral T>
Json::Json(T value) : value_(std::int64_t{value}) {}
template <std::unsigned_integral T>
Json::Json(T value) : value_(std::uint64_t{value}) {}
inline Json::Json(double value) : value_(value) {}
inline Json::Json(const char* text) : value_(std::string(text)) {}
inline Json::Json(std::string text) : value_(std::move(text)) {}
template <class T>
Json::Json(const std::optional<T>& value) : Json() {
  if (value) *this = Json(*value);
}
template <class T>
Json::Json(const std::vector<T>& items) : value_(Items{}) {
  for (const T& item : items)
    push_back(item);
}

}  // namespace stagger
