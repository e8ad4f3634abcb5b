#pragma once

// The switch behind the mutants of one build (scripts/mutants), included by the files that have
// any. STAGGER_MUTANT=N plants number N. STAGGER_MUTANT_MAP names a file with a byte for every
// number: 2 if the mutant is in the program, 1 if it was reached.

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <initializer_list>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace stagger_mutants {

constexpr int kMost = 1 << 16;

inline unsigned char* map_of_mutants() {
  static unsigned char* const map = []() -> unsigned char* {
    const char* name = std::getenv("STAGGER_MUTANT_MAP");
    if (name == nullptr) return nullptr;
    const int file = open(name, O_RDWR);
    if (file < 0) return nullptr;
    void* memory = mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
  }();
  return map;
}

inline const int kPlanted = [] {
  const char* number = std::getenv("STAGGER_MUTANT");
  return number == nullptr ? -1 : std::atoi(number);
}();
inline unsigned char* const kMap = map_of_mutants();

template <int Id>
inline const bool present = [] {
  if (map_of_mutants() != nullptr) map_of_mutants()[Id] |= 2;
  return true;
}();

/// Whether the mutant is planted; never in constant expressions.
template <int Id>
constexpr bool mutant() {
  if (std::is_constant_evaluated()) return false;
  (void)&present<Id>;
  if (kMap != nullptr) kMap[Id] |= 1;
  return kPlanted == Id;
}

// `a < b` becomes `a < Less<7>{} < b`: the same precedence, no matter what a and b are.

template <class Operator, class A>
struct Left {
  const A& value;
};

#define STAGGER_MUTANT_OPPOSITE(Name, symbol, also)                            \
  template <int Id>                                                            \
  struct Name {};                                                              \
  template <class A, int Id>                                                   \
  constexpr Left<Name<Id>, A> operator symbol(const A& left, Name<Id>) {       \
    return {left};                                                             \
  }                                                                            \
  template <int Id, class A, class B>                                          \
  constexpr bool operator symbol(Left<Name<Id>, A> left, const B& right) {     \
    also if (mutant<Id>()) return !static_cast<bool>(left.value symbol right); \
    return static_cast<bool>(left.value symbol right);                         \
  }
#define STAGGER_MUTANT_COMPARISON(Name, symbol, boundary)                                       \
  STAGGER_MUTANT_OPPOSITE(                                                                      \
      Name, symbol, if constexpr (requires { static_cast<bool>(left.value boundary right); }) { \
        if (mutant<Id + 1>()) return static_cast<bool>(left.value boundary right);              \
      })

STAGGER_MUTANT_COMPARISON(Less, <, <=)
STAGGER_MUTANT_COMPARISON(LessEqual, <=, <)
STAGGER_MUTANT_COMPARISON(Greater, >, >=)
STAGGER_MUTANT_COMPARISON(GreaterEqual, >=, >)
STAGGER_MUTANT_OPPOSITE(Equal, ==, )
STAGGER_MUTANT_OPPOSITE(NotEqual, !=, )

#define STAGGER_MUTANT_ARITHMETIC(Name, symbol, other)                       \
  template <int Id>                                                          \
  struct Name {};                                                            \
  template <class A, int Id>                                                 \
  constexpr Left<Name<Id>, A> operator symbol(const A& left, Name<Id>) {     \
    return {left};                                                           \
  }                                                                          \
  template <int Id, class A, class B>                                        \
  constexpr auto operator symbol(Left<Name<Id>, A> left, const B& right) {   \
    using Result = decltype(left.value symbol right);                        \
    if constexpr (std::is_arithmetic_v<Result> && std::is_arithmetic_v<A>) { \
      if (mutant<Id>()) return static_cast<Result>(left.value other right);  \
      if (mutant<Id + 1>()) return static_cast<Result>(left.value);          \
    }                                                                        \
    return left.value symbol right;                                          \
  }

STAGGER_MUTANT_ARITHMETIC(Plus, +, -)
STAGGER_MUTANT_ARITHMETIC(Minus, -, +)
STAGGER_MUTANT_ARITHMETIC(Times, *, +)
STAGGER_MUTANT_ARITHMETIC(Over, /, *)
STAGGER_MUTANT_ARITHMETIC(Modulo, %, *)

template <int Id, class T>
constexpr const T& min(const T& a, const T& b) {
  return mutant<Id>() ? std::max(a, b) : mutant<Id + 1>() ? a : std::min(a, b);
}
template <int Id, class T>
constexpr const T& max(const T& a, const T& b) {
  return mutant<Id>() ? std::min(a, b) : mutant<Id + 1>() ? a : std::max(a, b);
}
template <int Id, class T>
constexpr T min(std::initializer_list<T> items) {
  return mutant<Id>() ? std::max(items) : mutant<Id + 1>() ? *items.begin() : std::min(items);
}
template <int Id, class T>
constexpr T max(std::initializer_list<T> items) {
  return mutant<Id>() ? std::min(items) : mutant<Id + 1>() ? *items.begin() : std::max(items);
}

/// `call` with its arguments exchanged, where that compiles and gives the same type.
template <int Id, class Call, class A, class B, class Original>
constexpr decltype(auto) exchanged(Call call, A&& left, B&& right, Original original) {
  if constexpr (std::is_invocable_v<Call&, B, A>) {
    if constexpr (std::is_same_v<std::invoke_result_t<Call&, B, A>,
                                 std::invoke_result_t<Original&>>) {
      if (mutant<Id>()) return call(std::forward<B>(right), std::forward<A>(left));
    }
  }
  return original();
}

/// What a function returns: one more, or the opposite.
template <int Id, class T>
constexpr decltype(auto) result(T&& value) {
  using Value = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<Value, bool>) {
    return Value(mutant<Id>() != value);
  } else if constexpr (std::is_arithmetic_v<Value>) {
    return Value(mutant<Id>() ? value + 1 : value);
  } else {
    return std::forward<T>(value);
  }
}

}  // namespace stagger_mutants
