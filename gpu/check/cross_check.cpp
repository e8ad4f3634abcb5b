#include "gpu/check/cross_check.hpp"

#include "core/error.hpp"
#include "core/rank_places.hpp"
#include "gpu/numerics/rounding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <future>

namespace stagger::gpu {
namespace {

/// Returns the slot of each rank, by (head, q, rank); nothing if the ranks of one (head, q) are not
/// 0 … k-1.
std::optional<std::vector<std::int64_t>> slots_by_rank(const Table& table) {
  const RankPlaces places(table.problem);
  std::vector<std::int64_t> slots(places.size(), -1);
  for (std::size_t index = 0; index < table.slots.size(); ++index) {
    const Slot& slot = table.slots[index];
    if (slot.rank < 0 || slot.rank >= table.problem.contributions(slot.task)) return {};
    slots[places.of(slot.task, slot.rank)] = static_cast<std::int64_t>(index);
  }
  if (std::ranges::count(slots, -1) > 0) return {};
  return slots;
}

/// Says what is wrong with the n-th addition to a dQ tile; `before` is the addition before, -1 =
/// none.
std::string order_fault(const Table& table, const Backward& backward, std::int32_t n,
                        std::int64_t slot, std::int64_t before) {
  const auto& [task, rank] = table.slots[slot];
  if (rank != n) {
    return describe(task) + " reduced after " + std::to_string(n) + " others, but has rank " +
           std::to_string(rank);
  }
  if (before < 0) return "";
  const std::int64_t turn = backward.times[at(slot)].turn;
  if (turn + backward.times_error_ns < backward.times[at(before)].reduce_end) {
    return describe(task) + " had its turn before " + describe(table.slots[before].task) +
           " had reduced";
  }
  return "";
}

/// Says what is wrong with the n-th addition to a KV tile's dK and dV; `before` is the part whose
/// addition came before, -1 = none.
std::string dkv_order_fault(const Table& table, const Backward& backward, std::int32_t n, KvTile kv,
                            Part part, Part before) {
  const Problem& problem = table.problem;
  const auto chain = [&](Part which) {
    return "the chain of KV tile " + std::to_string(kv.value) + " and heads " +
           std::to_string(which.value * problem.span) + " to " +
           std::to_string((which.value + 1) * problem.span - 1);
  };
  const std::int32_t rank = table.dkv_rank(part, kv);
  if (rank != n) {
    return chain(part) + " reduced into dK and dV after " + std::to_string(n) +
           " others, but has rank " + std::to_string(rank);
  }
  if (before.value < 0) return "";
  const auto& times = backward.chain_times;
  if (times[at(problem.chain_place(part, kv))].turn + backward.times_error_ns <
      times[at(problem.chain_place(before, kv))].end) {
    return chain(part) + " had its turn at dK and dV before " + chain(before) + " had reduced";
  }
  return "";
}

std::vector<std::string> dkv_order_faults(const Table& table, const Backward& backward,
                                          std::size_t limit) {
  std::vector<std::string> faults;
  if (backward.dkv_witness.empty()) return faults;
  const Problem& problem = table.problem;
  for (KvHead head{0}; head.value < problem.heads_kv; ++head) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      const std::int64_t first = problem.dkv_place(head, kv) * problem.group_parts();
      Part before{-1};
      for (std::int32_t n = 0; n < problem.dkv_contributions(head, kv); ++n) {
        const Part part{backward.dkv_witness[at(first + n)]};
        if (part.value < 0) break;  // the run stopped here
        const std::string fault = dkv_order_fault(table, backward, n, kv, part, before);
        if (!fault.empty()) faults.push_back(fault);
        if (faults.size() == limit) return faults;
        before = part;
      }
    }
  }
  return faults;
}

