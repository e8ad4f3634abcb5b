#include "gpu/cuda/table.cuh"
#include "gpu/hopper/divisor.hpp"
#include "gpu/hopper/plan.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

namespace stagger::gpu::hopper {
namespace {

TEST_CASE("a divisor's quotients are those of division, to the largest number") {
  std::vector<std::int32_t> divisors = {1, 2, 3, 5, 7, 8, 28, 32, 127, 128, 65'535, 1 << 24};
  test::Random random(1);
  for (int each = 0; each < 200; ++each)
    divisors.push_back(static_cast<std::int32_t>(random.between(1, 1 << 24)));
  std::int64_t cases = 0;
  for (const std::int32_t value : divisors) {
    const Divisor divisor(value);
    CHECK(divisor.value() == value);
    const auto check = [&](std::int64_t n) {
      if (n < 0 || n > 0x7fffffff) return;
      REQUIRE(divisor.quotient(static_cast<std::int32_t>(n)) == n / value);
      ++cases;
    };
    for (std::int64_t n = 0; n < 300; ++n)
      check(n);
    for (std::int64_t times : {1LL, 2LL, 3LL, 1000LL, 0x7fffffffLL / value}) {
      for (std::int64_t near = -1; near <= 1; ++near)
        check(times * value + near);
    }
    for (std::int64_t n = 0x7fffffff - 300; n <= 0x7fffffff; ++n)
      check(n);
    for (int each = 0; each < 200; ++each)
      check(random.between(0, 0x7fffffff));
  }
  CHECK(cases > 100'000);
}

template <class T>
std::vector<T> part(const Plan& plan, std::int64_t begin, std::size_t count) {
  std::vector<T> values(count);
  REQUIRE(begin % kAlignment == 0);
  REQUIRE(begin + static_cast<std::int64_t>(count * sizeof(T)) <= std::ssize(plan.image));
  std::memcpy(values.data(), plan.image.data() + begin, count * sizeof(T));
  return values;
}

/// Whether a query sees a key by what a plan's image says: the tile's slot, and the keys of its
/// queries if it is masked.
void check_image(const Plan& plan, const Table& table) {
  const Problem& problem = table.problem;
  const TokenMask mask(problem);
  const auto slots = part<cuda::DeviceSlot>(plan, plan.layout.slots, table.slots.size());
  const auto begins = part<std::int64_t>(plan, plan.layout.lane_begin, at(table.lanes()) + 1);
  const std::size_t masked = cuda::masked_tiles(problem).size();
  const auto keys = part<SeenKeys>(plan, plan.layout.keys, masked * at(problem.shape.q));
  CHECK(std::equal(begins.begin(), begins.end(), table.lane_begin.begin()));
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const cuda::DeviceSlot& slot = slots[index];
    REQUIRE(slot.rank == table.slots[static_cast<std::int64_t>(index)].rank);
    for (std::int64_t place = 0; place < problem.shape.q; ++place) {
      const std::int64_t query = slot.q * problem.shape.q + place;
      for (std::int64_t column = 0; column < kTileKv; column += 7) {
        const std::int64_t key = std::int64_t{slot.kv} * kTileKv + column;
        const bool exists = query < problem.lengths.q && key < problem.lengths.kv;
        const bool sees = exists && mask.sees(query, key);
        if (slot.partial < 0) {
          // Rows beyond the queries have a probability of 0 by their lse.
          if (query < problem.lengths.q) REQUIRE(sees);
          continue;
        }
        const SeenKeys seen = keys[at(slot.partial * problem.shape.q + place)];
        REQUIRE(sees == (seen.begin <= column && column < seen.end));
      }
    }
  }
}

TEST_CASE("a plan's image says of every pair of tokens what the mask does") {
  std::int64_t cases = 0;
  for (const Shape& shape : kShapes) {
    if (shape.head_dim == 128) continue;
    for (const Problem& problem :
         test::every_mask({520, 520}, {.q = shape.tile_q, .kv = kTileKv}, 2, 3)) {
      CAPTURE(problem.mask.family->name, shape.tile_q);
      if (split_tile(problem)) {
        CHECK(plan_refusal(problem, 64, Dtype::bf16).find("several ranges") != std::string::npos);
        ++cases;
        continue;
      }
      const Table table = schedules::build(schedules::select("lpt-descending"), problem);
      const Plan plan = make_plan(table, TokenMask(problem), 2, 64, Dtype::bf16);
      CHECK(plan.sizes.heads == 1);
      CHECK(plan.sizes.batch == 2);
      CHECK(plan.layout.bytes == std::ssize(plan.image));
      check_image(plan, table);
      const auto counts =
          part<std::int32_t>(plan, plan.layout.contributions, at(problem.grid.q_tiles()));
      for (QTile q{0}; q.value < problem.grid.q_tiles(); ++q)
        CHECK(counts[at(q)] == problem.grid.contributions(q));
      const auto seen = part<std::uint8_t>(plan, plan.layout.seen, at(problem.grid.kv_tiles()));
      bool unseen = false;
      for (KvTile kv{0}; kv.value < problem.grid.kv_tiles(); ++kv) {
        CHECK((seen[at(kv)] != 0) == (problem.grid.chain_length(kv) > 0));
        unseen = unseen || seen[at(kv)] == 0;
      }
      CHECK(plan.has_unseen == unseen);
      ++cases;
    }
  }
  CHECK(cases == 3 * std::ssize(mask_families()));
}

TEST_CASE("parts of a workspace follow each other, and grow where KV heads have several chains") {
  const auto plan_of = [](std::int64_t heads_kv, std::int64_t span) {
    const Problem problem =
        make_problem(make_mask("causal"), {1000, 700}, {.q = 128, .kv = kTileKv}, 8, 4,
                     {.heads_kv = heads_kv, .span = span});
    const Table table = schedules::build(schedules::select("spt"), problem);
    return make_plan(table, TokenMask(problem), 2, 128, Dtype::fp16);
  };
  const Plan plan = plan_of(8, 1);
  CHECK(plan.sizes.steps == 2);
  const WorkspaceLayout& own = plan.workspace;
  const std::int64_t rows = 8 * 8 * 128;
  CHECK(own.dq_sums == 0);
  CHECK(own.stats == 4 * rows * 128);
  CHECK(own.locks == own.stats + 8 * rows);
  CHECK(own.flags == own.locks + aligned(4 * 8 * 8 * 2));
  CHECK(own.dk == own.flags + kAlignment);
  CHECK(own.bytes == own.dk);
  for (const std::int64_t span : {1, 2, 4}) {
    CAPTURE(span);
    const Plan shared = plan_of(2, span);
    CHECK(shared.sizes.group() == 4);
    CHECK(shared.sizes.heads_kv == 1);
    CHECK(shared.sizes.parts() == 4 / span);  // of a batch entry, as is its KV head
    CHECK(shared.sizes.group_parts() == 4 / span);
    CHECK(shared.workspace.dk == own.dk);
    // A chain of all four heads writes dK and dV of the KV head itself.
    const std::int64_t of_parts = span == 4 ? 0 : aligned(2 * (8 / span) * 700 * 128);
    CHECK(shared.workspace.dv == shared.workspace.dk + of_parts);
    CHECK(shared.workspace.bytes == own.bytes + 2 * of_parts);
  }
}

TEST_CASE("a plan's chains begin and end with their part, whatever the order of its heads") {
  std::int64_t chains = 0;
  for (const char* schedule : {"spt", "lpt-descending", "symmetric-shift:order=q-major",
                               "symmetric-shift:order=head-major"}) {
    for (const std::int64_t span : {1, 2, 3, 6}) {
      CAPTURE(schedule, span);
      if (span == 1 && std::string_view(schedule).ends_with("head-major")) continue;  // no order
      const Problem problem = make_problem(make_mask("causal"), {512, 512}, {64, kTileKv}, 12, 8,
                                           {.heads_kv = 2, .span = span});
      const Table table = schedules::build(schedules::select(schedule), problem);
      const Plan plan = make_plan(table, TokenMask(problem), 1, 64, Dtype::bf16);
      const auto slots = part<cuda::DeviceSlot>(plan, plan.layout.slots, table.slots.size());
      std::vector<int> of_chain(at(problem.chains()));
      std::vector<std::vector<bool>> heads(at(problem.chains()), std::vector<bool>(12));
      std::int64_t open = -1;
      for (const cuda::DeviceSlot& slot : slots) {
        // Where the kernel has a chain's dK and dV: those of the part that its head is in.
        const std::int64_t place =
            std::int64_t{slot.head / plan.sizes.span} * plan.sizes.kv_tiles + slot.kv;
        REQUIRE((open == -1) == slot.begins_chain);
        if (slot.begins_chain) ++of_chain[at(place)];
        if (slot.begins_chain) open = place;
        REQUIRE(open == place);
        heads[at(place)][at(slot.head)] = true;
        if (slot.ends_chain) open = -1;
      }
      REQUIRE(open == -1);
      for (std::size_t chain = 0; chain < of_chain.size(); ++chain, ++chains) {
        REQUIRE(of_chain[chain] == 1);
        REQUIRE(std::count(heads[chain].begin(), heads[chain].end(), true) == span);
      }
    }
  }
  CHECK(chains == 4 * 4 * (12 + 6 + 4 + 2) - 4 * 12);
}

TEST_CASE("what the kernels do not run has a reason") {
  const auto refusal = [](TileShape tile, std::int64_t head_dim, Dtype dtype, Grouping grouping) {
    return plan_refusal(make_problem(make_mask("full"), {256, 256}, tile, 4, 4, grouping), head_dim,
                        dtype);
  };
  CHECK(refusal({64, 128}, 64, Dtype::bf16, {}).empty());
  CHECK(refusal({64, 128}, 64, Dtype::fp32, {}).find("bf16 and fp16") != std::string::npos);
  CHECK(refusal({64, 64}, 64, Dtype::bf16, {}).find("KV tiles of 128") != std::string::npos);
  CHECK(refusal({64, 128}, 96, Dtype::bf16, {}).find("head_dim 64 and 128") != std::string::npos);
  for (const std::int64_t span : {1, 2, 4})
    CHECK(refusal({64, 128}, 64, Dtype::bf16, {.heads_kv = 1, .span = span}).empty());
  CHECK(refusal({64, 128}, 64, Dtype::bf16, {.heads_kv = 2, .span = 1, .combine = Combine::ordered})
            .find("partials") != std::string::npos);
}

}  // namespace
}  // namespace stagger::gpu::hopper
