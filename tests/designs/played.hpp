#pragma once

#include "workbench/designs/analysis.hpp"
#include "workbench/designs/design.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace stagger::designs {

inline Problem causal(std::int64_t n, std::int64_t heads, std::int64_t sms) {
  return make_problem(make_mask("causal"), {n, n}, {}, heads, sms);
}

/// Square tiles of 128 tokens on 132 SMs.
inline Problem large(const char* mask, std::int64_t seq, std::int64_t heads,
                     std::int64_t heads_kv = 0) {
  return make_problem(
      make_mask(mask), {seq, seq}, {128, 128}, heads, 132,
      {.heads_kv = heads_kv, .span = heads_kv == 0 ? 0 : 1, .combine = Combine::ordered});
}

inline Request request_of(Problem problem, const char* schedule = nullptr) {
  Request request{.problem = std::move(problem), .head_dim = 128, .element_bytes = 2};
  if (schedule != nullptr) request.schedule = schedules::select(schedule);
  return request;
}

inline Analysis played(const char* design, Problem problem, const char* schedule = nullptr) {
  return analyze(select(design), request_of(std::move(problem), schedule));
}

inline std::set<std::string> bits_of(const Analysis& analysis) {
  return {analysis.plan.bits_depend_on.begin(), analysis.plan.bits_depend_on.end()};
}

}  // namespace stagger::designs
