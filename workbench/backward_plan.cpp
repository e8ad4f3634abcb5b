// `auto` must choose the same table wherever and whenever it is asked: it goes by predictions of a
// profile alone and times nothing. Ties are broken by what a user would rather have, never by time.

#include "workbench/backward_plan.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/order_digest.hpp"
#include "core/table_digest.hpp"
#include "core/text.hpp"
#include "core/token_mask.hpp"
#include "dag/bounds.hpp"
#include "gpu/check/attention.hpp"
#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "workbench/builtin_machines.hpp"
#include "workbench/invariance.hpp"
#include "workbench/time_model.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr std::int64_t kTileKv = 128;
constexpr std::int64_t kMostSlotBytes = std::int64_t{512} << 20;
constexpr std::int64_t kSlotBytes = 24;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

void check(const PlanRequest& request) {
  if (request.batch < 1 || request.heads_q < 1 || request.heads_kv < 1) {
    fail("batch, heads_q and heads_kv must be at least 1");
  }
  if (request.head_dim < 1 || request.head_dim > gpu::kMaxHeadDim)
    fail("head_dim must be 1 to " + std::to_string(gpu::kMaxHeadDim));
  if (request.tile_q < 0 || request.tile_kv < 0) fail("tile_q and tile_kv must not be negative");
  if (request.heads_q % request.heads_kv != 0) {
    fail("heads_kv must divide heads_q; " + std::to_string(request.heads_kv) + " does not divide " +
         std::to_string(request.heads_q));
  }
  const std::int64_t group = request.heads_q / request.heads_kv;
  if (request.span < 0 || (request.span > 0 && group % request.span != 0)) {
    fail("span must divide the " + std::to_string(group) + " heads of a KV head; " +
         std::to_string(request.span) + " does not");
  }
  if (request.launch == PlanLaunch::elastic && !request.verify) {
    fail("an elastic launch is for tables that are verified");
  }
}

/// Gradients go to whoever asks for a plan: they are those of a mask that is known pair by pair. In
/// a description of ours a partial tile of `tiles` is a lower triangle by definition.
void expect_known_pairs(const Mask& mask, const Problem& problem) {
  if (mask.origin.format.empty()) return;
  const std::int64_t tiles = assumed_tiles(problem);
  if (tiles == 0) return;
  throw Error(ErrorKind::unsupported,
              "the mask's file (" + mask.origin.format + ") does not say which pairs attend in " +
                  counted(tiles, "partial tile") +
                  ": give the mask in words, or, if each is a lower triangle, as `stagger export "
                  "--mask-file FILE -o NAME.mask.json` writes it");
}

const Machine& machine_of(const PlanRequest& request) {
  return request.machine ? *request.machine : default_machine();
}

/// The profile's entry of the hopper kernel at these tiles; fp16 goes by bf16's. nullptr if it has
/// none.
const KernelTimes* times_of(const PlanRequest& request, const TileShape& tile) {
  if (request.dtype == gpu::Dtype::fp32) return nullptr;
  for (const KernelTimes& times : machine_of(request).kernels) {
    const KernelKey& key = times.key;
    if (key.kernel == "hopper" && key.dtype == "bf16" && key.head_dim == request.head_dim &&
        key.tile == tile) {
      return &times;
    }
  }
  return nullptr;
}

/// What counts of the profile where the tiles are known.
Machine profile_part(const PlanRequest& request, const TileShape& tile) {
  Machine part = machine_of(request);
  part.kernels.clear();
  part.blocks.clear();
  if (const KernelTimes* const times = times_of(request, tile)) part.kernels.push_back(*times);
  return part;
}

Problem problem_of(const PlanRequest& request, std::int64_t tile_q, std::int64_t sms) {
  if (mask_heads(request.mask) > 0) {
    throw Error(ErrorKind::unsupported,
                "a plan does not know heads with masks of their own yet: give one mask for all");
  }
  const Checked kv_heads = Checked(request.batch) * request.heads_kv;
  const Checked heads = Checked(request.batch) * request.heads_q;
  if (!heads.within(std::int64_t{1} << 40)) throw Error(ErrorKind::limit, "too many heads");
  return make_problem(request.mask, request.lengths,
                      {tile_q, request.tile_kv == 0 ? kTileKv : request.tile_kv}, heads.value(),
                      sms, {.heads_kv = kv_heads.value(), .span = request.span});
}

