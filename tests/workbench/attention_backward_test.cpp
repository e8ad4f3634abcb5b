// The backward pass of a block's attention by a profile made up for it: which entries are asked,
// which problem is played and what the fastest of them comes to.

#include "workbench/attention_backward.hpp"

#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"

#include <string>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

KernelTimes entry(const char* kernel, const char* dtype, std::int64_t head_dim, TileShape tile,
                  Ticks compute) {
  return {.key = {.kernel = kernel, .dtype = dtype, .head_dim = head_dim, .tile = tile},
          .compute = {.value = compute},
          .reduce = {.value = 20},
          .start = {.value = 1'000}};
}

AttentionBackwardRequest request_with(std::vector<KernelTimes> kernels) {
  return {.schedule = "descending",
          .machine = {.name = "toy",
                      .device = "a toy",
                      .driver = "1",
                      .sms = 4,
                      .kernels = std::move(kernels),
                      .memory = std::nullopt}};
}

block::Transformer toy_model() {
  block::Transformer model{.name = "toy", .hidden = 64, .heads = 3, .heads_kv = 1};
  model.head_dim = 64;
  model.seq = 512;
  model.batch = 2;
  return model;
}

constexpr TileShape kSmall{.q = 64, .kv = 64};
constexpr TileShape kLarge{.q = 128, .kv = 64};

/// The makespan by hand: every head of every sequence has keys of its own.
Ticks by_hand(const Mask& mask, std::int64_t heads, TileShape tile, Ticks compute) {
  const Problem problem = make_problem(mask, {512, 512}, tile, heads, 4);
  const Table table = schedules::build(schedules::select("descending"), problem);
  return 1'000 + sim::simulate(table, {.compute = compute, .reduce = 20}).makespan;
}

TEST_CASE("every head of every sequence is played, under the mask of the model") {
  const AttentionBackwardRequest request = request_with({entry("hopper", "bf16", 64, kSmall, 300)});
  block::Transformer model = toy_model();
  model.attention = block::Attention::full;
  CHECK(attention_backward(model, request).ns == by_hand(make_mask("full"), 6, kSmall, 300));
  model.attention = block::Attention::causal;
  CHECK(attention_backward(model, request).ns == by_hand(make_mask("causal"), 6, kSmall, 300));
  model.attention = block::Attention::sliding;
  model.window = 65;  // a query sees itself and 64 keys before it: one tile less than 66 would
  CHECK(attention_backward(model, request).ns ==
        by_hand(parse_mask("sliding:left=64,right=0"), 6, kSmall, 300));
  model.window = 66;
  CHECK(attention_backward(model, request).ns >
        by_hand(parse_mask("sliding:left=64,right=0"), 6, kSmall, 300));
  model.attention = block::Attention::full;
  model.batch = 1;
  const AttentionBackward found = attention_backward(model, request);
  CHECK(found.ns == by_hand(make_mask("full"), 3, kSmall, 300));
  CHECK(found.schedule == "descending");
  CHECK(found.kernel.tile == kSmall);
}

TEST_CASE("heads of all sequences beyond any problem's are refused, whichever limit is first") {
  const AttentionBackwardRequest request = request_with({entry("hopper", "bf16", 64, kSmall, 300)});
  block::Transformer model = toy_model();
  const auto said = [&](std::int64_t batch) {
    model.batch = batch;
    return test::message_of([&] { static_cast<void>(attention_backward(model, request)); },
                            ErrorKind::limit);
  };
  for (const std::int64_t batch : {std::int64_t{1} << 30, (std::int64_t{1} << 40) / 3})
    CHECK(said(batch) == std::to_string(3 * batch) + " heads; at most 16777216 are supported");
  for (const std::int64_t batch : {(std::int64_t{1} << 40) / 3 + 1, std::int64_t{1} << 62})
    CHECK(said(batch) == "too many heads in all sequences");
}

TEST_CASE("of the entries of kernel, dtype, head_dim and tiles the fastest is taken") {
  const std::vector<KernelTimes> all = {
      entry("hopper", "bf16", 64, kSmall, 300), entry("hopper", "bf16", 64, kLarge, 500),
      entry("hopper", "bf16", 128, kSmall, 1), entry("hopper", "fp32", 64, kSmall, 1),
      entry("portable", "bf16", 64, kSmall, 1)};
  const block::Transformer model = toy_model();
  AttentionBackwardRequest request = request_with(all);
  CHECK(attention_backward(model, request).kernel == all[1].key);
  std::swap(request.machine.kernels[0], request.machine.kernels[1]);
  CHECK(attention_backward(model, request).kernel == all[1].key);
  request.tile_q = 64;
  CHECK(attention_backward(model, request).kernel == all[0].key);
  request.tile_kv = 64;
  CHECK(attention_backward(model, request).ns == by_hand(make_mask("causal"), 6, kSmall, 300));
  request.kernel = "portable";
  CHECK(attention_backward(model, request).kernel == all[4].key);
}

TEST_CASE("what a profile lacks is said with what it has") {
  const block::Transformer model = toy_model();
  const auto refused = [&](const AttentionBackwardRequest& request) {
    return test::message_of([&] { static_cast<void>(attention_backward(model, request)); },
                            ErrorKind::usage);
  };
  AttentionBackwardRequest request = request_with({});
  CHECK(refused(request) ==
        "the machine profile 'toy' has no times of hopper, bf16, head_dim 64; it has none at all");
  request = request_with({entry("hopper", "bf16", 128, kSmall, 1)});
  CHECK(refused(request) ==
        "the machine profile 'toy' has no times of hopper, bf16, head_dim 64; it has those of\n  "
        "hopper, bf16, head_dim 128, tiles of 64 x 64 tokens");
  for (const bool of_kv : {false, true}) {
    request = request_with({entry("hopper", "bf16", 64, kSmall, 1)});
    (of_kv ? request.tile_kv : request.tile_q) = 32;
    CHECK(refused(request).find("head_dim 64, of these tiles; it has") != std::string::npos);
  }
}

TEST_CASE("a schedule that applies to some tiles is taken there, and to none is unsupported") {
  const block::Transformer model = toy_model();
  // Symmetric shift needs KV tiles of a multiple of the Q tile's tokens.
  constexpr TileShape kOdd{.q = 96, .kv = 64};
  AttentionBackwardRequest request = request_with({entry("hopper", "bf16", 64, kOdd, 1)});
  request.schedule = "symmetric-shift";
  static_cast<void>(test::message_of([&] { static_cast<void>(attention_backward(model, request)); },
                                     ErrorKind::unsupported));
  request.machine.kernels.push_back(entry("hopper", "bf16", 64, kSmall, 300));
  CHECK(attention_backward(model, request).kernel.tile == kSmall);
  std::swap(request.machine.kernels[0], request.machine.kernels[1]);
  CHECK(attention_backward(model, request).kernel.tile == kSmall);
}

TEST_CASE("what plays instead of the schedule is given the problem and its times") {
  AttentionBackwardRequest request = request_with(
      {entry("hopper", "bf16", 64, kSmall, 300), entry("hopper", "bf16", 64, kLarge, 500)});
  std::vector<Problem> played;
  request.play = [&](const Problem& problem, const TimeModel& time) {
    played.push_back(problem);
    return std::pair(std::string("a design"), 10'000 - time.timing.compute);
  };
  const AttentionBackward found = attention_backward(toy_model(), request);
  REQUIRE(played.size() == 2);
  CHECK(played[0].heads == 6);
  CHECK(played[0].sms == 4);
  CHECK(played[1].shape == kLarge);
  CHECK(found.schedule == "a design");
  CHECK(found.ns == 9'500);
  CHECK(found.kernel.tile == kLarge);
}

}  // namespace
}  // namespace stagger::workbench
