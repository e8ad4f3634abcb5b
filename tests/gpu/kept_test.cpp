// What the CPU's runs leave behind and what is made of that, kept in tests/golden/gpu-*.txt: who
// waits for what in a run that hangs, the words of every order fault, timelines, samples and bytes.
// One thread plays every table in one order, so that nothing depends on the machine.

#include "gpu/check/clock_anchors.hpp"
#include "gpu/check/cross_check.hpp"
#include "gpu/check/phase_samples.hpp"
#include "gpu/cpu/executor.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"
#include "tests/support/toy_device.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::gpu {
namespace {

template <class Values>
void add(std::ostringstream& text, const char* name, const Values& values) {
  if (values.empty()) return;
  text << " " << name;
  for (const auto& value : values) {
    if constexpr (requires { value.value; }) {
      text << " " << value.value;
    } else {
      text << " " << value;
    }
  }
}

constexpr const char* kOutcomes[] = {"finished", "deadlock", "timeout"};

std::string words_of(const Table& table, const Backward& run) {
  std::ostringstream text;
  text << kOutcomes[static_cast<int>(run.outcome)] << " ("
       << kOutcomes[static_cast<int>(outcome_when_stopped(table, run, table.problem.sms))] << ")";
  add(text, "locks", run.lock_values);
  add(text, "dkv", run.dkv_lock_values);
  add(text, "next", run.next_slots);
  add(text, "on", run.lane_sms);
  add(text, "added", run.witness);
  add(text, "parts", run.dkv_witness);
  text << "\n";
  if (run.outcome == Outcome::finished) return text.str();
  for (const std::string& line : describe(waits(table, run), table.dispatch))
    text << "  " << line << "\n";
  return text.str();
}

Attention kept_attention(const Problem& problem) {
  const AttentionShape shape = attention_shape(problem, 2);
  return make_attention(problem, shape, random_inputs(shape, 5));
}

struct Drawn {
  Table table;
  BackwardOptions options;
};

/// A table of grouped heads or of others, that may hang, and options for a run of it.
Drawn drawn(test::Random& random, std::int64_t most) {
  Drawn drawn;
  drawn.table = test::drawn_table(random, most, [&] { return random.chance(2); });
  test::perhaps_shuffle_dkv_ranks(random, drawn.table);
  drawn.options.release = random.chance(3) ? Release::delayed : Release::immediate;
  drawn.options.residency = static_cast<std::int32_t>(random.between(0, 3));
  drawn.options.threads = 1;
  drawn.options.mode = random.chance(5) ? Mode::atomic : Mode::deterministic;
  return drawn;
}

TEST_CASE("what runs leave behind, and who waits where they hang, is as kept") {
  test::Random random(111);
  std::ostringstream text;
  std::int64_t hanging = 0;
  for (int round = 0; round < 150; ++round) {
    const auto [table, options] = drawn(random, 3);
    if (table.slots.empty()) continue;
    const Backward run = backward_on_cpu(table, kept_attention(table.problem), options);
    text << round << " " << words_of(table, run);
    hanging += run.outcome == Outcome::finished ? 0 : 1;
  }
  CHECK(hanging > 15);
  CHECK(test::golden_difference("gpu-runs.txt", text.str()) == "");
}

/// A run whose times go up by slot, as no run's do.
Backward timed(const Table& table, Backward run) {
  std::int64_t slot = 0;
  for (TaskTimes& times : run.times) {
    times = {100 * slot, 100 * slot + 40, 100 * slot + 50 + 3 * slot, 100 * slot + 70 + 3 * slot};
    ++slot;
  }
  std::int64_t chain = 0;
  for (ChainTimes& times : run.chain_times) {
    times = {1'000 * chain, 1'000 * chain + 30 + 5 * chain, 1'000 * chain + 500};
    ++chain;
  }
  run.elapsed_ns = 100 * std::ssize(table.slots) + 5'000;
  return run;
}

std::string words_of(const Timeline& timeline) {
  std::ostringstream text;
  text << timeline.title << ", " << timeline.clock << " " << timeline.device << " " << timeline.sms
       << " " << timeline.heads << " " << timeline.makespan << (timeline.hangs ? " hangs" : "")
       << "\n";
  for (const Interval& interval : timeline.intervals) {
    text << "   SM " << interval.sm.value << " " << describe(interval.task) << " rank "
         << interval.rank << " " << phase_name(interval.phase) << " " << interval.start << " to "
         << interval.end << "\n";
  }
  return text.str();
}

TEST_CASE("order faults, hand-overs and timelines of made-up times are as kept") {
  test::Random random(112);
  std::ostringstream text;
  for (int round = 0; round < 25; ++round) {
    auto [table, options] = drawn(random, 2);
    if (table.slots.empty()) continue;
    const Attention attention = kept_attention(table.problem);
    const Backward left = backward_on_cpu(table, attention, options);
    Backward run = timed(table, left);
    // What a run that hangs never came to.
    for (std::size_t slot = 0; slot < run.times.size(); ++slot) {
      if (left.times[slot].compute_start < 0) run.times[slot] = {};
      if (left.times[slot].turn < 0) run.times[slot].turn = run.times[slot].reduce_end = -1;
    }
    for (std::size_t chain = 0; chain < run.chain_times.size(); ++chain) {
      if (left.chain_times[chain].ready < 0) run.chain_times[chain] = {};
      if (left.chain_times[chain].turn < 0)
        run.chain_times[chain].turn = run.chain_times[chain].end = -1;
    }
    text << round << " hand-over " << median_hand_over_ns(table, run) << "\n"
         << words_of(measured_timeline(table, run, "toy"));
    for (const std::size_t limit : {std::size_t{1}, std::size_t{3}, std::size_t{100}}) {
      for (const std::int64_t error : {0, 200, 2'000}) {
        run.times_error_ns = error;
        for (const std::string& fault : order_faults(table, run, limit))
          text << "  " << limit << " " << error << ": " << fault << "\n";
      }
    }
    std::reverse(run.dkv_witness.begin(), run.dkv_witness.end());
    for (const std::string& fault : order_faults(table, run, 100))
      text << "  reversed: " << fault << "\n";
  }
  CHECK(test::golden_difference("gpu-faults.txt", text.str()) == "");
}

TEST_CASE("a clock whose rate changes is as kept between its readings, before and behind them") {
  // The timer shows every 4,000 ns; the counter goes at 1, 2 and then 0.5 cycles a ns.
  std::vector<ClockReading> readings;
  std::int64_t cycles = 100;
  for (std::int64_t ns = 0; ns < 100'000; ns += 700) {
    readings.push_back({.ns = 50'000 + ns / 4'000 * 4'000, .cycles = cycles});
    cycles += ns < 30'000 ? 700 : ns < 70'000 ? 1'400 : 350;
  }
  std::ostringstream text;
  for (const std::size_t count : {std::size_t{2}, std::size_t{40}, readings.size()}) {
    const std::span<const ClockReading> all(readings);
    const SmClock clock(all.first(count), 4'000, 0.75);
    for (std::int64_t at = -3'000; at < 110'000; at += 1'700) {
      // A reading that the timer shows loosely, so that the line is seen.
      for (const std::int64_t shown : {at / 4'000 * 4'000, (at - 2'000) / 4'000 * 4'000})
        text << " " << clock.ns({.ns = 50'000 + shown, .cycles = 100 + at});
    }
    text << "\n";
  }
  CHECK(test::golden_difference("gpu-clocks.txt", text.str()) == "");
}

TEST_CASE("the bytes of runs are as kept, of groups and other dtypes too") {
  test::Random random(113);
  std::ostringstream text;
  for (int round = 0; round < 60; ++round) {
    auto [table, options] = drawn(random, 4);
    options.keep_partials = random.chance(2);
    options.dtype = static_cast<Dtype>(random.between(0, 2));
    const AttentionShape shape = attention_shape(table.problem, random.between(1, 70));
    text << round << ": " << partial_bytes(table, shape) << " " << run_bytes(table, shape, options)
         << " " << error_bound(shape, options.dtype) << "\n";
  }
  CHECK(test::golden_difference("gpu-bytes.txt", text.str()) == "");
}

std::string sampled(const std::vector<std::int64_t>& samples) {
  const std::int64_t sum = std::accumulate(samples.begin(), samples.end(), std::int64_t{0});
  std::int64_t weighted = 0;
  for (std::size_t place = 0; place < samples.size(); ++place)
    weighted += static_cast<std::int64_t>(place % 7 + 1) * samples[place];
  return std::to_string(samples.size()) + "/" + std::to_string(sum) + "/" +
         std::to_string(weighted);
}

TEST_CASE("the samples of noisy runs are as kept, in both models") {
  std::ostringstream text;
  for (const Model model : {Model::chain, Model::overlap}) {
    test::Random random(114);
    for (int round = 0; round < 12; ++round) {
      const Timing timing{.model = model,
                          .compute = 300,
                          .compute_partial = 350,
                          .reduce = 260,
                          .latency = 60,
                          .launch = 40,
                          .epilogue = 30};
      const test::ToyDevice device{.timing = timing,
                                   .noise = 0.4,
                                   .taking = round % 3 * 10,
                                   .stamps_hand_over = round % 2 == 1};
      const Problem problem =
          make_problem(make_mask(round % 4 < 2 ? "causal" : "full"), {7, 7}, {}, 2 + round % 3, 4);
      const char* const names[] = {"spt", "ascending", "descending", "lpt-ascending"};
      std::vector<Table> tables;
      std::vector<Backward> runs;
      for (const Mode mode : {Mode::deterministic, Mode::no_reduce}) {
        tables.push_back(schedules::build(schedules::select(names[round % 4]), problem));
        runs.push_back(test::run_on_toy(device, tables.back(), mode, random));
      }
      const std::vector<TimedRun> timed = {{&tables[0], &runs[0]}, {&tables[1], &runs[1]}};
      const PhaseSamples samples = phase_samples(timed, model);
      text << model_name(model) << " " << round << ": " << sampled(samples.reduce) << " "
           << sampled(samples.latency) << " " << sampled(samples.compute) << " "
           << sampled(samples.compute_partial) << " " << sampled(samples.first) << " "
           << sampled(samples.first_partial) << " " << sampled(samples.between) << " "
           << sampled(samples.chain_gap) << " " << sampled(samples.taking) << "\n";
    }
  }
  CHECK(test::golden_difference("gpu-samples.txt", text.str()) == "");
}

TEST_CASE("a table is complete with every live task once and no chain split, and not otherwise") {
  test::Random random(test::seed(53));
  std::int64_t complete = 0;
  std::int64_t broken = 0;
  for (int round = 0; round < 1'500; ++round) {
    Table table = drawn(random, 3).table;
    if (!table.slots.empty() && random.chance(2)) {
      const std::int64_t last = std::ssize(table.slots) - 1;
      Slot& slot = table.slots[random.between(0, last)];
      switch (random.between(0, 5)) {
        case 5:
          table.slots.pop_back();
          for (std::int64_t& begin : table.lane_begin)
            begin = std::min<std::int64_t>(begin, std::ssize(table.slots));
          break;
        case 0:
          std::swap(slot, table.slots[random.between(0, last)]);
          break;
        case 1:
          slot = table.slots[random.between(0, last)];
          break;
        case 2:
          slot.task.q.value += static_cast<std::int32_t>(random.between(-1, 1));
          break;
        case 3:
          slot.task.head.value += static_cast<std::int32_t>(random.between(-1, 1));
          break;
        default:
          slot.task.kv.value += static_cast<std::int32_t>(random.between(-1, 1));
      }
    }
    // Every chain is one run of slots on one lane, and holds each of its tasks once.
    const Problem& problem = table.problem;
    std::vector<Task> tasks;
    std::vector<std::pair<std::int32_t, KvTile>> chains;
    bool exists = true;
    for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
      const Task* before = nullptr;
      for (const Slot& slot : table.lane(lane)) {
        const Task& task = slot.task;
        exists = exists && task.head.value >= 0 && task.head.value < problem.heads &&
                 problem.common_grid().contains(task.kv, task.q) && problem.live(task);
        tasks.push_back(task);
        const bool goes_on = before != nullptr && before->kv == task.kv &&
                             before->head.value / problem.span == task.head.value / problem.span;
        if (!goes_on) chains.emplace_back(task.head.value / problem.span, task.kv);
        before = &task;
      }
    }
    std::sort(tasks.begin(), tasks.end());
    std::sort(chains.begin(), chains.end());
    const bool once = std::adjacent_find(tasks.begin(), tasks.end()) == tasks.end();
    const bool whole = std::adjacent_find(chains.begin(), chains.end()) == chains.end();
    CAPTURE(round);
    REQUIRE(is_complete(table) ==
            (exists && once && whole && std::ssize(tasks) == problem.tasks()));
    ++(is_complete(table) ? complete : broken);
  }
  CHECK(complete > 500);
  CHECK(broken > 300);
}

}  // namespace
}  // namespace stagger::gpu
