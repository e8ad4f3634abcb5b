#include "gpu/cuda/table.cuh"
#include "gpu/hopper/divisor.hpp"
#include "gpu/hopper/plan.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
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
  if (count > 0) std::memcpy(values.data(), plan.image.data() + begin, count * sizeof(T));
  return values;
}

/// What a step's bits say, by (query, key): laid out as the sums of wgmma's m64n8k16 are, 64 keys a
/// warpgroup, four sums of a thread for every eight queries.
std::vector<std::vector<bool>> spelled(const std::vector<std::uint8_t>& bytes,
                                       std::int64_t step_q) {
  std::vector<std::vector<bool>> seen(at(step_q), std::vector<bool>(kTileKv));
  const std::int64_t rest = step_q / 16 - 4;  // bytes of a thread beyond its first four
  for (std::int64_t thread = 0; thread < 256; ++thread) {
    const std::int64_t lane = thread % 32;
    const std::int64_t first_key = thread / 32 * 16 + lane / 4;
    for (std::int64_t sum = 0; sum < step_q / 2; ++sum) {
      const std::int64_t query = sum / 4 * 8 + lane % 4 * 2 + sum % 2;
      const std::int64_t key = first_key + (sum % 4 >= 2 ? 8 : 0);
      const std::int64_t byte =
          sum < 32 ? 4 * thread + sum / 8 : 1024 + rest * thread + (sum - 32) / 8;
      seen[at(query)][at(key)] = (bytes[at(byte)] >> sum % 8 & 1) != 0;
    }
  }
  return seen;
}

/// Whether the queries of a plan's tiles see keys, by what its image says.
class ImageMask {
 public:
  ImageMask(const Plan& plan, const Table& table) : plan_(plan), problem_(table.problem) {
    const cuda::MaskedTiles masked = cuda::masked_tiles(problem_, TokenMask(problem_));
    in_bits_ = std::ssize(masked.bits());
    const std::int64_t steps = in_bits_ * plan.shape.steps();
    step_bytes_ = plan.shape.step_q * kTileKv / 8;
    queries_ = part<SeenQueries>(plan, plan.layout.queries,
                                 at(masked.in_ranges * plan.shape.steps() * kTileKv));
    bits_ = part<std::uint8_t>(plan, plan.layout.bits, at(steps * step_bytes_));
    CHECK(plan.in_ranges == masked.in_ranges);
    CHECK(plan.layout.contributions - plan.layout.bits == aligned(std::ssize(bits_)));
  }

  [[nodiscard]] std::int64_t in_bits() const { return in_bits_; }

  /// Which (query, key) of a masked tile attend.
  [[nodiscard]] std::vector<std::vector<bool>> tile(std::int32_t place) const {
    std::vector<std::vector<bool>> seen;
    for (std::int64_t query = 0; query < problem_.shape.q && place < plan_.in_ranges; ++query) {
      const std::int64_t number = place * plan_.shape.steps() + query / plan_.shape.step_q;
      const std::int64_t of_step = query % plan_.shape.step_q;
      seen.emplace_back(kTileKv);
      for (std::int64_t key = 0; key < kTileKv; ++key) {
        const SeenQueries queries = queries_[at(number * kTileKv + key)];
        seen.back()[at(key)] = queries.begin <= of_step && of_step < queries.end;
      }
    }
    for (std::int64_t step = 0; step < plan_.shape.steps() && place >= plan_.in_ranges; ++step) {
      const std::int64_t number =
          std::int64_t{place - plan_.in_ranges} * plan_.shape.steps() + step;
      const auto begin = bits_.begin() + number * step_bytes_;
      for (auto& row : spelled({begin, begin + step_bytes_}, plan_.shape.step_q))
        seen.push_back(std::move(row));
    }
    return seen;
  }

 private:
  const Plan& plan_;
  const Problem& problem_;
  std::int64_t in_bits_ = 0;
  std::int64_t step_bytes_ = 0;
  std::vector<SeenQueries> queries_;
  std::vector<std::uint8_t> bits_;
};

