#pragma once

#include "core/block_rates.hpp"
#include "core/formats/mask_export.hpp"
#include "core/timing.hpp"
#include "dag/verify.hpp"
#include "gpu/check/backward.hpp"
#include "workbench/block/operations.hpp"
#include "workbench/execution.hpp"
#include "workbench/tickets/rules.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger::cli {

enum class Device { cpu, cuda };
enum class Color { automatic, always, never };
enum class Topic { masks, schedules, designs };  ///< of `list`
enum class Shell { bash, zsh, fish };
enum class Passes { forward, both };  ///< of `overlap`

/// Every option of every command, as it was given. Names are the long option names.
struct Options {
  // problem
  std::string mask = "causal";
  std::string mask_file;
  std::string mask_format;                ///< empty: by what is in the file
  std::optional<std::int64_t> mask_head;  ///< where a file's masks differ
  std::optional<bool> mask_causal;        ///< where a file leaves that open
  std::optional<std::int64_t> n;
  std::optional<std::int64_t> seq;
  std::optional<std::int64_t> seq_q;
  std::optional<std::int64_t> seq_kv;
  std::optional<std::int64_t> tile_q;  ///< absent: 1
  std::optional<std::int64_t> tile_kv;
  std::optional<std::int64_t> heads;     ///< absent: as many as the mask has masks for, or 1
  std::optional<std::int64_t> heads_kv;  ///< absent: as many as heads
  std::string span = "auto";             ///< or heads of a chain
  std::optional<Combine> combine;        ///< absent: partials
  std::int64_t sms = 0;

  // timing model
  std::optional<Model> model;  ///< absent: the profile's, else chain
  bool slot_model = false;     ///< of `optimize`: no collisions, in rounds
  std::optional<Ticks> compute;
  std::optional<Ticks> compute_partial;
  std::optional<std::int64_t> steps;
  bool cut_partial = false;
  std::optional<Ticks> reduce;
  std::optional<Ticks> latency;
  std::optional<Ticks> launch;
  std::optional<Ticks> epilogue;
  std::optional<Ticks> reduce_kv;
  bool reduce_kv_async = false;
  std::optional<Ticks> next_lane;
  std::optional<Release> release;  ///< absent: the profile's, else immediate
  std::int64_t residency = 0;
  std::optional<std::int64_t> l2;         ///< bytes
  std::optional<std::int64_t> bandwidth;  ///< bytes a tick
  std::optional<std::int64_t> add_permille;
  std::optional<Ticks> memory_latency;
  std::optional<Ticks> congestion;
  std::optional<Ticks> spread;
  std::optional<Ticks> dip;
  std::optional<Ticks> dip_loss;
  std::optional<std::int64_t> draw;
  std::string machine;  ///< a profile's file; empty: none

  // schedule
  std::string schedule;
  std::string table;
  std::vector<std::string> tables;  ///< of `compare` and `predict`
  std::string schedules;            ///< of `compare`: names; empty: all
  std::string design;               ///< empty: none, a schedule or a table is played
  std::string steady;               ///< of `advise`: what bits must not move with
  bool designs = false;             ///< of `compare`: they, not schedules alone
  bool invariant = false;           ///< every head in one order, on fewer SMs if need be
  std::string baseline;             ///< of `compare`; empty: none
  dag::LockValues ranks = dag::LockValues::ranks;

  // output
  bool json = false;
  bool csv = false;
  bool markdown = false;
  Color color = Color::automatic;
  bool ascii = false;
  std::int64_t width = 0;
  std::string output;
  std::string format;
  std::string as;                         ///< a layout of tensors; empty: none
  std::optional<formats::Ragged> ragged;  ///< absent: the layout's
  std::vector<std::string> timelines;
  std::vector<std::string> expect;
  std::vector<std::string> measured;  ///< predict: files and folders of runs
  std::optional<std::int64_t> limit;
  bool check = false;

  // formulas
  std::string n_range = "1..10";
  std::string heads_range = "1..4";
  std::string group_range = "1";
  std::string compute_range = "1..4";
  std::string reduce_range = "0..4";

