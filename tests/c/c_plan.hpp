#pragma once

#include "tests/support/catch.hpp"
#include "workbench/stagger.h"

#include <cstdint>
#include <memory>

namespace stagger::test {

/// What a plan of the C interface is destroyed by.
struct Destroy {
  void operator()(stagger_plan* plan) const { stagger_plan_destroy(plan); }
};
using PlanPointer = std::unique_ptr<stagger_plan, Destroy>;

/// Four heads that share two of K and V, twice 300 tokens, on 8 SMs.
inline stagger_problem problem_of(const char* mask, const char* schedule) {
  stagger_problem problem{};
  problem.size = sizeof problem;
  problem.batch = 2;
  problem.heads_q = 4;
  problem.heads_kv = 2;
  problem.head_dim = 64;
  problem.dtype = STAGGER_BF16;
  problem.sms = 8;
  problem.seq_q = problem.seq_kv = 300;
  problem.mask = mask;
  problem.schedule = schedule;
  return problem;
}

inline PlanPointer plan_of(const stagger_problem& problem) {
  stagger_plan* plan = nullptr;
  const std::int32_t code = stagger_plan_create(&problem, &plan);
  INFO(stagger_last_error());
  REQUIRE(code == STAGGER_OK);
  return PlanPointer(plan);
}

inline stagger_plan_info info_of(const PlanPointer& plan) {
  stagger_plan_info info{};
  info.size = sizeof info;
  REQUIRE(stagger_plan_describe(plan.get(), &info) == STAGGER_OK);
  return info;
}

}  // namespace stagger::test
