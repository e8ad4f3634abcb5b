#include "workbench/designs/knobs.hpp"

#include "core/limits.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace stagger::designs {
namespace {

/// Phases that are no longer than this can be many times as long.
constexpr Ticks kLongest = (Ticks{1} << 40) - 1;

std::optional<Request> with_heads(const Request& request, std::int64_t value) {
  const std::int64_t group = request.problem.group();
  Request other = request;
  other.problem.heads = static_cast<std::int32_t>(value * group);
  other.problem.heads_kv = static_cast<std::int32_t>(value);
  return other;
}

std::optional<Request> with_heads_kv(const Request& request, std::int64_t value) {
  if (request.problem.heads % value != 0) return std::nullopt;
  Request other = request;
  other.problem.heads_kv = static_cast<std::int32_t>(value);
  other.problem = with_span(other.problem, other.problem.group(), Combine::partials);
  return other;
}

std::optional<Request> with_reduce(const Request& request, std::int64_t value) {
  Request other = request;
  other.model.timing.reduce = value;
  if (other.model.timing.shortest_compute() + value < 1) return std::nullopt;
  return other;
}

std::optional<Request> with_head_dim(const Request& request, std::int64_t value) {
  Request other = request;
  other.head_dim = value;
  Timing& timing = other.model.timing;
  for (Ticks* duration : {&timing.compute, &timing.reduce})
    *duration = *duration * value / request.head_dim;
  if (timing.compute_partial) {
    timing.compute_partial = *timing.compute_partial * value / request.head_dim;
  }
  if (timing.shortest_compute() + timing.reduce < 1) return std::nullopt;
  return other;
}

/// The mask with so many keys at the beginning that every query sees, in the place of those that it
/// has beside others.
Mask with_sinks(const Mask& mask, std::int64_t keys) {
  const auto is_sink = [](const Mask& part) {
    return part.family->name == std::string_view("global") && part.integers("tokens").empty() &&
           !part.boolean("symmetric");
  };
  std::vector<Mask> parts = {mask};
  if (mask.family->name == std::string_view("or")) {
    parts = mask.masks("of");
    // Where there is nothing but sinks they are the mask.
    if (!std::ranges::all_of(parts, is_sink)) std::erase_if(parts, is_sink);
  }
  if (keys > 0) parts.push_back(make_mask("global", {{"first", keys}}));
  return parts.size() == 1 ? parts.front() : make_mask("or", {{"of", std::move(parts)}});
}

std::optional<Request> with_sinks(const Request& request, std::int64_t value) {
  const Problem& problem = request.problem;
  Request other = request;
  other.problem = make_problem(with_sinks(problem.mask, value), problem.lengths, problem.shape,
                               problem.heads, problem.sms, problem.grouping());
  return other;
}

/// Whether an eighth of the keys has a tile, and sinks are more than what every query sees anyway.
bool can_have_sinks(const Request& request) {
  const Problem& problem = request.problem;
  if (is_of_tiles(problem.mask) || problem.lengths.kv / 8 < problem.shape.kv) return false;
  return with_sinks(request, problem.shape.kv)->problem.tasks() >
         with_sinks(request, 0)->problem.tasks();
}

std::vector<std::int64_t> doubling(std::int64_t most, std::int64_t least = 1) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = least; value <= most; value *= 2)
    values.push_back(value);
  return values;
}

}  // namespace

std::vector<Knob> knobs_of(const Request& request) {
  const Timing& timing = request.model.timing;
  const std::int64_t most_heads =
      std::min<std::int64_t>(4 * std::int64_t{request.problem.heads_kv}, kMaxHeads / 64);
  std::vector<Knob> knobs = {{"heads_kv", doubling(most_heads), with_heads}};
  if (request.problem.group() == 1) knobs.front().what = "heads";
  std::vector<std::int64_t> reductions = {0};
  if (timing.compute <= kLongest) {
    for (const std::int64_t part : {8, 4, 2, 1})
      reductions.push_back(std::max<Ticks>(timing.compute / part, reductions.back() + 1));
    reductions.push_back(2 * reductions.back());
    knobs.push_back({"reduce", reductions, with_reduce});
  }
  if (request.problem.group() == 1 && request.problem.heads > 1) {
    knobs.push_back({"heads_kv", {}, with_heads_kv});
    for (std::int64_t group = 1; group <= request.problem.heads; group *= 2)
      knobs.back().values.push_back(request.problem.heads / group);
    auto& values = knobs.back().values;
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }
  if (can_have_sinks(request)) {
    const Problem& problem = request.problem;
    knobs.push_back({"sinks", doubling(problem.lengths.kv / 8, problem.shape.kv), with_sinks});
    knobs.back().values.insert(knobs.back().values.begin(), 0);
  }
  if (timing.memory && std::max(timing.longest_compute(), timing.reduce) <= kLongest) {
    knobs.push_back({"head_dim", {32, 64, 96, 128, 192, 256, 512}, with_head_dim});
  }
  return knobs;
}

}  // namespace stagger::designs
