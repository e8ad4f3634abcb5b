#include "workbench/attention_backward.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "workbench/analysis.hpp"

#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

Mask mask_of(const block::Transformer& model) {
  if (model.attention == block::Attention::full) return make_mask("full");
  if (model.attention == block::Attention::causal) return make_mask("causal");
  return make_mask("sliding", {{"left", model.window - 1}, {"right", std::int64_t{0}}});
}

/// The entries of the kernel that fit what is asked for.
std::vector<const KernelTimes*> entries_of(const block::Transformer& model,
                                           const AttentionBackwardRequest& request) {
  std::vector<const KernelTimes*> entries;
  std::string known;
  for (const KernelTimes& times : request.machine.kernels) {
    const KernelKey& key = times.key;
    known += "\n  " + describe(key);
    if (key.kernel != request.kernel || key.dtype != "bf16" || key.head_dim != model.head_dim) {
      continue;
    }
    if (request.tile_q.value_or(key.tile.q) != key.tile.q) continue;
    if (request.tile_kv.value_or(key.tile.kv) != key.tile.kv) continue;
    entries.push_back(&times);
  }
  if (!entries.empty()) return entries;
  throw Error(ErrorKind::usage,
              "the machine profile '" + request.machine.name + "' has no times of " +
                  request.kernel + ", bf16, head_dim " + std::to_string(model.head_dim) +
                  (request.tile_q || request.tile_kv ? ", of these tiles" : "") +
                  (known.empty() ? "; it has none at all" : "; it has those of" + known));
}

AttentionBackward played(const block::Transformer& model, const AttentionBackwardRequest& request,
                         const KernelTimes& times) {
  const Checked heads = Checked(model.batch) * model.heads;
  if (!heads.within(std::int64_t{1} << 40)) {
    throw Error(ErrorKind::limit, "too many heads in all sequences");
  }
  const Problem problem = make_problem(mask_of(model), {model.seq, model.seq}, times.key.tile,
                                       heads.value(), request.machine.sms);
  const TimeModel time = time_model_of({.kernel = times.key, .machine = request.machine}, problem);
  if (request.play) {
    auto [name, ns] = request.play(problem, time);
    return {std::move(name), times.key, ns};
  }
  const Analysis analysis = analyze(source_of(schedules::select(request.schedule), problem, time));
  if (!analysis.ok()) {
    throw Error(ErrorKind::usage, analysis.name + " does not end on this problem");
  }
  return {analysis.name, times.key, time.elapsed(analysis.makespan)};
}

}  // namespace

AttentionBackward attention_backward(const block::Transformer& model,
                                     const AttentionBackwardRequest& request) {
  std::optional<AttentionBackward> best;
  std::optional<Error> unsupported;
  for (const KernelTimes* times : entries_of(model, request)) {
    try {
      AttentionBackward one = played(model, request, *times);
      if (!best || one.ns < best->ns) best = std::move(one);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      unsupported = error;
    }
  }
  if (!best) throw Error(unsupported.value());
  return *best;
}

}  // namespace stagger::workbench
