#pragma once

#include "gpu/check/program.hpp"

#include <cstdint>
#include <utility>

namespace stagger::gpu {

/// A stint of a head's KV tile (all, dkv), with the heads of its chain, or Q tile (dq), its other
/// tiles upwards.
inline Stint stint_of(const Problem& problem, Makes makes, std::int32_t head, std::int32_t tile,
                      std::int32_t buffer = 0) {
  Stint stint{.makes = makes, .buffer = buffer, .tasks = {}};
  const bool by_q = makes == Makes::dq;
  const std::int32_t others = by_q ? problem.kv_tiles() : problem.q_tiles();
  for (std::int32_t member = head; member < head + (by_q ? 1 : problem.span); ++member) {
    for (std::int32_t other = 0; other < others; ++other) {
      const Task task{Head{member}, KvTile{by_q ? other : tile}, QTile{by_q ? tile : other}};
      if (problem.live(task)) stint.tasks.push_back(task);
    }
  }
  return stint;
}

/// Heads' dK and dV come together where chains have not all of a group's.
inline HeadSums sums_of(const Problem& problem, HeadSums sums) {
  return problem.group_parts() == 1 ? HeadSums::none : sums;
}

/// A lane for each head and buffer, its KV tiles upwards: kv goes to buffer kv % buffers. Requires
/// chains of one head.
inline Program workers(const Problem& problem, std::int32_t buffers,
                       HeadSums sums = HeadSums::fp32) {
  Program program{
      .problem = problem, .kernels = {{}}, .buffers = buffers, .head_sums = sums_of(problem, sums)};
  for (std::int32_t head = 0; head < problem.heads; ++head) {
    for (std::int32_t buffer = 0; buffer < buffers; ++buffer) {
      auto& lane = program.kernels[0].lanes.emplace_back();
      for (std::int32_t kv = buffer; kv < problem.kv_tiles(); kv += buffers) {
        Stint stint = stint_of(problem, Makes::all, head, kv, buffer);
        if (!stint.tasks.empty()) lane.push_back(std::move(stint));
      }
    }
  }
  return program;
}

/// A lane for each KV tile's dK and dV and each Q tile's dQ, in `kernels` kernels: 1 or 2.
inline Program owners(const Problem& problem, std::int32_t kernels,
                      HeadSums sums = HeadSums::fp32) {
  Program program{.problem = problem, .kernels = {}, .head_sums = sums_of(problem, sums)};
  program.kernels.resize(static_cast<std::size_t>(kernels));
  const auto add = [](Program::Kernel& kernel, Stint stint) {
    auto& lane = kernel.lanes.emplace_back();
    if (!stint.tasks.empty()) lane.push_back(std::move(stint));
  };
  for (std::int32_t head = 0; head < problem.heads; head += problem.span) {
    for (std::int32_t kv = 0; kv < problem.kv_tiles(); ++kv)
      add(program.kernels.front(), stint_of(problem, Makes::dkv, head, kv));
  }
  for (std::int32_t head = 0; head < problem.heads; ++head) {
    for (std::int32_t q = problem.q_tiles() - 1; q >= 0; --q)
      add(program.kernels.back(), stint_of(problem, Makes::dq, head, q));
  }
  return program;
}

}  // namespace stagger::gpu
