#include "gpu/check/dropout.hpp"
#include "gpu/overlap/reference.hpp"
#include "gpu/overlap/work.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace stagger::gpu::overlap {
namespace {

/// A word as the rule defines it: a call of Philox for 128 / bits keys, key by key.
std::uint32_t word_by_keys(const DropoutRule& rule, const DropoutRow& row, std::uint32_t word) {
  const auto keys_of_call = static_cast<std::uint32_t>(128 / rule.bits);
  std::uint32_t kept = 0;
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    const std::uint32_t key = 32 * word + bit;
    const PhiloxCounter random =
        philox({{key / keys_of_call, row.query, row.head, row.batch}}, rule.key, rule.rounds);
    const auto first = static_cast<int>(key % keys_of_call) * rule.bits;
    const std::uint64_t value = std::uint64_t{random.word[first / 32]} >> first % 32 &
                                ((std::uint64_t{1} << rule.bits) - 1);
    if (value < rule.threshold) kept |= std::uint32_t{1} << bit;
  }
  return kept;
}

template <int kBits, int kRounds>
int compare_words(std::uint32_t seed) {
  test::Random random(seed);
  int words = 0;
  const std::uint64_t most = std::uint64_t{1} << kBits;
  for (const std::uint64_t threshold :
       {std::uint64_t{0}, std::uint64_t{1}, most / 2, most * 9 / 10, most - 1, most}) {
    for (int sample = 0; sample < 20; ++sample) {
      const DropoutRule rule{
          .key = dropout_key(static_cast<std::uint64_t>(random.between(0, 1 << 30)), 3),
          .rounds = kRounds,
          .bits = kBits,
          .threshold = threshold};
      const DropoutRow row{.batch = static_cast<std::uint32_t>(random.between(0, 100)),
                           .head = static_cast<std::uint32_t>(random.between(0, 100)),
                           .query = static_cast<std::uint32_t>(random.between(0, 1 << 20))};
      const auto word = static_cast<std::uint32_t>(random.between(0, 1 << 15));
      CAPTURE(kBits, kRounds, threshold, word);
      const std::uint32_t made = keep_word_unrolled<kBits, kRounds>(rule, row, word);
      CHECK(made == word_by_keys(rule, row, word));
      CHECK(made == keep_word(rule, row, word));
      ++words;
    }
  }
  return words;
}

TEST_CASE("words without loops are those of the rule, key by key") {
  const std::uint32_t seed = test::seed(51);
  CAPTURE(seed);
  const int words = compare_words<8, 3>(seed) + compare_words<8, 5>(seed) +
                    compare_words<8, 7>(seed) + compare_words<8, 10>(seed) +
                    compare_words<32, 3>(seed) + compare_words<32, 5>(seed) +
                    compare_words<32, 7>(seed) + compare_words<32, 10>(seed);
  CHECK(words == 8 * 6 * 20);
}

TEST_CASE("sixteen bytes are compared with every threshold") {
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const PhiloxCounter bytes{{byte * 0x01010101, (255 - byte) * 0x01010101, byte, byte << 24}};
    for (std::uint32_t threshold = 0; threshold <= 256; ++threshold) {
      std::uint32_t wanted = 0;
      for (int at = 0; at < 16; ++at) {
        if ((bytes.word[at / 4] >> at % 4 * 8 & 0xff) < threshold) wanted |= std::uint32_t{1} << at;
      }
      if (bytes_below(bytes, threshold) != wanted) {
        CAPTURE(byte, threshold);
        CHECK(bytes_below(bytes, threshold) == wanted);
      }
    }
  }
}

TEST_CASE("four words beside a threshold are compared with it, in their order") {
  const std::uint64_t most = std::uint64_t{1} << 32;
  for (const std::uint64_t threshold :
       {std::uint64_t{1}, std::uint64_t{2}, most / 2, most - 1, most}) {
    const auto at = static_cast<std::uint32_t>(threshold);
    const PhiloxCounter words{{at, at - 1, 0xffffffff, 0}};
    std::uint32_t wanted = 0b1011;  // what was there
    for (int word = 3; word >= 0; --word)
      wanted = wanted << 1 | (words.word[word] >= threshold ? 1U : 0U);
    CAPTURE(threshold);
    CHECK(append_carries(0b1011, words, 0 - at) == wanted);
  }
}

TEST_CASE("chunks make every word once, in the layout of stored bits") {
  struct Case {
    std::int64_t batch, heads, seq;
  };
  const DropoutRule rule = dropout_rule({.probability = 0.1, .seed = 7, .rounds = 3});
  for (const auto& [batch, heads, seq] :
       std::vector<Case>{{1, 1, 1}, {1, 2, 33}, {2, 3, 65}, {1, 1, 128}, {3, 5, 31}, {1, 2, 520}}) {
    CAPTURE(batch, heads, seq);
    const DropoutLayout layout{.heads = heads, .seq_q = seq, .seq_kv = seq};
    const auto size = static_cast<std::size_t>(layout.words(batch));
    // What is behind the last word stays.
    std::vector<std::uint32_t> words(size + 64, 0xdeadbeef);
    const BitsWork work = bits_work(rule, batch, heads, seq, words.data());
    for (std::int32_t chunk = 0; chunk < work.chunks(); ++chunk) {
      for (std::int32_t lane = 0; lane < 32; ++lane)
        make_bits<8, 3>(work, chunk, lane);
    }
    std::size_t wrong = 0;
    std::size_t word = 0;
    for (std::uint32_t b = 0; b < batch; ++b) {
      for (std::uint32_t head = 0; head < heads; ++head) {
        for (std::uint32_t query = 0; query < seq; ++query) {
          for (std::uint32_t at = 0; at < layout.words_of_row(); ++at, ++word)
            wrong += words[word] != word_by_keys(rule, {b, head, query}, at) ? 1 : 0;
        }
      }
    }
    CHECK(word == size);
    CHECK(wrong == 0);
    for (; word < words.size(); ++word)
      CHECK(words[word] == 0xdeadbeef);
  }
}

