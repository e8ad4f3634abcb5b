#include "core/error.hpp"

namespace stagger {

void contract_violated(const char* condition, const char* file, int line) {
  throw ContractViolation(std::string(file) + ":" + std::to_string(line) +
                          ": contract violated: " + condition);
}

}  // namespace stagger
