// The tests' main for what needs a GPU: without one they are skipped (exit 77), not passed.

#include "gpu/cuda/executor.hpp"

#define CATCH_CONFIG_RUNNER
#include "tests/support/catch.hpp"

#include <algorithm>
#include <iostream>
#include <string_view>

int main(int argc, char** argv) {
  const bool lists = std::any_of(argv, argv + argc, [](const char* argument) {
    return std::string_view(argument).starts_with("--list");
  });
  if (!lists && !stagger::gpu::cuda_device()) {
    std::cout << "SKIPPED: no CUDA device\n";
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
