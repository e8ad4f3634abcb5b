// MagiAttention's slices: ranges of queries and keys, and which band of each rectangle attends.

#include "core/error.hpp"
#include "core/formats/import_context.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"
#include "core/mask_rules.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace stagger::formats {
namespace {

constexpr std::array kTypes = {"full", "causal", "inv_causal", "bi_causal"};

std::vector<std::int64_t> ranges_of(const Bundle& bundle, const char* name) {
  const Tensor& tensor = bundle.at(name);
  const bool pairs = tensor.shape.size() == 2 && tensor.shape[1] == 2;
  if (!pairs && !tensor.elements.empty()) {
    bundle.reject(std::string(name) + " has a shape of " + shape_words(tensor.shape) +
                  ", not [slices,2]");
  }
  for (std::size_t place = 0; place < tensor.elements.size(); ++place) {
    const std::int64_t end = tensor.elements[place];
    if (end < 0 || end > kMaxTokens) {
      bundle.reject(name + place_words(static_cast<std::int64_t>(place), tensor.shape) + " = " +
                    std::to_string(end) + " is no token");
    }
  }
  return tensor.elements;
}

std::vector<std::int64_t> types_of(const Import& import) {
  const auto words = import.bundle.lists.find("attn_type_map");
  if (words == import.bundle.lists.end()) {
    return import.numbers("attn_type_map").value_or(std::vector<std::int64_t>{});
  }
  std::vector<std::int64_t> types;
  for (const std::string& word : words->second) {
    const auto known =
        std::ranges::find(kTypes, word, [](const char* name) { return std::string(name); });
    if (known == kTypes.end()) {
      import.bundle.reject("attn_type_map: '" + word +
                           "' is no type; known: full, causal, inv_causal, bi_causal");
    }
    types.push_back(known - kTypes.begin());
  }
  return types;
}

/// Says which pairs two slices share, which the kernel adds twice.
class Overlaps {
 public:
  Overlaps(const Mask& mask, std::int64_t queries) : mask_(mask), queries_(queries) {}

  void say(Import& import) {
    const auto& q = mask_.integers("q");
    std::vector<std::size_t> waiting(q.size() / 2);
    std::iota(waiting.begin(), waiting.end(), std::size_t{0});
    std::ranges::sort(waiting, [&](std::size_t left, std::size_t right) {
      return std::pair(q[2 * left], left) > std::pair(q[2 * right], right);
    });
    std::vector<std::size_t> active;
    for (std::int64_t query = 0; query < queries_; ++query) {
      for (; !waiting.empty() && q[2 * waiting.back()] <= query; waiting.pop_back())
        active.push_back(waiting.back());
      std::erase_if(active, [&](std::size_t slice) { return q[2 * slice + 1] <= query; });
      add_query(active, query);
    }
    import.understood(count_ == 0 ? "no pair of tokens is in two slices"
                                  : counted(count_, "pair") +
                                        does(count_, " of tokens is", " of tokens are") +
                                        " in two slices or more, which the kernel counts as "
                                        "often; the first " +
                                        first_);
  }

 private:
  struct Seen {
    KeyRange keys;
    std::size_t slice = 0;
  };

  void add_query(const std::vector<std::size_t>& active, std::int64_t query) {
    seen_.clear();
    for (const std::size_t slice : active) {
      const KeyRange keys = slice_keys(mask_, slice, query);
      if (keys.begin < keys.end) seen_.push_back({keys, slice});
    }
    std::ranges::sort(seen_, [](const Seen& left, const Seen& right) {
      return std::pair(left.keys.begin, left.slice) < std::pair(right.keys.begin, right.slice);
    });
    std::int64_t end = 0;  // of the keys of those before, and whose that is
    std::size_t whose = 0;
    std::int64_t told = 0;  // end of the keys that are counted
    for (const Seen& each : seen_) {
      const std::int64_t shared = std::min(each.keys.end, end);
      if (shared > each.keys.begin && first_.empty()) {
        first_ = "(query " + std::to_string(query) + ", key " + std::to_string(each.keys.begin) +
                 ") in slices " + std::to_string(std::min(whose, each.slice)) + " and " +
                 std::to_string(std::max(whose, each.slice));
      }
      count_ += std::max(shared - std::max(each.keys.begin, told), std::int64_t{0});
      told = std::max(told, shared);
      if (each.keys.end > end) {
        end = each.keys.end;
        whose = each.slice;
      }
    }
  }

  const Mask& mask_;
  std::int64_t queries_;
  std::vector<Seen> seen_;
  std::int64_t count_ = 0;
  std::string first_;
};

}  // namespace

ImportedMask read_magi(Import& import) {
  const std::vector<std::int64_t> q = ranges_of(import.bundle, "q_ranges");
  const std::vector<std::int64_t> kv = ranges_of(import.bundle, "k_ranges");
  Mask mask = make_mask("slices", {{"q", q}, {"kv", kv}, {"types", types_of(import)}});
  const Lengths ends = slices_size(mask);
  const auto& given = import.request.lengths;
  const auto longer = [](std::int64_t end, std::int64_t length) {
    return length == 0 ? end : length;
  };
  const Lengths lengths{longer(ends.q, given.q), longer(ends.kv, given.kv)};
  // Refuses what is no slice of so many tokens, before anything is counted.
  static_cast<void>(key_ranges(mask, lengths, {}));
  import.understood(counted(std::ssize(q) / 2, "slice") + ", one mask for all heads");
  if (given.q == 0 && given.kv == 0) {
    import.understood("as long as its last slices: " + std::to_string(ends.q) + " queries, " +
                      std::to_string(ends.kv) + " keys");
  }
  Overlaps(mask, lengths.q).say(import);
  import.lost("the order of the slices, in which its deterministic mode adds");
  return import.of_tokens(std::move(mask), lengths);
}

}  // namespace stagger::formats
