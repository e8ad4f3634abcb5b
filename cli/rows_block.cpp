// A whole transformer block, and dropout bits behind its GEMMs.

#include "cli/rows.hpp"
#include "core/block_rates.hpp"
#include "workbench/block/transformer.hpp"
#include "workbench/builtin_machines.hpp"

#include <array>

namespace stagger::cli {
namespace {

constexpr Range kWidths = {.least = 1, .most = std::int64_t{1} << 20};
constexpr Range kHeadCounts = {.least = 1, .most = 4096};

constexpr std::array kPasses = {
    Named<Passes>{"forward", Passes::forward, "the paper's"},
    Named<Passes>{"both", Passes::both, "the backward pass too, which needs the same bits"}};

constexpr std::array kOps = {
    Named<Ops>{name(Ops::eager), Ops::eager, "a kernel for each operation"},
    Named<Ops>{name(Ops::compiled), Ops::compiled, "fused"}};

constexpr std::array kLoads = {
    Named<Load>{name(Load::burst), Load::burst, "for a fraction of a second, as benchmarks run"},
    Named<Load>{name(Load::sustained), Load::sustained, "for whole seconds, as training runs"}};

constexpr std::array kNorms = {
    Named<block::Norms>{block::kNormsNames[0], block::Norms::fused, "one kernel"},
    Named<block::Norms>{block::kNormsNames[1], block::Norms::fp32,
                        "RMS norms in fp32, a kernel for each operation"}};

std::vector<Word> file_words(std::span<const block::BuiltinFile> files) {
  std::vector<Word> words;
  for (const block::BuiltinFile& file : files)
    words.push_back({file.name});
  return words;
}

std::vector<Word> model_words() {
  return file_words(block::builtin_models());
}

std::vector<Word> calibration_words() {
  return file_words(block::builtin_calibrations());
}

}  // namespace

std::vector<Word> machine_words() {
  return file_words(workbench::builtin_machines());
}

namespace {

std::vector<OptionRow> model_rows() {
  constexpr Group kGroup = Group::problem;
  return {
      {.name = "model",
       .metavar = "MODEL",
       .meaning = "a model's name, or a file of dimensions (stagger.model/1)",
       .target = &Options::transformer,
       .commands = "block",
       .group = kGroup,
       .proposed = model_words,
       .required = true},
      {.name = "seq",
       .metavar = "TOKENS",
       .meaning = "tokens of a sequence",
       .target = &Options::seq,
       .commands = "block",
       .group = kGroup,
       .fallback = "the model's",
       .range = kTokens},
      {.name = "batch",
       .metavar = "N",
       .meaning = "sequences",
       .target = &Options::batch,
       .commands = "block",
       .group = kGroup,
       .fallback = "the model's",
       .range = kTokens},
      {.name = "tp",
       .metavar = "DEVICES",
       .meaning = "tensor parallel: devices that share heads and FFN; what they send is not timed",
       .target = &Options::tp,
       .commands = "block",
       .group = kGroup,
       .fallback = "1",
       .range = {.least = 1, .most = 1024}},
      {.name = "ffn",
       .metavar = "ELEMENTS",
       .meaning = "the FFN's width, where the model's is uncertain",
       .target = &Options::ffn,
       .commands = "block",
       .group = kGroup,
       .fallback = "the model's",
       .range = kWidths},
      {.name = "heads-kv",
       .metavar = "HEADS",
       .meaning = "its KV heads, likewise",
       .target = &Options::block_heads_kv,
       .commands = "block",
       .group = kGroup,
       .fallback = "the model's",
       .range = kHeadCounts},
      {.name = "window",
       .metavar = "TOKENS",
       .meaning = "keys that a query sees, likewise; 0: all before it",
       .target = &Options::window,
       .commands = "block",
       .group = kGroup,
       .fallback = "the model's",
       .range = {.least = 0, .most = kMaxTokens}},
  };
}

std::vector<OptionRow> attention_rows() {
  constexpr Group kGroup = Group::schedule;
  constexpr const char* kReplacements = "schedule design speedup new-attn-bwd-ms";
  return {
      {.name = "attention",
       .metavar = "NAME",
       .meaning = "the attention whose rates the profile has",
       .target = &Options::attention,
       .commands = "block",
       .group = kGroup,
       .fallback = "the first that fits"},
      {.name = "attn-fwd-ms",
       .metavar = "MILLISECONDS",
       .meaning = "what its forward pass takes, instead",
       .target = &Options::attn_fwd_ms,
       .commands = "block",
       .group = kGroup},
      {.name = "attn-bwd-ms",
       .metavar = "MILLISECONDS",
       .meaning = "what its backward pass takes, instead",
       .target = &Options::attn_bwd_ms,
       .commands = "block",
       .group = kGroup},
      {.name = "schedule",
       .metavar = "NAME",
       .meaning = "replace the backward pass by the profile's hopper kernel with this schedule",
       .target = &Options::schedule,
       .commands = "block",
       .group = kGroup,
       .proposed = schedule_words,
       .excludes = "speedup new-attn-bwd-ms"},
      {.name = "design",
       .metavar = "NAME",
       .meaning = "replace it by a deterministic design (`stagger list designs`), by --schedule "
                  "where it plays one",
       .target = &Options::design,
       .commands = "block",
       .group = kGroup,
       .proposed = design_words,
       .excludes = "speedup new-attn-bwd-ms"},
      {.name = "tile-q",
       .metavar = "TOKENS",
       .meaning = "its Q tiles",
       .target = &Options::tile_q,
       .commands = "block",
       .group = kGroup,
       .fallback = "the profile's fastest",
       .range = {.least = 1, .most = 4096},
       .needs = "schedule design"},
      {.name = "tile-kv",
       .metavar = "TOKENS",
       .meaning = "its KV tiles",
       .target = &Options::tile_kv,
       .commands = "block",
       .group = kGroup,
       .fallback = "the profile's fastest",
       .range = {.least = 1, .most = 4096},
       .needs = "schedule design"},
      {.name = "speedup",
       .metavar = "S",
       .meaning = "replace the backward pass by one that is S times as fast",
       .target = &Options::speedup,
       .commands = "block",
       .group = kGroup,
       .excludes = "schedule design new-attn-bwd-ms"},
      {.name = "new-attn-bwd-ms",
       .metavar = "MILLISECONDS",
       .meaning = "replace the backward pass by one that takes so long",
       .target = &Options::new_attn_bwd_ms,
       .commands = "block",
       .group = kGroup,
       .excludes = "schedule design speedup"},
      {.name = "rested",
       .meaning = "that time is of a kernel alone that rested before; within a block, whose clock "
                  "is lower, it takes longer",
       .target = &Options::rested,
       .commands = "block",
       .group = kGroup,
       .needs = "new-attn-bwd-ms"},
      {.name = "block-ms",
       .metavar = "MILLISECONDS",
       .meaning = "the block before that, as measured, instead of its kernels' sum",
       .target = &Options::block_ms,
       .commands = "block",
       .group = kGroup,
       .needs = kReplacements},
  };
}

}  // namespace

std::vector<OptionRow> block_rows() {
  std::vector<OptionRow> rows = model_rows();
  const std::vector<OptionRow> attention = attention_rows();
  rows.insert(rows.end(), attention.begin(), attention.end());
  const std::vector<OptionRow> rates = {
      {.name = "machine",
       .metavar = "MACHINE",
       .meaning = "a profile's name, or a file of one, which says what kernels take (its `block`)",
       .target = &Options::machine,
       .commands = "block",
       .group = Group::machine,
       .proposed = machine_words,
       .required = true},
      {.name = "load",
       .metavar = "LOAD",
       .meaning = "how long the device has been at work, as it heats and lowers its clock",
       .target = one_of<kLoads, &Options::load>(),
       .commands = "block",
       .group = Group::machine,
       .fallback = "what the profile has first"},
      {.name = "ops",
       .metavar = "OPS",
       .meaning = "how elementwise operations are run",
       .target = one_of<kOps, &Options::ops>(),
       .commands = "block",
       .group = Group::machine,
       .fallback = "what the profile has",
       .excludes = "kappa"},
      {.name = "kappa",
       .metavar = "K",
       .meaning = "how many times the least time of their bytes they take",
       .target = &Options::kappa,
       .commands = "block",
       .group = Group::machine,
       .fallback = "the profile's"},
      {.name = "norms",
       .metavar = "NORMS",
       .meaning = "count eager operations one by one, by the profile's rates of them; norms as",
       .target = one_of<kNorms, &Options::norms>(),
       .commands = "block",
       .group = Group::machine,
       .excludes = "ops kappa"},
  };
  rows.insert(rows.end(), rates.begin(), rates.end());
  return rows;
}

std::vector<OptionRow> overlap_rows() {
  constexpr Group kGroup = Group::problem;
  constexpr const char* kOne = "overlap";
  return {
      {.name = "heads",
       .metavar = "HEADS",
       .meaning = "heads of a sequence",
       .target = &Options::attention_heads,
       .commands = kOne,
       .group = kGroup,
       .range = {.least = 1, .most = kMaxHeads},
       .excludes = "x sweep"},
      {.name = "seq",
       .metavar = "TOKENS",
       .meaning = "tokens of a sequence",
       .target = &Options::seq,
       .commands = kOne,
       .group = kGroup,
       .range = kTokens,
       .excludes = "x sweep"},
      {.name = "batch",
       .metavar = "N",
       .meaning = "sequences",
       .target = &Options::batch,
       .commands = kOne,
       .group = kGroup,
       .fallback = "1",
       .range = kTokens,
       .excludes = "x"},
      {.name = "head-dim",
       .metavar = "ELEMENTS",
       .meaning = "elements of a query; the hidden size is heads times that",
       .target = &Options::attention_dim,
       .commands = kOne,
       .group = kGroup,
       .fallback = "128",
       .range = {.least = 1, .most = 4096}},
      {.name = "x",
       .metavar = "X",
       .meaning = "the speedup at this ratio of tokens to heads alone",
       .target = &Options::x,
       .commands = kOne,
       .group = kGroup,
       .excludes = "sweep"},
      {.name = "sweep",
       .metavar = "RANGES",
       .meaning = "many shapes: seq=2048:65536,heads=48 (and ,64,96 …); tokens double each time",
       .target = &Options::sweep,
       .commands = kOne,
       .group = kGroup},
      {.name = "pass",
       .metavar = "PASS",
       .meaning = "which passes of the block",
       .target = one_of<kPasses, &Options::passes>(),
       .commands = kOne,
       .group = kGroup,
       .fallback = "forward",
       .excludes = "x"},
      {.name = "layers",
       .metavar = "N",
       .meaning = "layers whose bits are kept at once",
       .target = &Options::layers,
       .commands = kOne,
       .group = kGroup,
       .fallback = "1",
       .range = {.least = 1, .most = 10'000},
       .excludes = "x"},
      {.name = "dropout",
       .metavar = "P",
       .meaning = "the probability that an element is dropped",
       .target = &Options::dropout,
       .commands = kOne,
       .group = kGroup,
       .fallback = "0.1"},
      {.name = "philox",
       .metavar = "ROUNDS",
       .meaning = "rounds of Philox-4x32",
       .target = &Options::philox,
       .commands = kOne,
       .group = kGroup,
       .fallback = "7",
       .range = {.least = 1, .most = 64}},
      {.name = "bits",
       .metavar = "BITS",
       .meaning = "random bits that decide on an element",
       .target = &Options::bits,
       .commands = kOne,
       .group = kGroup,
       .fallback = "8",
       .range = {.least = 1, .most = 32}},
      {.name = "overlap",
       .meaning = "measure GEMMs, and dropout's bits alone and beside them, for `stagger overlap`",
       .target = &Options::overlap,
       .commands = "calibrate",
       .group = Group::run,
       .excludes = "kernel tick-ns dtype head-dim tile-q tile-kv memory timeout"},
      {.name = "block",
       .metavar = "FILE",
       .meaning = "fit the rates of blocks to what scripts/bench_block.py measured; without a GPU",
       .target = &Options::measured_blocks,
       .commands = "calibrate",
       .group = Group::run,
       .excludes = "kernel device tick-ns dtype head-dim tile-q tile-kv memory timeout overlap"},
      {.name = "calibration",
       .metavar = "NAME",
       .meaning =
           "with --overlap, whose backward pass it has: a calibration's name, or a file of one",
       .target = &Options::base,
       .commands = "calibrate",
       .group = Group::run,
       .fallback = "h200-cudnn",
       .proposed = calibration_words,
       .needs = "overlap"},
      {.name = "calibration",
       .metavar = "NAME",
       .meaning = "a calibration's name, or a file of one",
       .target = &Options::calibration,
       .commands = kOne,
       .group = Group::machine,
       .fallback = "paper",
       .proposed = calibration_words},
      {.name = "gemm-tflops",
       .metavar = "TFLOPS",
       .meaning = "the GEMMs' rate",
       .target = &Options::gemm_tflops,
       .commands = kOne,
       .group = Group::machine,
       .fallback = "the calibration's"},
      {.name = "attn-tflops",
       .metavar = "TFLOPS",
       .meaning = "the rate of attention's forward pass",
       .target = &Options::attn_tflops,
       .commands = kOne,
       .group = Group::machine,
       .fallback = "the calibration's"},
      {.name = "room",
       .metavar = "FACTOR",
       .meaning = "how much longer a GEMM takes that leaves room for the RNG",
       .target = &Options::room,
       .commands = kOne,
       .group = Group::machine,
       .fallback = "the calibration's"},
  };
}

}  // namespace stagger::cli
