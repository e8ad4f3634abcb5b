// What is planned for tensors of many kinds, kept in tests/golden/plans.txt: the schedule, its
// tiles, what is promised and what it needs, or why there is no plan. By a profile of its own, so
// that no new measurement changes it.

#include "core/error.hpp"
#include "gpu/hopper/plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "workbench/backward_plan.hpp"

#include <iomanip>
#include <sstream>
#include <string>
#include <utility>

namespace stagger::workbench {
namespace {

KernelTimes times_of(std::int64_t head_dim, std::int64_t tile_q, Ticks compute, Ticks reduce) {
  return {.key = {.kernel = "hopper",
                  .dtype = "bf16",
                  .head_dim = head_dim,
                  .tile = {.q = tile_q, .kv = 128}},
          .model = Model::overlap,
          .compute = {.value = compute},
          .compute_partial = MeasuredNs{.value = compute + compute / 5},
          .reduce = {.value = reduce},
          .latency = {.value = 700},
          .launch = {.value = 1'500},
          .epilogue = {.value = 900},
          .start = {.value = 6'000},
          .passes_per_mi = MeasuredNs{.value = 2'500}};
}

Machine toy_machine() {
  return {.name = "toy",
          .device = "a toy",
          .driver = "1",
          .sms = 12,
          .kernels = {times_of(64, 64, 2'000, 700), times_of(64, 128, 3'900, 1'300),
                      times_of(128, 64, 3'000, 1'300)},
          .memory = std::nullopt};
}

std::string words_of(const BackwardPlan& plan) {
  std::ostringstream text;
  const TileShape& tile = plan.table.problem.shape;
  text << plan.schedule << " of " << tile.kv << " x " << tile.q << " on " << plan.table.problem.sms
       << ", needs " << plan.resident_needed << (plan.invariant ? ", invariant" : "") << ", "
       << plan.predicted_ns << " ns, " << plan.heads_q() << "/" << plan.heads_kv() << " heads, "
       << std::hex << plan.table_digest << " " << plan.order_digest << std::dec << ", "
       << plan.host_bytes() << " bytes";
  if (plan.device) {
    text << ", " << plan.device->layout.bytes << " + " << plan.device->workspace.bytes << " there";
  }
  if (plan.heads_kv() < plan.heads_q()) text << ", " << plan.table.problem.span << " a chain";
  if (!plan.host_only.empty()) text << ", " << plan.host_only;
  return text.str();
}

std::string planned(const PlanRequest& request) {
  try {
    const auto made = plan_backward(request);
    if (const auto* plan = std::get_if<BackwardPlan>(&made)) return words_of(*plan);
    if (const auto* broken = std::get_if<BrokenTable>(&made)) {
      return std::string("broken, ") + dag::verdict_name(broken->verdict) + ": " + broken->message;
    }
    return "too few: " + std::get<TooFewCtas>(made).message;
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.kind())) + ": " + error.what();
  }
}

PlanRequest request_of(const char* mask, std::int64_t seq) {
  PlanRequest request{.mask = parse_mask(mask), .lengths = {seq, seq}};
  request.heads_q = request.heads_kv = 2;
  request.head_dim = 64;
  request.sms = 12;
  request.machine = toy_machine();
  return request;
}

TEST_CASE("what auto and the schedules by name are planned to be is as kept") {
  std::ostringstream text;
  for (const char* mask : {"causal", "full", "sliding:left=200,right=0"}) {
    for (const std::int64_t seq : {600, 1'536}) {
      for (const char* schedule :
           {"auto", "spt", "symmetric-shift", "shift", "descending", "ascending", "windowed"}) {
        for (int options = 0; options < 8; ++options) {
          PlanRequest request = request_of(mask, seq);
          request.schedule = schedule;
          if ((options & 1) != 0) request.launch = PlanLaunch::elastic;
          request.invariant = (options & 2) != 0;
          request.batch = (options & 4) != 0 ? 3 : 1;
          text << mask << " " << seq << " " << schedule << " " << options << ": "
               << planned(request) << "\n";
        }
      }
    }
  }
  CHECK(test::golden_difference("plans.txt", text.str()) == "");
}

TEST_CASE("auto:search takes what searches where that is predicted to be 1 % faster") {
  int taken = 0;
  int left = 0;
  for (const char* mask : {"causal", "full", "sliding:left=200,right=0"}) {
    for (const std::int64_t seq : {600, 1'536, 2'048}) {
      for (const std::int64_t heads : {2, 5}) {
        PlanRequest request = request_of(mask, seq);
        request.heads_q = request.heads_kv = heads;
        request.tile_q = 64;
        const auto plan = [&](const char* schedule) {
          request.schedule = schedule;
          return std::get<BackwardPlan>(plan_backward(request));
        };
        const BackwardPlan simple = plan("auto");  // it has tried some windows at one tile
        const BackwardPlan windowed = plan("windowed");
        const BackwardPlan searched = plan("auto:search");
        const bool faster = 100 * windowed.predicted_ns < 99 * simple.predicted_ns;
        (faster ? taken : left) += 1;
        if (faster || simple.schedule.starts_with("windowed")) {
          CHECK(words_of(searched) == words_of(windowed));
        } else {
          CHECK(words_of(searched) == words_of(simple));
        }
        request.invariant = true;
        CHECK(words_of(plan("auto:search")) == words_of(plan("auto")));
      }
    }
  }
  CHECK(taken > 0);
  CHECK(left > 0);
}

TEST_CASE("plans for other heads, tiles, dtypes and SMs are as kept") {
  std::ostringstream text;
  const auto add = [&](const char* what, auto change) {
    PlanRequest request = request_of("causal", 1'024);
    change(request);
    text << what << ": " << planned(request) << "\n";
  };
  using Request = PlanRequest;
  add("as it is", [](Request&) {});
  add("a group of 2", [](Request& each) { each.heads_q = 4; });
  add("a group of 3, invariant", [](Request& each) {
    each.heads_q = 6;
    each.invariant = true;
  });
  for (const std::int64_t span : {0, 1, 2, 4, 3, -1}) {
    add("a group of 4 and a span", [&](Request& each) {
      each.heads_q = 8;
      each.span = span;
    });
  }
  add("tiles of 64", [](Request& each) { each.tile_q = 64; });
  add("tiles of 96", [](Request& each) { each.tile_q = 96; });
  add("KV tiles of 64", [](Request& each) { each.tile_kv = 64; });
  add("fp16", [](Request& each) { each.dtype = gpu::Dtype::fp16; });
  add("fp32", [](Request& each) { each.dtype = gpu::Dtype::fp32; });
  add("head_dim 128", [](Request& each) { each.head_dim = 128; });
  add("head_dim 96", [](Request& each) { each.head_dim = 96; });
  for (const std::int64_t sms : {1, 2, 5, 7, 8, 11, 16, 64}) {
    add("SMs", [&](Request& each) { each.sms = sms; });
    add("SMs, invariant", [&](Request& each) {
      each.sms = sms;
      each.invariant = true;
    });
    add("SMs, invariant, symmetric shift", [&](Request& each) {
      each.sms = sms;
      each.invariant = true;
      each.schedule = "symmetric-shift";
    });
  }
  add("no entries", [](Request& each) { each.machine->kernels.clear(); });
  add("another kernel", [](Request& each) {
    for (KernelTimes& times : each.machine->kernels)
      times.key.kernel = "other";
  });
  add("more SMs on the profile's device", [](Request& each) {
    each.machine->sms = 40;
    each.invariant = true;
  });
  add("lengths that differ", [](Request& each) { each.lengths = {700, 1'100}; });
  add("no batch", [](Request& each) { each.batch = 0; });
  add("no heads", [](Request& each) { each.heads_q = 0; });
  add("no KV heads", [](Request& each) { each.heads_kv = 0; });
  add("heads that do not divide", [](Request& each) { each.heads_q = 3; });
  add("elastic, not verified", [](Request& each) {
    each.launch = PlanLaunch::elastic;
    each.verify = false;
  });
  for (const std::int64_t more : {0, 1})
    add("too many heads", [&](Request& each) { each.batch = (std::int64_t{1} << 39) + more; });
  add("a schedule that does not apply", [](Request& each) { each.schedule = "shift"; });
  CHECK(test::golden_difference("plans-other.txt", text.str()) == "");
}

TEST_CASE("an invariant plan has the schedule, tiles and span of any batch of its heads") {
  int moves = 0;
  for (const std::int64_t group : {2, 4, 6}) {
    for (const char* mask : {"causal", "full"}) {
      for (const char* schedule : {"auto", "symmetric-shift", "spt"}) {
        const auto said = [&](std::int64_t batch, std::int64_t heads_kv, bool invariant) {
          PlanRequest request = request_of(mask, 1'024);
          request.schedule = schedule;
          request.batch = batch;
          request.heads_kv = heads_kv;
          request.heads_q = heads_kv * group;
          request.invariant = invariant;
          try {
            const auto made = plan_backward(request);
            const auto& plan = std::get<BackwardPlan>(made);
            const Problem& problem = plan.table.problem;
            return plan.schedule + " " + std::to_string(problem.shape.q) + " " +
                   std::to_string(problem.span);
          } catch (const Error& error) {
            return std::string(error.what());
          }
        };
        CAPTURE(group, mask, schedule);
        const std::string usual = said(1, 8, true);
        for (const std::int64_t batch : {1, 2, 5}) {
          for (const std::int64_t heads_kv : {1, 3, 8}) {
            const std::string own = said(batch, heads_kv, true);
            if (own.find("order") == std::string::npos) CHECK(own == usual);
            moves += said(batch, heads_kv, false) != said(1, 8, false) ? 1 : 0;
          }
        }
      }
    }
  }
  CHECK(moves > 10);
}

TEST_CASE("a table is refused if its chains have other heads than asked for") {
  PlanRequest request = request_of("causal", 512);
  request.heads_kv = 1;
  for (const std::int64_t span : {1, 2}) {
    PlanRequest own = request;
    own.span = span;
    auto made = plan_backward(own);
    own.table = std::get<BackwardPlan>(std::move(made)).table;
    CHECK(own.table->problem.span == span);
    const std::string as_it_is = planned(own);
    own.span = 0;
    CHECK(planned(own) == as_it_is);
    own.span = 3 - span;
    CHECK(planned(own) == "0: the table has chains of " +
                              std::string(span == 1 ? "1 head" : "2 heads") + "; span is " +
                              std::to_string(own.span));
  }
}

/// A plan's own table given back, changed.
template <class Change>
std::string replanned(const char* schedule, Change change) {
  PlanRequest request = request_of("causal", 512);
  request.schedule = schedule;
  auto made = plan_backward(request);
  request.table = std::get<BackwardPlan>(std::move(made)).table;
  change(*request.table, request);
  return planned(request);
}

TEST_CASE("tables that are given are planned, or refused by what is wrong, as kept") {
  std::ostringstream text;
  const auto add = [&](const char* what, auto change) {
    for (const char* schedule : {"spt", "symmetric-shift"})
      text << schedule << ", " << what << ": " << replanned(schedule, change) << "\n";
  };
  add("as it is", [](Table&, PlanRequest&) {});
  add("elastic", [](Table&, PlanRequest& each) { each.launch = PlanLaunch::elastic; });
  add("invariant", [](Table&, PlanRequest& each) { each.invariant = true; });
  add("a rank twice", [](Table& table, PlanRequest&) { table.slots[0].rank = 1; });
  add("a rank twice, not verified", [](Table& table, PlanRequest& each) {
    table.slots[0].rank = 1;
    each.verify = false;
  });
  add("a task twice", [](Table& table, PlanRequest&) { table.slots[1] = table.slots[0]; });
  add("a task twice, not verified", [](Table& table, PlanRequest& each) {
    table.slots[1] = table.slots[0];
    each.verify = false;
  });
  add("a head too many", [](Table&, PlanRequest& each) { each.heads_q = each.heads_kv = 3; });
  add("other lengths", [](Table&, PlanRequest& each) { each.lengths.kv = 513; });
  add("another mask", [](Table&, PlanRequest& each) { each.mask = make_mask("full"); });
  add("lanes too many", [](Table& table, PlanRequest&) {
    table.problem.sms = 2;
    table.dispatch = Dispatch::static_;
  });
  CHECK(test::golden_difference("plans-given.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::workbench
