#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stagger::test {

struct MiniZincNode;

/// A model in the part of MiniZinc that the slot model is written in: integers and arrays of them,
/// arrays of variables, constraints of comparisons, forall, all_different and cumulative. Indices
/// are MiniZinc's, from 1. Throws std::runtime_error at anything it does not know, at an index out
/// of range and at a value outside its array's domain.
class MiniZinc {
 public:
  MiniZinc(const std::string& model, const std::string& data);

  /// Whether some values of the variables satisfy every constraint, by trying them all.
  [[nodiscard]] bool satisfiable();

 private:
  struct Array {
    std::vector<std::int64_t> values;
    std::int64_t least = INT64_MIN;  ///< of the domain
    std::int64_t most = INT64_MAX;
    bool variable = false;
  };
  using Node = MiniZincNode;
  using Scope = std::map<std::string, std::int64_t>;

  void read_data(const std::string& text);
  void declare(const Node& item);
  [[nodiscard]] bool holds() const;
  [[nodiscard]] std::int64_t value(const Node& node, const Scope& scope) const;
  [[nodiscard]] std::vector<std::int64_t> list(const Node& node, const Scope& scope) const;
  /// Every scope that the generators of a comprehension give.
  [[nodiscard]] std::vector<Scope> scopes(const Node& generators, const Scope& scope) const;

  std::map<std::string, std::int64_t> numbers_;
  std::map<std::string, Array> arrays_;
  std::vector<std::shared_ptr<const Node>> constraints_;
};

}  // namespace stagger::test