/// A table and what it is predicted to take, 0 if the profile does not know.
struct Candidate {
  Table table;
  std::string schedule;
  std::optional<schedules::Selection> selection = {};
  Ticks predicted_ns = 0;
};

/// The profile's model of the kernel on a problem, its memory included; absent if it has none.
std::optional<TimeModel> model_of(const PlanRequest& request, const Problem& problem) {
  const KernelTimes* const times = times_of(request, problem.shape);
  if (times == nullptr) return std::nullopt;
  return time_model_of(machine_of(request), *times, problem, {});
}

/// What a run of a table takes, 0 if the profile does not know. A table whose phases alone take
/// `hopeless` or more is not played with the memory, which makes nothing shorter.
Ticks predicted_ns(const PlanRequest& request, const Table& table,
                   Ticks hopeless = std::numeric_limits<Ticks>::max()) {
  const std::optional<TimeModel> model = model_of(request, table.problem);
  if (!model || table.slots.empty()) return 0;
  const sim::Simulation played = sim::simulate(table, model->timing);
  if (!played.complete) return 0;
  const Ticks ns = model->elapsed(played.makespan);
  if (!model->timing.memory || ns >= hopeless) return ns;
  return model->elapsed(sim::play_memory(table, model->timing).makespan);
}

/// The timing that schedules which search are asked for.
Timing timing_of(const PlanRequest& request, const Problem& problem) {
  const std::optional<TimeModel> model = model_of(request, problem);
  if (!model) return {};
  Timing timing = model->timing;
  fit(timing, problem, problem.sms);
  return timing;
}

/// A schedule's table, on as many SMs as make it invariant if that is asked for. Absent if none do.
std::optional<Candidate> built(const PlanRequest& request, const schedules::Selection& selection,
                               const Problem& problem) {
  const Timing timing = timing_of(request, problem);
  std::optional<Table> table = request.invariant ? invariant_table(selection, problem, timing)
                                                 : schedules::build(selection, problem, timing);
  if (!table) return std::nullopt;
  return Candidate{.table = *std::move(table), .schedule = selection.text, .selection = selection};
}

bool is_invariant(const PlanRequest& request, const schedules::Selection& selection,
                  const Table& table) {
  return is_batch_invariant(selection, table, timing_of(request, table.problem));
}

/// Whether a mask that is of tiles has as many of them at this size.
bool fits_tiles(const PlanRequest& request, std::int64_t tile_q) {
  try {
    static_cast<void>(problem_of(request, tile_q, request.sms));
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_input) throw;
    return false;
  }
}

/// The tiles that a plan may have. A mask that is of tiles says which: if it fits none, all of them
/// may be asked why.
std::vector<std::int64_t> tiles_of(const PlanRequest& request) {
  if (request.tile_q > 0) return {request.tile_q};
  std::vector<std::int64_t> tiles;
  for (const KernelTimes& times : machine_of(request).kernels) {
    const TileShape tile = times.key.tile;
    if (tile.kv == (request.tile_kv == 0 ? kTileKv : request.tile_kv) &&
        times_of(request, tile) == &times) {
      tiles.push_back(tile.q);
    }
  }
  if (is_of_tiles(request.mask) &&
      std::ranges::any_of(tiles, [&](std::int64_t tile) { return fits_tiles(request, tile); })) {
    std::erase_if(tiles, [&](std::int64_t tile) { return !fits_tiles(request, tile); });
  }
  if (tiles.empty()) tiles.push_back(64);
  return tiles;
}

bool needs_one_cta(const Table& table) {
  Timing timing;
  timing.model = Model::overlap;
  return dag::check_liveness(table, timing).residency_needed <= 1;
}

