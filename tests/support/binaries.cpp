#include "tests/support/binaries.hpp"

#include <sstream>
#include <stdexcept>

namespace stagger::test {
namespace {

constexpr signed char kOpen = -1;
constexpr signed char kZero = 0;
constexpr signed char kOne = 1;

class Solver {
 public:
  explicit Solver(const BinaryModel& model)
      : model_(model), values_(model.names.size(), kOpen), rows_of_(model.names.size()) {
    for (std::size_t row = 0; row < model.rows.size(); ++row) {
      for (const auto& [coefficient, variable] : model.rows[row].terms)
        rows_of_[variable].push_back(row);
    }
  }

  std::optional<std::vector<bool>> run() {
    std::vector<std::size_t> all(model_.rows.size());
    for (std::size_t row = 0; row < all.size(); ++row)
      all[row] = row;
    if (!propagate(all) || !descend(0)) return std::nullopt;
    return std::vector<bool>(values_.begin(), values_.end());
  }

 private:
  bool descend(std::size_t variable) {
    while (variable < values_.size() && values_[variable] != kOpen)
      ++variable;
    if (variable == values_.size()) return true;
    for (const signed char value : {kOne, kZero}) {
      const std::vector<signed char> before = values_;
      values_[variable] = value;
      if (propagate(rows_of_[variable]) && descend(variable + 1)) return true;
      values_ = before;
    }
    return false;
  }

  /// Gives variables the only value that a row leaves them; false if some row can't hold.
  bool propagate(std::vector<std::size_t> rows) {
    while (!rows.empty()) {
      const BinaryRow& row = model_.rows[rows.back()];
      rows.pop_back();
      std::int64_t low = 0;
      std::int64_t high = 0;
      for (const auto& [coefficient, variable] : row.terms) {
        const signed char value = values_[variable];
        if (value == kOpen) (coefficient < 0 ? low : high) += coefficient;
        if (value == 1) {
          low += coefficient;
          high += coefficient;
        }
      }
      if (low > row.most || high < row.least) return false;
      for (const auto& [coefficient, variable] : row.terms) {
        if (values_[variable] != kOpen) continue;
        const std::int64_t size = coefficient < 0 ? -coefficient : coefficient;
        // The value that takes the sum up (down) is out if that is too far.
        const bool up = low + size <= row.most;
        const bool down = high - size >= row.least;
        if (up && down) continue;
        if (!up && !down) return false;
        values_[variable] = (up == (coefficient > 0)) ? kOne : kZero;
        rows.insert(rows.end(), rows_of_[variable].begin(), rows_of_[variable].end());
        rows.push_back(static_cast<std::size_t>(&row - model_.rows.data()));
        break;  // low and high have changed
      }
    }
    return true;
  }

  const BinaryModel& model_;
  std::vector<signed char> values_;
  std::vector<std::vector<std::size_t>> rows_of_;
};

/// Variables by name, numbered as they come.
class Names {
 public:
  explicit Names(BinaryModel& model) : model_(model) {}
  std::size_t operator[](const std::string& name) {
    const auto [place, added] = places_.try_emplace(name, model_.names.size());
    if (added) model_.names.push_back(name);
    return place->second;
  }

 private:
  BinaryModel& model_;
  std::map<std::string, std::size_t> places_;
};

/// Whether the row has ended with this word, a relation that `words` follows with its right side.
bool ends_row(const std::string& relation, std::istringstream& words, BinaryRow& row) {
  if (relation != "=" && relation != "<=" && relation != ">=") return false;
  std::int64_t right = 0;
  if (!(words >> right)) throw std::runtime_error("a relation without a number");
  if (relation != ">=") row.most = right;
  if (relation != "<=") row.least = right;
  return true;
}

}  // namespace

std::optional<std::vector<bool>> solve_binaries(const BinaryModel& model) {
  return Solver(model).run();
}

BinaryModel read_lp(const std::string& text) {
  BinaryModel model;
  Names names(model);
  const std::size_t subject = text.find("Subject To\n");
  const std::size_t binary = text.find("Binary\n");
  const std::size_t end = text.find("End\n");
  if (subject > binary || binary > end || end == std::string::npos) {
    throw std::runtime_error("sections are missing or out of order");
  }
  std::istringstream rows(text.substr(subject + 11, binary - subject - 11));
  for (std::string label; rows >> label;) {
    if (label.back() != ':') throw std::runtime_error("a row without a name: " + label);
    BinaryRow row;
    std::string word;
    while (rows >> word && !ends_row(word, rows, row)) {
      if (word != "+" && word != "-") throw std::runtime_error("no sign: " + word);
      std::string name;
      rows >> name;
      row.terms.emplace_back(word == "+" ? 1 : -1, names[name]);
    }
    model.rows.push_back(row);
  }
  const std::size_t in_rows = model.names.size();
  std::istringstream binaries(text.substr(binary + 7, end - binary - 7));
  std::size_t listed = 0;
  for (std::string name; binaries >> name; ++listed)
    (void)names[name];
  if (model.names.size() != in_rows || listed != in_rows) {
    throw std::runtime_error("the binaries are not the variables of the rows");
  }
  return model;
}

BinaryModel read_dimacs(const std::string& text) {
  BinaryModel model;
  std::istringstream lines(text);
  std::size_t clauses = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("c")) continue;
    std::istringstream words(line);
    if (line.starts_with("p cnf ")) {
      std::string p;
      std::string cnf;
      std::size_t variables = 0;
      words >> p >> cnf >> variables >> clauses;
      for (std::size_t variable = 1; variable <= variables; ++variable)
        model.names.push_back(std::to_string(variable));
      continue;
    }
    BinaryRow row{.terms = {}, .least = 1};
    int literal = 0;
    while (words >> literal && literal != 0) {
      const auto variable = static_cast<std::size_t>(literal < 0 ? -literal : literal) - 1;
      if (variable >= model.names.size()) throw std::runtime_error("beyond the variables");
      row.terms.emplace_back(literal < 0 ? -1 : 1, variable);
      if (literal < 0) --row.least;
    }
    model.rows.push_back(row);
  }
  if (model.rows.size() != clauses) throw std::runtime_error("not as many clauses as said");
  return model;
}

}  // namespace stagger::test