/// Whether the chains of every KV tile have the ranks 0 … k-1.
bool dkv_ranks_order(const Table& table) {
  const Problem& problem = table.problem;
  if (table.dkv_ranks.empty()) return true;
  for (KvHead head{0}; head.value < problem.heads_kv; ++head) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      std::vector<bool> seen(at(problem.group_parts()));
      for (std::int32_t place = 0; place < problem.group_parts(); ++place) {
        const Part part{head.value * problem.group_parts() + place};
        if (problem.chain_length(part, kv) == 0) continue;
        const std::int32_t rank = table.dkv_rank(part, kv);
        const bool fits = rank >= 0 && rank < problem.dkv_contributions(head, kv);
        if (!fits || seen[at(rank)]) return false;
        seen[at(rank)] = true;
      }
    }
  }
  return true;
}

}  // namespace

Deviation deviation(const std::vector<float>& gradient, const Exact& exact) {
  STAGGER_EXPECTS(gradient.size() == exact.values.size());
  double error = 0;
  double norm = 0;
  double most_error = 0;
  double most = 0;
  for (std::size_t index = 0; index < gradient.size(); ++index) {
    const double value = exact.values[index];
    const double difference = double{gradient[index]} - value;
    error += difference * difference;
    norm += value * value;
    // Not std::max, which would drop a difference that is not a number.
    if (!(std::abs(difference) <= most_error)) most_error = std::abs(difference);
    most = std::max(most, std::abs(value));
  }
  if (gradient.empty() || error == 0) return {};
  const double typical = exact.terms / std::sqrt(static_cast<double>(gradient.size()));
  return {.frobenius = std::sqrt(error) / std::max(std::sqrt(norm), exact.terms),
          .most = most_error / std::max(most, typical)};
}

double error_bound(const AttentionShape& shape, Dtype dtype) {
  const auto tokens = static_cast<double>(std::max(shape.group() * shape.seq_q, shape.seq_kv));
  const double of_sums = 8 * 0x1p-24 * std::sqrt(shape.head_dim + tokens);
  switch (dtype) {
    case Dtype::bf16:
      return of_sums + 6 * 0x1p-8;
    case Dtype::fp16:
      return of_sums + 6 * (0x1p-11 + 0x1p-25 * tokens);
    case Dtype::fp32:
      break;
  }
  return of_sums;
}

const char* error_bound_formula(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return "6 * 2^-8 + 8 * 2^-24 * sqrt(head_dim + max(group * seq_q, seq_kv))";
    case Dtype::fp16:
      return "6 * (2^-11 + 2^-25 * max(group * seq_q, seq_kv)) + "
             "8 * 2^-24 * sqrt(head_dim + max(group * seq_q, seq_kv))";
    case Dtype::fp32:
      break;
  }
  return "8 * 2^-24 * sqrt(head_dim + max(group * seq_q, seq_kv))";
}

std::string digest(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) {
      hash ^= bits >> shift & 0xff;
      hash *= 0x100000001b3;
    }
  }
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4)
    text += "0123456789abcdef"[hash >> shift & 0xf];
  return text;
}

Digests digests(const Gradients& gradients) {
  // A digest goes element by element; three can go beside each other.
  const auto begin = [](const std::vector<float>& values) {
    return std::async([&values] { return digest(values); });
  };
  auto dq = begin(gradients.dq);
  auto dk = begin(gradients.dk);
  auto dv = begin(gradients.dv);
  return {.dq = dq.get(), .dk = dk.get(), .dv = dv.get()};
}

double largest_difference(const std::vector<float>& left, const std::vector<float>& right) {
  STAGGER_EXPECTS(left.size() == right.size());
  double most = 0;
  for (std::size_t index = 0; index < left.size(); ++index)
    most = std::max(most, std::abs(double{left[index]} - double{right[index]}));
  return most;
}

std::vector<std::string> order_faults(const Table& table, const Backward& backward,
                                      std::size_t limit) {
  const Problem& problem = table.problem;
  const RankPlaces places(problem);
  std::vector<std::string> faults = dkv_order_faults(table, backward, limit);
  if (faults.size() == limit) return faults;
  for (Head head{0}; head.value < problem.heads; ++head) {
    for (QTile q{0}; q.value < problem.q_tiles(); ++q) {
      std::int64_t before = -1;
      for (std::int32_t n = 0; n < problem.contributions(head, q); ++n) {
        const std::int64_t slot = backward.witness[places.of({head, {}, q}, n)];
        if (slot < 0) break;  // the run stopped here
        const std::string fault = order_fault(table, backward, n, slot, before);
        if (!fault.empty()) faults.push_back(fault);
        if (faults.size() == limit) return faults;
        before = slot;
      }
    }
  }
  return faults;
}

