#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stagger::test {

/// A row over variables that are 0 or 1: least <= sum of coefficient x variable <= most.
struct BinaryRow {
  std::vector<std::pair<int, std::size_t>> terms;
  std::int64_t least = INT32_MIN;
  std::int64_t most = INT32_MAX;
};

/// A model of rows. Variables are numbered in the order of `names`, from 0.
struct BinaryModel {
  std::vector<std::string> names;
  std::vector<BinaryRow> rows;
};

/// Values that satisfy every row, by trying 1 and 0 for one variable after the other wherever the
/// rows leave both; nullopt if there are none. Exponential: for tiny models.
[[nodiscard]] std::optional<std::vector<bool>> solve_binaries(const BinaryModel& model);

/// Reads what a linear program in CPLEX LP format says: rows with a name, relations, the Binary
/// section. Throws std::runtime_error at anything else, and at a variable that is not binary.
[[nodiscard]] BinaryModel read_lp(const std::string& text);

/// Reads DIMACS: a clause is a row of which at least one literal is true.
[[nodiscard]] BinaryModel read_dimacs(const std::string& text);

}  // namespace stagger::test
