#include "workbench/block/replacement.hpp"

#include "core/error.hpp"

#include <optional>

namespace stagger::block {

Replacement replace(double total_ms, double attention_backward_ms, double replaced_ms) {
  STAGGER_EXPECTS(attention_backward_ms > 0 && total_ms > attention_backward_ms && replaced_ms > 0);
  const double speedup = attention_backward_ms / replaced_ms;
  const double fraction = attention_backward_ms / total_ms;
  return {.attention_backward_ms = replaced_ms,
          .total_ms = total_ms - attention_backward_ms + replaced_ms,
          .kernel_speedup = speedup,
          .block_speedup = 1 / (1 - fraction * (1 - 1 / speedup))};
}

double within_ms(const NewAttention& attention, const CostRequest& request, const BlockCost& cost) {
  if (!attention.rested) return attention.ms;
  const BlockRates& rates = block_rates_of(request.machine, request.load);
  return rates.throttle.within_ms(attention.ms, cost.clock);
}

Settled settle(const Transformer& model, const CostRequest& request, const BlockCost& before,
               const NewAttention& after) {
  CostRequest anew = request;
  anew.attention_backward_ms = after.rested ? std::nullopt : std::optional(after.ms);
  anew.attention_backward_rested_ms = after.rested ? std::optional(after.ms) : std::nullopt;
  anew.block_ms = std::nullopt;
  const BlockCost cost = cost_of(model, anew);
  const double total_ms = before.total_ms + (cost.kernels_ms - before.kernels_ms);
  return {.clock = cost.clock,
          .tflops = cost.tflops,
          .total_ms = total_ms,
          .block_speedup = before.total_ms / total_ms};
}

double most_speedup(double fraction) {
  return 1 / (1 - fraction);
}

}  // namespace stagger::block