  // optimize and run
  std::int64_t threads = 0;  ///< 0: as many as the machine has
  std::int64_t seed = 1;

  // optimize
  double time_limit = 60;
  std::int64_t effort = 100;
  std::int64_t finalists = 0;  ///< the best tables that are run on the GPU; 0: none
  std::string proof;
  std::int64_t rounds = 0;  ///< of a question to a solver; 0: the bound
  std::string solution;
  std::string archive;
  std::int64_t every = 1;

  // run
  Device device = Device::cpu;
  const workbench::Kernel* kernel = &workbench::kernels().front();
  std::optional<std::int64_t> tick_ns;  ///< absent: 1000
  gpu::Mode mode = gpu::Mode::deterministic;
  gpu::Dtype dtype = gpu::Dtype::fp32;
  bool no_partials = false;
  bool memory = false;                            ///< of `calibrate`
  bool overlap = false;                           ///< likewise
  std::string measured_kernels;                   ///< a file: --measured
  std::string measured_blocks;                    ///< likewise, a file: --block
  std::string base = "h200-cudnn";                ///< likewise, what is not measured: --calibration
  bool summary = false;                           ///< of `predict`
  std::optional<workbench::Reference> reference;  ///< absent: by the problem's size
  std::int64_t head_dim = 64;
  std::int64_t runs = 10;  ///< --repeat
  std::optional<std::int64_t> perturb;
  std::int64_t timeout_ms = 10'000;
  std::optional<double> dropped;  ///< --dropout of `run`; absent: nothing is dropped
  gpu::MaskBits mask_bits = gpu::MaskBits::generated;
  std::int64_t dropout_seed = 1;
  std::int64_t dropout_offset = 0;

  // block
  std::string transformer;  ///< a model's name or file
  std::optional<std::int64_t> batch;
  std::int64_t tp = 1;
  std::optional<std::int64_t> ffn;
  std::optional<std::int64_t> block_heads_kv;
  std::optional<std::int64_t> window;
  std::optional<Load> load;  ///< absent: that of the profile's first rates
  std::optional<Ops> ops;    ///< absent: the profile's first
  std::string attention;     ///< empty: likewise
  std::optional<double> kappa;
  std::optional<block::Norms> norms;  ///< absent: nothing is counted
  std::optional<double> attn_fwd_ms;
  std::optional<double> attn_bwd_ms;
  std::optional<double> new_attn_bwd_ms;
  bool rested = false;  ///< that time is of a kernel alone that rested before
  std::optional<double> block_ms;
  std::optional<double> speedup;

  // overlap
  std::optional<std::int64_t> attention_heads;
  std::int64_t attention_dim = 128;
  std::int64_t philox = 7;  ///< of `run` too
  std::int64_t bits = 8;    ///< of `run` too
  std::int64_t layers = 1;
  double dropout = 0.1;
  std::string calibration = "paper";
  std::optional<double> gemm_tflops;
  std::optional<double> attn_tflops;
  std::optional<double> room;
  std::optional<double> x;
  std::string sweep;
  Passes passes = Passes::forward;

  // lint and diff
  std::vector<std::string> linted;      ///< files
  std::vector<std::string> compared;    ///< of `diff`: two files
  const tickets::Rule* rule = nullptr;  ///< to explain
  std::optional<Dispatch> dispatch;     ///< absent: the file's
  std::string junit;
  std::string sarif;
  bool minimize = false;

  std::int64_t repeat = 5;
  std::string topic;  ///< of `help`: a command; empty: all
  Topic listed = Topic::masks;
  Shell shell = Shell::bash;
  std::string config;
  bool help = false;

  friend bool operator==(const Options&, const Options&) = default;

  [[nodiscard]] TileShape tile() const { return {tile_q.value_or(1), tile_kv.value_or(1)}; }

  /// What a tick lasts in a replay.
  [[nodiscard]] std::int64_t replay_tick_ns() const { return tick_ns.value_or(1000); }

  /// Whether any problem option was given on the command line or in the config.
  bool problem_given = false;
  /// The names of what the command line gives, without a config's.
  std::vector<std::string> given;
};

}  // namespace stagger::cli
