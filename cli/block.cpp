#include "cli/report/block.hpp"

#include "cli/builtin.hpp"
#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "workbench/block/bars.hpp"
#include "workbench/designs/analysis.hpp"

#include <array>
#include <string>
#include <utility>

namespace stagger::cli {
namespace {

/// `--expect` can ask for these.
constexpr std::array kBlockNames = {
    ExpectName{"total_ms", "what the block takes, to a nanosecond"},
    ExpectName{"attention_backward_ms", "of that, the backward pass of attention"},
    ExpectName{"fraction", "the part that this is, in millionths exactly"},
    ExpectName{"kernel_speedup", "of what replaces it"},
    ExpectName{"block_speedup", "of the block with that, by the rule of replacement"},
    ExpectName{"settled_speedup", "of the block with that at its own clock"},
};

/// The model as it is asked for.
block::Transformer model_of(const Options& options) {
  return block::with(find_model(options.transformer), {.ffn = options.ffn,
                                                       .heads_kv = options.block_heads_kv,
                                                       .window = options.window,
                                                       .seq = options.seq,
                                                       .batch = options.batch});
}

void expect_positive(const char* option, const std::optional<double>& value) {
  // Times of 1e7 ms and more, which is 2.8 hours, are mistakes of the unit.
  if (!value || (*value >= 1e-6 && *value <= 1e7)) return;
  throw Error(ErrorKind::usage,
              "--" + std::string(option) + " is not within 0.000001 and 10000000");
}

block::CostRequest cost_request(const Options& options) {
  expect_positive("kappa", options.kappa);
  expect_positive("attn-fwd-ms", options.attn_fwd_ms);
  expect_positive("attn-bwd-ms", options.attn_bwd_ms);
  expect_positive("new-attn-bwd-ms", options.new_attn_bwd_ms);
  expect_positive("block-ms", options.block_ms);
  expect_positive("speedup", options.speedup);
  return {.machine = find_machine(options.machine),
          .load = options.load,
          .ops = options.ops,
          .attention = options.attention,
          .tp = options.tp,
          .kappa = options.kappa,
          .norms = options.norms,
          .attention_forward_ms = options.attn_fwd_ms,
          .attention_backward_ms = options.attn_bwd_ms,
          .block_ms = options.block_ms};
}

/// What a design takes of a whole run.
std::pair<std::string, Ticks> played_design(const Options& options, const Problem& problem,
                                            const workbench::TimeModel& model,
                                            std::int64_t head_dim) {
  const designs::Selection selection = designs::select(options.design);
  designs::Request request{
      .problem = problem, .model = model, .head_dim = head_dim, .element_bytes = 2};
  if (!options.schedule.empty()) request.schedule = schedules::select(options.schedule);
  const designs::Analysis analysis = designs::analyze(selection, request);
  if (!analysis.ok()) {
    throw Error(ErrorKind::usage, analysis.plan.name + " does not end on this problem");
  }
  return {analysis.plan.name, analysis.takes()};
}

/// What replaces the attention backward pass; absent: nothing does.
std::optional<block::NewAttention> new_attention(const Options& options, BlockReport& report) {
  if (options.speedup) {
    return block::NewAttention{.ms = report.cost.attention_backward_ms / *options.speedup};
  }
  if (options.new_attn_bwd_ms) {
    return block::NewAttention{.ms = *options.new_attn_bwd_ms, .rested = options.rested};
  }
  if (options.schedule.empty() && options.design.empty()) return std::nullopt;
  workbench::AttentionBackwardRequest request{.schedule = options.schedule,
                                              .machine = report.machine,
                                              .tile_q = options.tile_q,
                                              .tile_kv = options.tile_kv};
  if (!options.design.empty()) {
    request.play = [&](const Problem& problem, const workbench::TimeModel& model) {
      return played_design(options, problem, model, report.model.head_dim);
    };
  }
  report.schedule =
      workbench::attention_backward(block::shard_of(report.model, report.tp), request);
  return block::NewAttention{.ms = 1e-6 * static_cast<double>(report.schedule->ns), .rested = true};
}

BlockReport block_report(const Options& options) {
  const block::CostRequest request = cost_request(options);
  BlockReport report{.model = model_of(options),
                     .machine = request.machine,
                     .load = options.load,
                     .tp = options.tp};
  report.cost = block::cost_of(report.model, request);
  if (const auto after = new_attention(options, report)) {
    report.replacement = block::replace(report.cost.total_ms, report.cost.attention_backward_ms,
                                        block::within_ms(*after, request, report.cost));
    report.settled = block::settle(report.model, request, report.cost, *after);
  }
  return report;
}

Values values_of(const BlockReport& report) {
  return {{"total_ms", millionths(report.cost.total_ms)},
          {"attention_backward_ms", millionths(report.cost.attention_backward_ms)},
          {"fraction", millionths(report.cost.fraction())},
          {"kernel_speedup", millionths(report.kernel_speedup())},
          {"block_speedup", millionths(report.block_speedup())},
          {"settled_speedup", millionths(report.settled_speedup())}};
}

int block_command(const Options& options) {
  const std::vector<Expectation> expectations = expectations_of(options.expect, kBlockNames);
  if (!options.output.empty() && options.output != "-" && !options.output.ends_with(".svg")) {
    throw Error(ErrorKind::usage,
                options.output + ": the extension is no known format; known: svg");
  }
  check_standard_output(options);
  if (options.attn_fwd_ms && options.attn_bwd_ms) {
    reject(given_of(options, "attention"), "means nothing beside --attn-fwd-ms and --attn-bwd-ms");
  }
  const BlockReport report = block_report(options);
  const Values values = values_of(report);
  const std::vector<Judgement> judgements = judge(expectations, &values);
  if (!options.output.empty()) {
    write_file(options.output, block::bars_svg(block_title(report), report.cost, report.replacement,
                                               report.settled));
  }
  if (options.output == "-") return all_hold(judgements) ? kHolds : kViolated;
  if (options.json) {
    write_stdout(block_json(report, judgements).text() + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(block_text(report, terminal), terminal);
  }
  return all_hold(judgements) ? kHolds : kViolated;
}

}  // namespace

extern const Command kBlock;
const Command kBlock{
    .name = "block",
    .summary = "A whole transformer block: what its kernels take, and what a schedule buys in it",
    .examples =
        "  stagger block --model llama3-8b --seq 16384 \\\n"
        "      --machine h200\n"
        "  stagger block --model llama3-8b --seq 16384 --attention flash-deterministic \\\n"
        "      --schedule symmetric-shift --machine h200 \\\n"
        "      --expect 'block_speedup >= 1.3'\n"
        "  stagger block --model llama3-8b --seq 16384 --machine h200 --load sustained\n"
        "  stagger block --model qwen2.5-7b --seq 8192 --speedup 1.259 \\\n"
        "      --machine h800 -o qwen.svg\n"
        "  stagger block --model llama3-8b --seq 16384 --block-ms 62.967 \\\n"
        "      --attn-bwd-ms 18.097 --new-attn-bwd-ms 30.425 \\\n"
        "      --machine h200 --json\n",
    .run = block_command,
    .names = [] { return std::vector(kBlockNames.begin(), kBlockNames.end()); },
};

}  // namespace stagger::cli
