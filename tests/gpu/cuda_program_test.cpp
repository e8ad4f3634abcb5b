// Programs on a GPU leave what threads leave: bits, orders and partials.

#include "core/error.hpp"
#include "gpu/check/cross_check.hpp"
#include "gpu/cpu/program_executor.hpp"
#include "gpu/cuda/program_executor.hpp"
#include "tests/gpu/program_case.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"

#include <string>
#include <vector>

namespace stagger::gpu {
namespace {

constexpr Dtype kProgramDtypes[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};

Attention attention_of(const Program& program, std::int64_t head_dim) {
  const AttentionShape shape = attention_shape(program.problem, head_dim);
  return make_attention(program.problem, shape, random_inputs(shape, 11));
}

void check_as_on_cpu(const Program& program, std::int64_t head_dim) {
  REQUIRE_FALSE(fault_of(program));
  const Attention attention = attention_of(program, head_dim);
  for (const Dtype dtype : kProgramDtypes) {
    CAPTURE(dtype_name(dtype), program.kernels.size(), program.buffers,
            static_cast<int>(program.head_sums));
    const ProgramOptions options{.dtype = dtype, .threads = 2, .keep_partials = true};
    const ProgramRun cpu = program_on_cpu(program, attention, options);
    const ProgramRun cuda = program_on_cuda(program, attention, options);
    REQUIRE(cuda.outcome == Outcome::finished);
    REQUIRE(digests(cuda.gradients) == digests(cpu.gradients));
    REQUIRE(digest(cuda.dq_sums) == digest(cpu.dq_sums));
    REQUIRE(digest(cuda.partials) == digest(cpu.partials));
    REQUIRE(digest(cuda.dk_heads) == digest(cpu.dk_heads));
    REQUIRE(digest(cuda.dv_heads) == digest(cpu.dv_heads));
    REQUIRE(cuda.witness == cpu.witness);
    REQUIRE(cuda.elapsed_ns > 0);
    const ProgramRun bare =
        program_on_cuda(program, attention, {.dtype = dtype, .perturb = 3, .witnessed = false});
    REQUIRE(digests(bare.gradients) == digests(cpu.gradients));
    REQUIRE(bare.partials.empty());
    REQUIRE(bare.witness.empty());
  }
}

/// Every way to make the gradients of a problem whose heads share nothing.
std::vector<Program> programs_of(const Problem& problem) {
  return {workers(problem, 1), workers(problem, 3), owners(problem, 1), owners(problem, 2)};
}

TEST_CASE("programs on every mask leave the CPU's bits and order") {
  std::int64_t programs = 0;
  for (const Problem& problem : test::every_small_mask()) {
    if (problem.group() > 1) continue;
    CAPTURE(describe(problem));
    for (const Program& program : programs_of(problem)) {
      check_as_on_cpu(program, 4);
      ++programs;
    }
  }
  CHECK(programs > 40);
}

TEST_CASE("programs of every head_dim and tile shape leave the CPU's bits") {
  for (const TileShape shape :
       {TileShape{.q = 5, .kv = 3}, TileShape{.q = 64, .kv = 128}, TileShape{.q = 80, .kv = 64}}) {
    for (const char* mask : {"full", "causal"}) {
      const Problem problem = make_problem(make_mask(mask), {220, 190}, shape, 2, 6);
      for (const std::int64_t head_dim : {1, 5, 64, 128}) {
        CAPTURE(mask, shape.q, shape.kv, head_dim);
        for (const Program& program : programs_of(problem))
          check_as_on_cpu(program, head_dim);
      }
    }
  }
}

TEST_CASE("heads that share K and V come together on a GPU as on the CPU") {
  const auto problem = [](std::int64_t span) {
    return make_problem(make_mask("causal"), {70, 70}, {16, 12}, 6, 4,
                        {.heads_kv = 2, .span = span, .combine = Combine::partials});
  };
  for (const HeadSums sums : {HeadSums::rounded, HeadSums::fp32}) {
    check_as_on_cpu(workers(problem(1), 2, sums), 8);
    check_as_on_cpu(owners(problem(1), 2, sums), 8);
  }
  check_as_on_cpu(owners(problem(3), 2), 8);
}

TEST_CASE("random programs, of more lanes than there are SMs, leave the CPU's bits") {
  test::Random random(20261123);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    const Problem problem = make_problem(make_mask(random.chance(2) ? "full" : "causal"),
                                         {40 + round, 40 + 3 * round}, {8, 8}, 40 + round, 132);
    Program program =
        random.chance(2) ? workers(problem, 1 + round % 5) : owners(problem, 1 + round % 2);
    for (Program::Kernel& kernel : program.kernels) {
      for (Program::ProgramLane& lane : kernel.lanes) {
        for (Stint& stint : lane)
          random.shuffle(stint.tasks);
      }
      random.shuffle(kernel.lanes);
    }
    check_as_on_cpu(program, 16);
  }
}

TEST_CASE("a program that takes too long on a GPU is stopped, and the next one runs") {
  const Problem problem = make_problem(make_mask("full"), {2048, 2048}, {128, 128}, 1, 1);
  const Program program = workers(problem, 1);
  const AttentionShape shape = attention_shape(problem, 512);
  const Attention attention = unjudged_attention(problem, shape, random_inputs(shape, 1));
  const ProgramOptions impatient{.timeout = std::chrono::milliseconds(1)};
  CHECK(program_on_cuda(program, attention, impatient).outcome == Outcome::timeout);
  check_as_on_cpu(workers(make_problem(make_mask("full"), {64, 64}, {16, 16}, 1, 1), 2), 8);
}

TEST_CASE("a program that does not fit into a GPU is refused before it is sent there") {
  const auto refusal = [](const Program& program, std::int64_t head_dim) -> std::string {
    const AttentionShape shape = attention_shape(program.problem, head_dim);
    const Attention attention = unjudged_attention(program.problem, shape, random_inputs(shape, 1));
    try {
      static_cast<void>(program_on_cuda(program, attention, {}));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Program wide = workers(make_problem(make_mask("full"), {512, 512}, {512, 512}, 1, 1), 1);
  CHECK(refusal(wide, 1).find("shared memory") != std::string::npos);
  Program many = workers(make_problem(make_mask("full"), {4096, 64}, {64, 64}, 8, 1), 1);
  many.buffers = 1 << 20;
  CHECK(refusal(many, 128).find("of device memory") != std::string::npos);
}

}  // namespace
}  // namespace stagger::gpu
