#pragma once

#include <array>
#include <cstddef>

namespace stagger {

/// Least squares of equations Σ x_i p_i = y; a parameter that is in none of them is 0.
template <std::size_t N>
class LeastSquares {
 public:
  void add(const std::array<double, N>& x, double y) {
    for (std::size_t row = 0; row < N; ++row) {
      for (std::size_t column = 0; column < N; ++column)
        matrix_[row][column] += x[row] * x[column];
      matrix_[row][N] += x[row] * y;
    }
  }

  /// O(N³), by Gauss and Jordan.
  [[nodiscard]] std::array<double, N> solution() const {
    auto matrix = matrix_;
    for (std::size_t pivot = 0; pivot < N; ++pivot) {
      if (matrix[pivot][pivot] <= kNothing) continue;
      for (std::size_t row = 0; row < N; ++row) {
        if (row == pivot) continue;
        const double factor = matrix[row][pivot] / matrix[pivot][pivot];
        for (std::size_t column = pivot; column <= N; ++column)
          matrix[row][column] -= factor * matrix[pivot][column];
      }
    }
    std::array<double, N> found = {};
    for (std::size_t row = 0; row < N; ++row)
      if (matrix[row][row] > kNothing) found[row] = matrix[row][N] / matrix[row][row];
    return found;
  }

 private:
  static constexpr double kNothing = 1e-12;
  std::array<std::array<double, N + 1>, N> matrix_ = {};
};

}  // namespace stagger
