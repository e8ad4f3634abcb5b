// What a problem is, and what is asked about it.

#include "cli/rows.hpp"
#include "schedules/schedule.hpp"
#include "workbench/designs/design.hpp"

#include <array>

namespace stagger::cli {
namespace {

constexpr const char* kSizes = "n seq seq-q seq-kv";

constexpr std::array kRanks = {
    Named<dag::LockValues>{"position", dag::LockValues::ranks, "among the live tiles"},
    Named<dag::LockValues>{"kv-index", dag::LockValues::absolute, "absolute lock values"}};
constexpr std::array kFileRanks = {
    Named<dag::LockValues>{"position", dag::LockValues::ranks, "the table's own"},
    Named<dag::LockValues>{"kv-index", dag::LockValues::absolute, "absolute lock values instead"}};

constexpr std::array kCombines = {Named<Combine>{combine_name(Combine::partials), Combine::partials,
                                                 "in a pass after the kernel"},
                                  Named<Combine>{combine_name(Combine::ordered), Combine::ordered,
                                                 "in turn, by a second semaphore"}};

std::vector<Word> span_words() {
  return {{kAutoSpan, "the largest whose chains are no longer than an SM's share"}};
}

}  // namespace

std::vector<Word> schedule_words() {
  std::vector<Word> words;
  for (const schedules::Schedule* schedule : schedules::all())
    words.push_back({schedule->name, schedule->summary});
  return words;
}

std::vector<Word> design_words() {
  std::vector<Word> words;
  for (const designs::Design* design : designs::all())
    words.push_back({design->name, design->summary});
  return words;
}

std::vector<OptionRow> problem_rows() {
  constexpr Group kGroup = Group::problem;
  return {
      {.name = "n",
       .metavar = "TILES",
       .meaning = "KV tiles, and Q tiles where tiles are square",
       .target = &Options::n,
       .commands = kOnProblems,
       .group = kGroup,
       .range = {.least = 1, .most = kMaxTiles},
       .excludes = "seq seq-q seq-kv",
       .replaces = kSizes},
      {.name = "seq",
       .metavar = "TOKENS",
       .meaning = "length of queries and keys, instead of --n",
       .target = &Options::seq,
       .commands = kOnProblems,
       .group = kGroup,
       .range = kTokens,
       .replaces = kSizes},
      {.name = "seq-q",
       .metavar = "TOKENS",
       .meaning = "length of the queries",
       .target = &Options::seq_q,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "--seq, or --seq-kv",
       .range = kTokens,
       .replaces = kSizes},
      {.name = "seq-kv",
       .metavar = "TOKENS",
       .meaning = "length of the keys",
       .target = &Options::seq_kv,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "--seq, or --seq-q",
       .range = kTokens,
       .replaces = kSizes},
      {.name = "tile-q",
       .metavar = "TOKENS",
       .meaning = "tokens of a Q tile",
       .target = &Options::tile_q,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "1, if that makes 256 tiles or fewer",
       .range = kTokens},
      {.name = "tile-kv",
       .metavar = "TOKENS",
       .meaning = "tokens of a KV tile",
       .target = &Options::tile_kv,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "1, if that makes 256 tiles or fewer",
       .range = kTokens},
      {.name = "heads",
       .metavar = "M",
       .meaning = "heads, the batch folded in",
       .target = &Options::heads,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "1, or those that the mask has masks for",
       .range = {.least = 1, .most = kMaxHeads}},
      {.name = "heads-kv",
       .metavar = "K",
       .meaning = "heads of K and V, each shared by as many of the heads (GQA, MQA)",
       .target = &Options::heads_kv,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "as many as heads",
       .range = {.least = 1, .most = kMaxHeads}},
      {.name = "span",
       .metavar = "P",
       .meaning = "heads of a chain, a divisor of those that share K and V; auto: by a rule",
       .target = &Options::span,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "auto",
       .proposed = span_words,
       .needs = "heads-kv"},
      {.name = "combine",
       .metavar = "HOW",
       .meaning = "where a group has several chains a KV tile, how their dK and dV are summed",
       .target = one_of<kCombines, &Options::combine>(),
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "partials, where there are several",
       .needs = "heads-kv"},
      {.name = "sms",
       .metavar = "SMS",
       .meaning = "SMs that share the work",
       .target = &Options::sms,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "the profile's with --machine, else one per KV tile",
       .range = kSms},
  };
}

std::vector<OptionRow> range_rows() {
  constexpr Group kGroup = Group::problem;
  return {
      {.name = "n",
       .metavar = "RANGE",
       .meaning = "KV and Q tiles, every pair; one SM per KV tile; N or FIRST..LAST",
       .target = &Options::n_range,
       .commands = "formulas",
       .group = kGroup,
       .fallback = "1..10"},
      {.name = "heads",
       .metavar = "RANGE",
       .meaning = "heads",
       .target = &Options::heads_range,
       .commands = "formulas",
       .group = kGroup,
       .fallback = "1..4"},
      {.name = "group",
       .metavar = "RANGE",
       .meaning = "heads that share K and V, all of a chain; --heads are those of K and V then",
       .target = &Options::group_range,
       .commands = "formulas",
       .group = kGroup,
       .fallback = "1"},
      {.name = "compute",
       .metavar = "RANGE",
       .meaning = "ticks of a compute phase",
       .target = &Options::compute_range,
       .commands = "formulas",
       .group = kGroup,
       .fallback = "1..4"},
      {.name = "reduce",
       .metavar = "RANGE",
       .meaning = "ticks of a reduction",
       .target = &Options::reduce_range,
       .commands = "formulas",
       .group = kGroup,
       .fallback = "0..4"},
  };
}

std::vector<OptionRow> schedule_rows() {
  constexpr Group kGroup = Group::schedule;
  return {
      {.name = "schedule",
       .metavar = "NAME",
       .meaning = "name or name:key=value, as `stagger list schedules` shows them",
       .target = &Options::schedule,
       .commands = "show analyze export run",
       .group = kGroup,
       .proposed = schedule_words,
       .replaces = "table timeline"},
      {.name = "schedule",
       .metavar = "NAME",
       .meaning = "name or name:key=value, as `stagger list schedules` shows them",
       .target = &Options::schedule,
       .commands = "bench",
       .group = kGroup,
       .fallback = "symmetric-shift",
       .proposed = schedule_words},
      {.name = "table",
       .metavar = "FILE",
       .meaning = "a table from a file: .json, .csv, or - for standard input",
       .target = &Options::table,
       .commands = "show analyze export run",
       .group = kGroup,
       .excludes = "schedule",
       .replaces = "schedule timeline"},
      {.name = "table",
       .metavar = "FILE",
       .meaning = "a table of yours beside the built-in ones; may be repeated",
       .target = &Options::tables,
       .commands = "compare",
       .group = kGroup},
      {.name = "tables",
       .metavar = "PATH",
       .meaning =
           "tables of runs that were of files: a .json, or a folder of them; may be repeated",
       .target = &Options::tables,
       .commands = "predict",
       .group = kGroup},
      {.name = "schedules",
       .metavar = "NAMES",
       .meaning = "only these, with commas between: shift,spt:swizzle=8",
       .target = &Options::schedules,
       .commands = "compare",
       .group = kGroup,
       .fallback = "all",
       .proposed = schedule_words},
      {.name = "design",
       .metavar = "NAME",
       .meaning =
           "name or name:key=value, as `stagger list designs` shows them: another way to sum",
       .target = &Options::design,
       .commands = "show analyze export run",
       .group = kGroup,
       .proposed = design_words,
       .excludes = "table timeline ranks expect limit"},
      {.name = "invariant",
       .meaning = "every head in the order of a batch of one, on fewer SMs if need be",
       .target = &Options::invariant,
       .commands = "show analyze export run",
       .group = kGroup,
       .excludes = "design",
       .needs = "schedule"},
      {.name = "invariant",
       .meaning = "every head in the order of a batch of one, on fewer SMs if need be",
       .target = &Options::invariant,
       .commands = "compare",
       .group = kGroup,
       .excludes = "table designs"},
      {.name = "designs",
       .meaning = "every deterministic design, not only the ordered one by each schedule",
       .target = &Options::designs,
       .commands = "compare",
       .group = kGroup,
       .excludes = "table baseline ranks expect limit"},
      {.name = "steady",
       .metavar = "WORDS",
       .meaning =
           "what bits must not move with, as sms,batch: of sms, batch, tile-q, tile-kv, splits, "
           "ranks, timing, pairs, gemm and workspace; tiles is both tile-q and tile-kv",
       .target = &Options::steady,
       .commands = "advise",
       .group = kGroup},
      {.name = "baseline",
       .metavar = "NAME",
       .meaning = "a schedule, or a table's name: how many times as fast as it the others are",
       .target = &Options::baseline,
       .commands = "compare",
       .group = kGroup,
       .proposed = schedule_words},
      {.name = "ranks",
       .metavar = "RANKS",
       .meaning = "what the lock values count",
       .target = one_of<kRanks, &Options::ranks>(),
       .commands = "show analyze compare export run",
       .group = kGroup,
       .fallback = "position"},
      {.name = "ranks",
       .metavar = "RANKS",
       .meaning = "what the lock values count",
       .target = one_of<kFileRanks, &Options::ranks>(),
       .commands = "verify",
       .group = kGroup,
       .fallback = "position"},
      {.name = "timeline",
       .metavar = "FILE",
       .meaning =
           "draw a timeline from a file; several, or one and a schedule: one above the other",
       .target = &Options::timelines,
       .commands = "export",
       .group = kGroup,
       .replaces = "schedule table"},
  };
}

}  // namespace stagger::cli