/// A schedule at one of the tiles, if it meets what is asked for.
std::optional<Candidate> candidate_of(const PlanRequest& request,
                                      const schedules::Selection& selection, std::int64_t tile_q) {
  const Problem problem = problem_of(request, tile_q, request.sms);
  if (schedules::why_unsupported(selection, problem)) return std::nullopt;
  std::optional<Candidate> candidate = built(request, selection, problem);
  if (candidate && request.launch == PlanLaunch::elastic && !needs_one_cta(candidate->table)) {
    return std::nullopt;
  }
  return candidate;
}

/// What a candidate has to be faster than to be taken in the place of the best before it, which has
/// the smaller tiles and the simpler schedule: 1 % less than that takes.
Ticks to_beat(const Candidate& best) {
  return divide_up(99 * best.predicted_ns, Ticks{100});
}

bool beats(const Candidate& candidate, const Candidate& best) {
  return candidate.predicted_ns > 0 && candidate.predicted_ns < to_beat(best);
}

/// What is asked for with every span that it leaves open, from one head a chain, which is the
/// easiest to pack, to all that share K and V.
std::vector<PlanRequest> with_spans(const PlanRequest& request) {
  if (request.span > 0) return {request};
  std::vector<PlanRequest> requests;
  const std::int64_t group = request.heads_q / request.heads_kv;
  for (std::int64_t span = 1; span <= group; ++span) {
    if (group % span != 0) continue;
    requests.push_back(request);
    requests.back().span = span;
  }
  return requests;
}

constexpr const char* kAuto = "auto";
constexpr const char* kAutoSearch = "auto:search";

bool is_automatic(const std::string& schedule) {
  return schedule == kAuto || schedule == kAutoSearch;
}

/// The schedules that are tried, from the simplest; what searches, if that is asked for, is last.
/// It has several orders of heads, so that no invariant plan takes it.
std::vector<schedules::Selection> selections_of(const PlanRequest& request) {
  if (!is_automatic(request.schedule)) {
    if (request.schedule.starts_with(kAuto)) {
      fail("unknown schedule '" + request.schedule + "'; it is " + kAuto + ", " + kAutoSearch +
           " or one of `stagger list schedules`");
    }
    return {schedules::select(request.schedule)};
  }
  std::vector<schedules::Selection> selections;
  for (const char* name : {"spt", "symmetric-shift", "symmetric-shift:order=head-major", "shift",
                           "descending", "lpt-descending"})
    selections.push_back(schedules::select(name));
  // Of what needs one CTA it packs long chains best, those of heads that share K and V.
  if (request.launch == PlanLaunch::elastic && request.heads_q > request.heads_kv)
    selections.push_back(schedules::select("lpt-descending:swizzle=8"));
  if (request.schedule == kAutoSearch && !request.invariant)
    selections.push_back(schedules::select("windowed"));
  return selections;
}

/// Takes a schedule in the place of the best before it, if there is none or it beats that.
void consider(const PlanRequest& request, const schedules::Selection& selection,
              std::int64_t tile_q, std::optional<Candidate>& best) {
  std::optional<Candidate> candidate = candidate_of(request, selection, tile_q);
  if (!candidate) return;
  candidate->predicted_ns = best ? predicted_ns(request, candidate->table, to_beat(*best))
                                 : predicted_ns(request, candidate->table);
  if (!best || beats(*candidate, *best)) best = std::move(candidate);
}

/// Whether a table of a problem may beat the best, for all that the bounds say.
bool may_beat(const PlanRequest& request, const Problem& problem, const Candidate& best) {
  const std::optional<TimeModel> model = model_of(request, problem);
  if (!model) return false;
  const dag::Bounds bounds = dag::lower_bounds(problem, model->timing, Dispatch::static_);
  return model->elapsed(bounds.best.ticks) < to_beat(best);
}

/// Windows on heads that are tried, the widest first: it is the most even.
constexpr std::int32_t kWindows[] = {32, 16, 8, 4, 2};

/// Heads of an L2 swizzle that are tried. Its CTAs follow each other from Q tile to Q tile, where
/// those of a full mask's shift wait for each other in a ring.
constexpr std::int32_t kSwizzles[] = {16, 8};

/// Whether the dQ of so many heads stays in the profile's L2 cache.
bool fits_l2(const PlanRequest& request, const Problem& problem, std::int32_t heads) {
  const std::optional<TimeModel> model = model_of(request, problem);
  if (!model || !model->timing.memory) return true;
  const Memory& memory = *model->timing.memory;
  return (Checked(heads) * problem.q_tiles() * memory.tile.dq).within(memory.l2);
}