std::optional<std::vector<float>> reaccumulate(const Table& table, const AttentionShape& shape,
                                               const std::vector<float>& partials) {
  const Problem& problem = table.problem;
  const auto slots = slots_by_rank(table);
  if (!slots) return std::nullopt;
  std::vector<float> dq(shape.q_elements(), 0);
  if (slots->empty()) return dq;
  const std::size_t elements = partials.size() / slots->size();
  for (const std::int64_t slot : *slots) {
    const Task& task = table.slots[slot].task;
    const std::size_t first = shape.q_row(task.head, task.q.value * problem.shape.q) * shape.dim();
    const std::size_t end =
        std::min(first + elements, shape.q_row(Head{task.head.value + 1}, 0) * shape.dim());
    const float* partial = &partials[at(slot) * elements];
    for (std::size_t index = first; index < end; ++index)
      dq[index] += partial[index - first];
  }
  return dq;
}

std::optional<DkvSums> reaccumulate_dkv(const Table& table, const Backward& run, Dtype dtype) {
  if (!dkv_ranks_order(table)) return std::nullopt;
  DkvSums sums{.dk = sum_of_parts(table, run.dk_partials),
               .dv = sum_of_parts(table, run.dv_partials)};
  if (!run.dk_sums.empty()) return sums;
  for (std::vector<float>* each : {&sums.dk, &sums.dv}) {
    // Such a pass begins with 0 and not with the first part: the sum of nothing but -0 is 0.
    for (float& sum : *each)
      sum = rounded(0.0F + sum, dtype);
  }
  return sums;
}

std::int64_t partial_bytes(const Table& table, const AttentionShape& shape) {
  const Problem& problem = table.problem;
  const double tile_q = static_cast<double>(std::min(problem.shape.q, problem.lengths.q));
  const double bytes = 4.0 * static_cast<double>(problem.tasks()) * tile_q * shape.head_dim;
  return static_cast<std::int64_t>(std::min(bytes, 0x1p61));
}

std::int64_t run_bytes(const Table& table, const AttentionShape& shape,
                       const BackwardOptions& options) {
  const Problem& problem = table.problem;
  const auto q = static_cast<double>(shape.q_elements());
  const auto kv = static_cast<double>(shape.kv_elements());
  const double dim = shape.head_dim;
  const double tile_q = dim * static_cast<double>(std::min(problem.shape.q, problem.lengths.q));
  const bool parts = problem.combine != Combine::none;
  const bool kept = problem.combine == Combine::partials || options.keep_partials;
  const double tile_kv = dim * static_cast<double>(std::min(problem.shape.kv, problem.lengths.kv));
  const double tensors = 4 * (2 * q + 2 * kv)    // inputs
                         + 8 * (2 * q + 2 * kv)  // O, reference
                         + 3 * 4 * (q + 2 * kv)  // two runs' gradients, re-accumulation
                         + (options.dtype == Dtype::fp32 ? 0 : 2 * 4 * q)  // two runs' dq_sums
                         + (parts ? 3 * 4 * 2 * kv : 0)  // two runs' sums, re-accumulation
                         + (kept && parts ? 2 * 4 * 2 * kv * problem.group_parts() : 0) +
                         16 * static_cast<double>(shape.q_rows());
  const double tasks =
      static_cast<double>(problem.tasks()) * (2 * sizeof(TaskTimes) + 2 * sizeof(std::int64_t));
  const double sms = 4.0 * resident_lanes(problem, options.residency) * (4 * tile_kv + tile_q);
  const std::int64_t partials = options.keep_partials ? partial_bytes(table, shape) : 0;
  return static_cast<std::int64_t>(std::min(tensors + tasks + sms, 0x1p61)) + partials;
}

}  // namespace stagger::gpu