/// Holds what a plan's image says of every pair of tokens, and of places beyond them, to the mask.
/// Returns how many tiles are told bit by bit.
std::int64_t check_image(const Plan& plan, const Table& table) {
  const Problem& problem = table.problem;
  const TokenMask mask(problem);
  const auto slots = part<cuda::DeviceSlot>(plan, plan.layout.slots, table.slots.size());
  const auto begins = part<std::int64_t>(plan, plan.layout.lane_begin, at(table.lanes()) + 1);
  const ImageMask image(plan, table);
  CHECK(std::equal(begins.begin(), begins.end(), table.lane_begin.begin()));
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const cuda::DeviceSlot& slot = slots[index];
    REQUIRE(slot.rank == table.slots[static_cast<std::int64_t>(index)].rank);
    if (slot.head > 0) continue;  // as the first one
    std::vector<std::vector<bool>> seen;
    if (slot.partial >= 0) seen = image.tile(slot.partial);
    std::int64_t wrong = 0;
    for (std::int64_t place = 0; place < problem.shape.q; ++place) {
      const std::int64_t query = slot.q * problem.shape.q + place;
      for (std::int64_t column = 0; column < kTileKv; ++column) {
        const std::int64_t key = std::int64_t{slot.kv} * kTileKv + column;
        const bool exists = query < problem.lengths.q && key < problem.lengths.kv;
        const bool sees = exists && mask.sees(query, key);
        // Rows beyond the queries have a probability of 0 by their lse.
        const bool told =
            slot.partial < 0 ? query < problem.lengths.q : seen[at(place)][at(column)];
        wrong += sees != told ? 1 : 0;
      }
    }
    REQUIRE(wrong == 0);
  }
  return image.in_bits();
}

TEST_CASE("a plan's image says of every pair of tokens what the mask does") {
  std::int64_t cases = 0;
  for (const Shape& shape : kShapes) {
    if (shape.head_dim == 128) continue;
    for (const Problem& problem :
         test::every_mask({520, 520}, {.q = shape.tile_q, .kv = kTileKv}, 2, 3)) {
      CAPTURE(problem.mask.family->name, shape.tile_q);
      const Table table = schedules::build(schedules::select("lpt-descending"), problem);
      const Plan plan = make_plan(table, TokenMask(problem), 2, 64, Dtype::bf16);
      CHECK(plan.sizes.heads == 1);
      CHECK(plan.sizes.batch == 2);
      CHECK(plan.layout.bytes == std::ssize(plan.image));
      check_image(plan, table);
      const auto counts =
          part<std::int32_t>(plan, plan.layout.contributions, at(problem.q_tiles()));
      for (QTile q{0}; q.value < problem.q_tiles(); ++q)
        CHECK(counts[at(q)] == problem.common_grid().contributions(q));
      const auto seen = part<std::uint8_t>(plan, plan.layout.seen, at(problem.kv_tiles()));
      bool unseen = false;
      for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
        CHECK((seen[at(kv)] != 0) == (problem.common_grid().chain_length(kv) > 0));
        unseen = unseen || seen[at(kv)] == 0;
      }
      CHECK(plan.has_unseen == unseen);
      ++cases;
    }
  }
  CHECK(cases == 3 * test::kinds_of_masks());
}

/// Counts the tiles in which several ranges of queries see a key, pair by pair.
std::int64_t split_tiles(const Problem& problem) {
  const TokenMask mask(problem);
  std::set<std::pair<std::int64_t, std::int64_t>> split;
  for (std::int64_t key = 0; key < problem.lengths.kv; ++key) {
    std::map<std::int64_t, std::int64_t> ranges;  // by Q tile
    for (std::int64_t query = 0; query < problem.lengths.q; ++query) {
      const bool first = query % problem.shape.q == 0 || !mask.sees(query - 1, key);
      if (mask.sees(query, key) && first) ++ranges[query / problem.shape.q];
    }
    for (const auto& [q, count] : ranges) {
      if (count > 1) split.emplace(key / problem.shape.kv, q);
    }
  }
  return std::ssize(split);
}

TEST_CASE(
    "an image has bits for tiles where several ranges of queries see a key, and for no other") {
  std::int64_t in_bits = 0;
  std::int64_t plans = 0;
  test::Random random(test::seed(20261123));
  const auto check = [&](const Problem& problem, std::int64_t head_dim) {
    CAPTURE(mask_words(problem.mask), problem.shape.q, head_dim);
    const Table table = schedules::build(schedules::select("lpt-descending"), problem);
    const Plan plan =
        make_plan(table, TokenMask(problem), 1, static_cast<std::int32_t>(head_dim), Dtype::bf16);
    const std::int64_t tiles = check_image(plan, table);
    REQUIRE(tiles == split_tiles(problem));
    in_bits += tiles;
    ++plans;
  };
  for (const Shape& shape : kShapes) {
    const TileShape tile{.q = shape.tile_q, .kv = kTileKv};
    for (const Problem& problem : test::masks_in_bits(random, {520, 520}, tile, 2))
      check(problem, shape.head_dim);
    for (int round = 0; round < 10; ++round) {
      const Lengths lengths{.q = random.between(1, 300), .kv = random.between(1, 300)};
      const Mask mask = test::random_ranges(random, lengths, random.between(1, 6));
      if (mask.integers("q").empty()) continue;
      check(make_problem(mask, lengths, tile, 1, 0), shape.head_dim);
    }
  }
  // Every mask of three queries and four keys, around the end of a Q tile and of a KV tile.
  for (std::uint32_t pairs = 1; pairs < 1U << 12; ++pairs) {
    const auto sees = [&](std::int64_t query, std::int64_t key) {
      return query >= 62 && key >= 126 && (pairs >> ((query - 62) * 4 + key - 126) & 1) != 0;
    };
    check(make_problem(test::mask_of_pairs({65, 130}, sees), {65, 130}, {64, kTileKv}, 1, 0), 64);
  }
  CHECK(plans > 4095 + 6 * 10);
  CHECK(in_bits > 300);
}

