#pragma once

#include <string>
#include <vector>

namespace stagger::test {

/// Whether a DRAT proof in text refutes a formula (literals, a 0 after each clause): every clause
/// it adds follows by unit propagation (RUP), and one of them is empty. Deletions are taken. For
/// small formulas: every step looks at every clause.
[[nodiscard]] bool refutes(const std::vector<int>& formula, const std::string& proof);

}  // namespace stagger::test
