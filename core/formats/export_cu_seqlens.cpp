// Masks as sequences of several lengths. A kernel begins each of them in a tile of its own, so a
// packed mask of which a tile holds tokens of two cannot be written.

#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/index.hpp"
#include "core/key_ranges.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <optional>

namespace stagger::formats {
namespace {

constexpr const char* kFormat = "cu-seqlens";

/// Sequences and the window that all of them have.
struct Sequences {
  std::vector<std::int64_t> q;
  std::vector<std::int64_t> kv;
  bool causal = false;
  std::int64_t left = -1;
  std::int64_t right = -1;
};

[[noreturn]] void refuse_at(const Problem& problem, std::int64_t query, std::int64_t key,
                            const std::string& why) {
  refuse_tile(kFormat, KvTile{static_cast<std::int32_t>(key / problem.shape.kv)},
              QTile{static_cast<std::int32_t>(query / problem.shape.q)}, why);
}

/// Cuts a mask into sequences in which every query sees all keys, or all up to its own.
class Cutter {
 public:
  explicit Cutter(const Problem& problem)
      : problem_(problem), rows_(key_ranges(problem.mask, problem.lengths, problem.shape)) {}

  Sequences run() {
    while (query_ < rows_.queries())
      cut();
    if (keys_ != problem_.lengths.kv) {
      refuse_at(problem_, problem_.lengths.q - 1, keys_,
                "keys from " + std::to_string(keys_) + " on are seen by nobody");
    }
    sequences_.causal = kind_.value_or(false);
    return std::move(sequences_);
  }

 private:
  [[nodiscard]] KeyRange range_of(std::int64_t query) const {
    const auto ranges = rows_.of(query);
    if (ranges.size() == 1) return ranges.front();
    refuse_at(problem_, query, ranges.empty() ? keys_ : ranges[1].begin,
              ranges.empty() ? "query " + std::to_string(query) + " sees no key"
                             : "query " + std::to_string(query) + " sees several ranges of keys");
  }

  /// The queries from query_ on that see keys from keys_ on are a sequence.
  void cut() {
    const std::int64_t first = query_;
    std::int64_t end = keys_;
    while (query_ < rows_.queries() && range_of(query_).begin == keys_)
      end = std::max(end, range_of(query_++).end);
    if (query_ == first) {
      refuse_at(problem_, first, range_of(first).begin,
                "query " + std::to_string(first) + " sees keys from " +
                    std::to_string(range_of(first).begin) + " on, not from " +
                    std::to_string(keys_));
    }
    check(first, end);
    sequences_.q.push_back(query_ - first);
    sequences_.kv.push_back(end - keys_);
    keys_ = end;
  }

  void check(std::int64_t first, std::int64_t end) {
    const bool full = range_of(first).end == end;
    const bool one = query_ == first + 1;
    if (!one && kind_ && *kind_ == full) {
      refuse_at(problem_, first, keys_, "a causal sequence and one that is not meet");
    }
    if (!one) kind_ = !full;
    for (std::int64_t query = first; query < query_; ++query) {
      const std::int64_t due = full ? end : end - (query_ - 1 - query);
      if (range_of(query).end == due) continue;
      refuse_at(problem_, query, range_of(query).end,
                "query " + std::to_string(query) + " sees keys up to " +
                    std::to_string(range_of(query).end) + ", not " + std::to_string(due) +
                    " as in a sequence that is causal or full");
    }
  }