/// The words of a windowed schedule in every order that a problem's chains have for their heads.
std::vector<std::string> windows_of(const Problem& problem, std::int32_t heads) {
  const std::string text = "windowed:heads=" + std::to_string(heads) + ",q=descending";
  if (problem.span == 1) return {text};
  return {text + ",order=q-major", text + ",order=head-major"};
}

/// Tries windows on heads of a problem and swizzles in the place of the best. Tables of windows
/// have several orders of heads and need CTAs that are there at once.
void consider_windows(const PlanRequest& request, const Problem& problem,
                      std::optional<Candidate>& best) {
  for (const std::int32_t heads : kWindows) {
    if (heads > problem.heads || !may_beat(request, problem, *best)) continue;
    if (heads > *std::rbegin(kWindows) && !fits_l2(request, problem, heads)) continue;
    for (const std::string& text : windows_of(problem, heads))
      consider(request, schedules::select(text), problem.shape.q, best);
  }
  for (const std::int32_t heads : kSwizzles) {
    if (heads > problem.heads || !may_beat(request, problem, *best)) continue;
    if (heads > *std::rbegin(kSwizzles) && !fits_l2(request, problem, heads)) continue;
    const std::string text = "lpt-descending:swizzle=" + std::to_string(heads);
    consider(request, schedules::select(text), problem.shape.q, best);
  }
}

/// Tries windows at all tiles, with the span of the best first and then with the others: what packs
/// whole heads best need not pack windows best.
void consider_windows(const PlanRequest& request, std::optional<Candidate>& best) {
  if (request.invariant || request.launch == PlanLaunch::elastic) return;
  std::vector<PlanRequest> requests = with_spans(request);
  const auto own = std::ranges::find(requests, best->table.problem.span, &PlanRequest::span);
  if (own != requests.end()) std::rotate(requests.begin(), own, own + 1);
  for (const std::int64_t tile_q : tiles_of(request)) {
    for (const PlanRequest& each : requests)
      consider_windows(each, problem_of(each, tile_q, each.sms), best);
  }
}

Candidate best_of(const PlanRequest& request) {
  const std::vector<schedules::Selection> selections = selections_of(request);
  std::optional<Candidate> best;
  for (const schedules::Selection& selection : selections) {
    for (const std::int64_t tile_q : tiles_of(request)) {
      for (const PlanRequest& each : with_spans(request))
        consider(each, selection, tile_q, best);
    }
  }
  if (best && request.schedule == kAuto) consider_windows(request, best);
  if (best) return *std::move(best);
  if (is_automatic(request.schedule))
    throw Error(ErrorKind::unsupported, "no schedule meets what is asked for");
  const Problem problem = problem_of(request, tiles_of(request).front(), request.sms);
  const auto why = schedules::why_unsupported(selections.front(), problem);
  if (why) throw Error(ErrorKind::unsupported, request.schedule + ": " + *why);
  throw Error(
      ErrorKind::unsupported,
      request.schedule + (request.invariant
                              ? " has no one order of heads on " + std::to_string(request.sms) +
                                    " SMs or fewer; spt has one"
                              : " needs several CTAs at once, which an elastic launch "
                                "does not promise; spt needs one"));
}

/// What is asked for, with the schedule, the tiles and the span that a batch of one and eight KV
/// heads would have on the profile's device: a head's order may depend on neither batch nor SMs.
PlanRequest settled(const PlanRequest& request) {
  PlanRequest usual = request;
  usual.batch = 1;
  usual.heads_kv = 8;
  usual.heads_q = 8 * (request.heads_q / request.heads_kv);
  usual.sms = machine_of(request).sms;
  const Candidate best = best_of(usual);
  PlanRequest settled = request;
  settled.schedule = best.schedule;
  settled.tile_q = best.table.problem.shape.q;
  settled.span = best.table.problem.span;
  return settled;
}

Candidate chosen(const PlanRequest& request) {
  return best_of(request.invariant ? settled(request) : request);
}

