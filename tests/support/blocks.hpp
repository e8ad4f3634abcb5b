#pragma once

#include "core/machine.hpp"
#include "tests/support/catch.hpp"
#include "workbench/block/transformer.hpp"

#include <cstdint>
#include <string>

namespace stagger::test {

inline block::Transformer builtin_model(const std::string& name) {
  const char* text = find_builtin(block::builtin_models(), name);
  REQUIRE(text != nullptr);
  return block::read_transformer(text, name);
}

inline block::Transformer model_at(const std::string& name, std::int64_t seq, std::int64_t batch) {
  return block::with(builtin_model(name), {.seq = seq, .batch = batch});
}

/// A device whose rates of blocks are easy to compute with by hand.
inline Machine toy_machine() {
  return {.name = "toy",
          .device = "Toy 1",
          .driver = "",
          .sms = 8,
          .blocks = {BlockRates{
              .gemm_tflops = 100,
              .copy = {{.size = 1, .rate = 1}},
              .kappas = {{.ops = Ops::eager, .permille = 2000},
                         {.ops = Ops::compiled, .permille = 1500}},
              .attention = {{"a", 128, true, 4096, 50, 40}, {"a", 128, true, 16384, 60, 44}}}}};
}

}  // namespace stagger::test
