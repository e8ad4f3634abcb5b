#pragma once

#include "core/error.hpp"
#include "gpu/numerics/dropout.hpp"

#include <string>

namespace stagger::gpu::overlap {

/// A rule that there are kernels of.
template <int kBits, int kRounds>
struct RuleOf {};

/// Calls `make` with the RuleOf a rule. Throws Error{unsupported} for one without kernels.
template <int kBits, class Make>
auto with_rounds(const DropoutRule& rule, const Make& make) {
  switch (rule.rounds) {
    case 3:
      return make(RuleOf<kBits, 3>{});
    case 5:
      return make(RuleOf<kBits, 5>{});
    case 7:
      return make(RuleOf<kBits, 7>{});
    case 10:
      return make(RuleOf<kBits, 10>{});
    default:
      throw Error(ErrorKind::unsupported, "Philox of " + std::to_string(rule.rounds) +
                                              " rounds beside a GEMM: 3, 5, 7 and 10 are there");
  }
}
template <class Make>
auto with_rule(const DropoutRule& rule, const Make& make) {
  if (rule.bits == 8) return with_rounds<8>(rule, make);
  if (rule.bits == 32) return with_rounds<32>(rule, make);
  throw Error(ErrorKind::unsupported,
              std::to_string(rule.bits) + " random bits beside a GEMM: 8 and 32 are there");
}

}  // namespace stagger::gpu::overlap