  const Problem& problem_;
  KeyRanges rows_;
  Sequences sequences_;
  std::optional<bool> kind_;  ///< causal; nullopt: not known yet
  std::int64_t query_ = 0;
  std::int64_t keys_ = 0;
};

Sequences described(const Problem& problem) {
  const Mask& mask = problem.mask;
  const std::string_view family = mask.family->name;
  if (family == "document") {
    const auto& lengths = mask.integers("lengths");
    return {.q = lengths, .kv = lengths, .causal = mask.boolean("causal")};
  }
  if (family == "varlen") {
    const auto& kv = mask.integers("kv_lengths");
    return {.q = mask.integers("q_lengths"),
            .kv = kv.empty() ? mask.integers("q_lengths") : kv,
            .causal = mask.boolean("causal"),
            .left = mask.integer("left"),
            .right = mask.boolean("causal") ? 0 : mask.integer("right")};
  }
  if (family == "sliding") {
    return {.q = {problem.lengths.q},
            .kv = {problem.lengths.kv},
            .left = mask.integer("left"),
            .right = mask.integer("right")};
  }
  if (family == "causal") {
    return {.q = {problem.lengths.q}, .kv = {problem.lengths.kv}, .causal = true};
  }
  expect_known_pairs(problem, kFormat);
  return Cutter(problem).run();
}

/// Every sequence must begin where a tile does, and in the first that the one before leaves.
void check_tiles(const Problem& problem, const Sequences& sequences) {
  const bool varlen = problem.mask.family->name == std::string_view("varlen");
  const std::int64_t align_q = varlen ? problem.mask.integer("align_q") : 1;
  const std::int64_t align_kv = varlen ? problem.mask.integer("align_kv") : 1;
  const auto aligned = [](std::int64_t end, std::int64_t align) {
    return (end + align - 1) / align * align;
  };
  std::int64_t q = 0;
  std::int64_t kv = 0;
  for (std::size_t place = 0; place < sequences.q.size(); ++place) {
    const Lengths next = {aligned(q, problem.shape.q), aligned(kv, problem.shape.kv)};
    q = aligned(q, align_q);
    kv = aligned(kv, align_kv);
    if (q % problem.shape.q != 0 || kv % problem.shape.kv != 0) {
      refuse_at(problem, std::min(q, problem.lengths.q - 1), std::min(kv, problem.lengths.kv - 1),
                "sequence " + std::to_string(place) +
                    " begins within it; a kernel begins each in a tile of its own (varlen, with "
                    "align_q and align_kv)");
    }
    if (Lengths{q, kv} != next) {
      refuse_at(problem, std::min(q, problem.lengths.q - 1), std::min(kv, problem.lengths.kv - 1),
                "sequence " + std::to_string(place) + " begins at query " + std::to_string(q) +
                    " and key " + std::to_string(kv) + ", where a kernel begins it at " +
                    std::to_string(next.q) + " and " + std::to_string(next.kv) +
                    ": it has no tiles of padding (align_q and align_kv of a tile)");
    }
    q += sequences.q[place];
    kv += sequences.kv[place];
  }
}

std::vector<std::int64_t> sums_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> sums = {0};
  for (const std::int64_t length : lengths)
    sums.push_back(sums.back() + length);
  return sums;
}

}  // namespace

Bundle cu_seqlens_bundle(const Problem& problem) {
  const Sequences sequences = described(problem);
  check_tiles(problem, sequences);
  Bundle bundle;
  const auto add = [&](const char* name, Dtype dtype, std::vector<std::int64_t> shape,
                       std::vector<std::int64_t> elements) {
    NamedTensor named{.name = name};
    named.tensor = {.dtype = dtype, .shape = std::move(shape), .elements = std::move(elements)};
    bundle.tensors.push_back(std::move(named));
  };
  for (const auto& [cu, most, lengths] :
       {std::tuple{"cu_seqlens_q", "max_seqlen_q", &sequences.q},
        std::tuple{"cu_seqlens_k", "max_seqlen_k", &sequences.kv}}) {
    const std::vector<std::int64_t> sums = sums_of(*lengths);
    add(cu, Dtype::int32, {std::ssize(sums)}, sums);
    add(most, Dtype::int32, {}, {lengths->empty() ? 0 : *std::ranges::max_element(*lengths)});
  }
  add("causal", Dtype::boolean, {}, {sequences.causal ? 1 : 0});
  add("window_size", Dtype::int64, {2}, {sequences.left, sequences.causal ? 0 : sequences.right});
  return bundle;
}

}  // namespace stagger::formats