TEST_CASE("clusters take every tile once, and neighbours are near each other") {
  for (const auto& [rows, columns] : std::vector<std::pair<int, int>>{
           {1, 1}, {1, 7}, {7, 1}, {8, 3}, {9, 5}, {16, 96}, {17, 11}, {64, 24}}) {
    CAPTURE(rows, columns);
    const TileOrder order{.rows = rows, .columns = columns};
    std::set<std::pair<int, int>> seen;
    for (std::int32_t index = 0; index < order.tiles(); ++index) {
      const TileOrder::Place place = order.place(index);
      CHECK((place.row >= 0 && place.row < rows && place.column >= 0 && place.column < columns));
      seen.insert({place.row, place.column});
    }
    CHECK(seen.size() == static_cast<std::size_t>(rows * columns));
  }
  // 66 clusters at a time: of 16 x 96 tiles they read 8 rows and 9 columns, or 10 across a border.
  const TileOrder order{.rows = 16, .columns = 96};
  for (std::int32_t first = 0; first + 66 <= 8 * 96; first += 66) {
    std::set<std::int32_t> rows;
    std::set<std::int32_t> columns;
    for (std::int32_t index = first; index < first + 66; ++index) {
      rows.insert(order.place(index).row);
      columns.insert(order.place(index).column);
    }
    CHECK(rows.size() == 8);
    CHECK(columns.size() <= 10);
  }
}

TEST_CASE("the reference's attention is that of whole matrices") {
  constexpr std::int64_t kHeads = 2;
  constexpr std::int64_t kSeq = 40;
  const DropoutRule rule = dropout_rule({.probability = 0.3, .seed = 5});
  const auto at = [](Input which, std::int64_t row, int dim) {
    return double{input(which, row * kAttentionDim + dim)};
  };
  for (const DropoutRule* dropout : {static_cast<const DropoutRule*>(nullptr), &rule}) {
    for (const std::int64_t row :
         {std::int64_t{0}, std::int64_t{57}, kHeads * kSeq - 1, 3 * kHeads * kSeq + 50}) {
      const std::int64_t first = row / kSeq * kSeq;
      std::vector<double> scores;
      for (std::int64_t key = 0; key < kSeq; ++key) {
        double score = 0;
        for (int dim = 0; dim < kAttentionDim; ++dim)
          score += at(Input::q, row, dim) * at(Input::k, first + key, dim);
        scores.push_back(score / std::sqrt(128.0));
      }
      const double most = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (const double score : scores)
        sum += std::exp(score - most);
      const std::vector<Element> out = attention_row(kHeads, kSeq, dropout, row);
      REQUIRE(out.size() == kAttentionDim);
      for (int dim = 0; dim < kAttentionDim; ++dim) {
        double wanted = 0;
        for (std::int64_t key = 0; key < kSeq; ++key) {
          const DropoutRow place{static_cast<std::uint32_t>(row / kSeq / kHeads),
                                 static_cast<std::uint32_t>(row / kSeq % kHeads),
                                 static_cast<std::uint32_t>(row % kSeq)};
          const std::uint32_t word =
              dropout == nullptr ? ~0U
                                 : word_by_keys(rule, place, static_cast<std::uint32_t>(key / 32));
          if ((word >> key % 32 & 1) == 0) continue;
          wanted += std::exp(scores[static_cast<std::size_t>(key)] - most) / sum *
                    at(Input::v, first + key, dim);
        }
        if (dropout != nullptr) wanted *= keep_scale(rule);
        CHECK(out[static_cast<std::size_t>(dim)].value == Approx(wanted).margin(1e-12));
      }
    }
  }
}

TEST_CASE("the reference's product is that of whole matrices") {
  const GemmShape shape{.m = 8, .n = 6, .k = 64};
  for (std::int64_t row = 0; row < shape.m; ++row) {
    for (std::int64_t column = 0; column < shape.n; ++column) {
      // Inputs are multiples of 1/64 below 4: products and sums are exact, in integers too.
      std::int64_t sum = 0;
      for (std::int64_t at = 0; at < shape.k; ++at) {
        sum += static_cast<std::int64_t>(64 * input(Input::a, row * shape.k + at)) *
               static_cast<std::int64_t>(64 * input(Input::b, column * shape.k + at));
      }
      CHECK(product_element(shape, row, column).value == static_cast<double>(sum) / 4096);
    }
  }
}

TEST_CASE("the GEMM runs whole tiles of a cluster") {
  CHECK(runs({256, 256, 64}));
  CHECK(runs({16384, 36864, 12288}));
  CHECK_FALSE(runs({128, 256, 64}));
  CHECK_FALSE(runs({256, 128, 64}));
  CHECK_FALSE(runs({256, 256, 32}));
  CHECK_FALSE(runs({256, 256, 0}));
  CHECK_FALSE(runs({std::int64_t{1} << 31, 256, 64}));
}

}  // namespace
}  // namespace stagger::gpu::overlap