Candidate given(const PlanRequest& request) {
  const Table& table = *request.table;
  PlanRequest like = request;  // with the table's own tiles and SMs
  like.table.reset();
  like.tile_kv = table.problem.shape.kv;
  const Problem wanted = problem_of(like, table.problem.shape.q, table.problem.sms);
  const Problem& has = table.problem;
  if (has.grids != wanted.grids || has.heads != wanted.heads || has.heads_kv != wanted.heads_kv ||
      has.lengths != wanted.lengths || has.shape != wanted.shape) {
    fail("the table is for " + describe(has) + "; the tensors are " + describe(wanted));
  }
  if (request.span > 0 && request.span != has.span) {
    fail("the table has chains of " + counted(has.span, "head") + "; span is " +
         std::to_string(request.span));
  }
  return {.table = table, .schedule = table.name, .predicted_ns = predicted_ns(request, table)};
}

/// Whether the device code can follow a table at all: each task once, chains whole.
bool is_playable(const dag::Verification& verification) {
  return std::ranges::none_of(verification.findings, [](const dag::Finding& finding) {
    using enum dag::FindingKind;
    switch (finding.kind) {
      case missing_task:
      case duplicate_task:
      case dead_task:
      case task_out_of_range:
      case chain_split:
        return true;
      default:
        return false;
    }
  });
}

std::string first_of(const dag::Verification& verification) {
  std::string text;
  for (const dag::Finding& finding : verification.findings) {
    text += (text.empty() ? "" : "; ") + finding.message;
    if (text.size() > 300) break;
  }
  return text;
}

}  // namespace

const Machine& default_machine() {
  static const Machine machine = builtin_machine("h200");
  return machine;
}

std::int64_t BackwardPlan::host_bytes() const {
  const std::int64_t image = device ? std::ssize(device->image) : 0;
  return image + std::ssize(table.slots) * static_cast<std::int64_t>(sizeof(Slot)) +
         std::ssize(table.lane_begin) * std::int64_t{8};
}

std::variant<BackwardPlan, BrokenTable, TooFewCtas> plan_backward(const PlanRequest& request) {
  check(request);
  Candidate candidate = request.table ? given(request) : chosen(request);
  BackwardPlan plan{.table = std::move(candidate.table),
                    .schedule = std::move(candidate.schedule),
                    .batch = static_cast<std::int32_t>(request.batch),
                    .head_dim = request.head_dim,
                    .dtype = request.dtype,
                    .launch = request.launch};
  const Table& table = plan.table;
  expect_known_pairs(request.mask, table.problem);
  if (std::ssize(table.slots) > kMostSlotBytes / kSlotBytes) {
    throw Error(ErrorKind::limit, "the plan would have more than 512 MiB of slots");
  }
  Timing timing;
  timing.model = Model::overlap;
  const dag::Verification verification = dag::verify(table, timing);
  plan.resident_needed = verification.liveness.residency_needed;
  if (!is_playable(verification) || (request.verify && verification.verdict != dag::Verdict::ok)) {
    return BrokenTable{verification.verdict, first_of(verification)};
  }
  if (request.launch == PlanLaunch::elastic && plan.resident_needed > 1) {
    return TooFewCtas{"the table needs " + std::to_string(plan.resident_needed) +
                      " CTAs at once; an elastic launch promises one (schedule spt needs one)"};
  }
  if (verification.verdict == dag::Verdict::ok) {
    plan.order_digest = order_digest(table, kNumerics, request.head_dim);
    plan.invariant =
        candidate.selection ? is_invariant(request, *candidate.selection, table) : false;
  }
  plan.table_digest = table_digest(table);
  plan.predicted_ns = candidate.predicted_ns;
  plan.machine = profile_part(request, table.problem.shape);
  plan.host_only = gpu::hopper::plan_refusal(table.problem, request.head_dim, request.dtype);
  if (plan.host_only.empty()) {
    plan.device =
        gpu::hopper::make_plan(table, TokenMask(table.problem), plan.batch,
                               static_cast<std::int32_t>(request.head_dim), request.dtype);
  }
  return plan;
}

}  // namespace stagger::workbench