TEST_CASE("bits that would take more than a GiB are refused before they are made") {
  // One query of each Q tile sees the first and the last key of each KV tile: 2^20 tiles of a KiB
  // each are as many as there may be.
  const auto refusal = [](std::int64_t q_tiles, std::int64_t kv_tiles) {
    std::vector<std::int64_t> q;
    std::vector<std::int64_t> kv;
    for (std::int64_t query = 0; query < q_tiles * 64; query += 2) {
      if (query % 64 > 2) continue;
      for (std::int64_t key = 0; key < kv_tiles * 128; key += 128) {
        q.insert(q.end(), {query, query + 1});
        kv.insert(kv.end(), {key, key + 1});
      }
    }
    const Problem problem = make_problem(make_mask("slices", {{"q", q}, {"kv", kv}}),
                                         {q_tiles * 64, kv_tiles * 128}, {64, kTileKv}, 1, 1);
    return plan_refusal(problem, 64, Dtype::bf16);
  };
  CHECK(refusal(1024, 1024).empty());
  const std::string why = refusal(1025, 1024);
  CHECK(why.find("of 1049600 tiles a key is seen by several ranges of queries") !=
        std::string::npos);
  CHECK(why.find("the limit is 1024 MiB") != std::string::npos);
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

TEST_CASE("where parts are added in order, a plan has their ranks, sums and semaphores") {
  std::int64_t ranked = 0;
  for (const std::int64_t span : {1, 2}) {
    CAPTURE(span);
    // The first KV tiles are seen by nobody: their chains own no rank.
    const Problem problem =
        make_problem(parse_mask("sliding:left=100,right=0"), {300, 700}, {.q = 128, .kv = kTileKv},
                     8, 4, {.heads_kv = 2, .span = span, .combine = Combine::ordered});
    Table table = schedules::build(schedules::select("spt"), problem);
    test::Random random(test::seed(5));
    test::shuffle_dkv_ranks(random, table);
    const Plan plan = make_plan(table, TokenMask(problem), 1, 64, Dtype::bf16);
    CHECK(plan.in_order);
    CHECK_FALSE(plan.has_parts());
    CHECK(plan.has_unseen);
    const auto ranks = part<std::int32_t>(plan, plan.layout.dkv_ranks, at(problem.chains()));
    // As the kernel finds a chain's rank by its head.
    for (Head head{0}; head.value < 8; ++head) {
      for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
        const std::int32_t rank = ranks[at(head.value / span * problem.kv_tiles() + kv.value)];
        const bool is_seen = problem.common_grid().chain_length(kv) > 0;
        REQUIRE(rank == (is_seen ? table.dkv_rank({head, kv, QTile{0}}) : -1));
        ranked += is_seen ? 1 : 0;
      }
    }
    // 6 KV tiles of 128 keys and two KV heads, 4 bytes an element; a semaphore for each 16 keys.
    const WorkspaceLayout& workspace = plan.workspace;
    CHECK(workspace.dv == workspace.dk + 2 * 6 * 128 * 64 * 4);
    CHECK(workspace.dkv_locks == workspace.dv + 2 * 6 * 128 * 64 * 4);
    CHECK(workspace.bytes == workspace.dkv_locks + aligned(2 * 6 * 8 * 4));
  }
  CHECK(ranked > 0);
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
  const Problem by_head =
      make_problem(parse_mask("heads; full; causal"), {256, 256}, {64, 128}, 4, 4);
  CHECK(plan_refusal(by_head, 64, Dtype::bf16) ==
        "the hopper kernel does not know heads with masks of their own yet");
  for (const std::int64_t span : {1, 2, 4})
    CHECK(refusal({64, 128}, 64, Dtype::bf16, {.heads_kv = 1, .span = span}).empty());
  CHECK(refusal({64, 128}, 64, Dtype::bf16, {.heads_kv = 2, .span = 1, .combine = Combine::ordered})
            .empty());
}

}  // namespace
}  // namespace stagger::gpu::hopper
