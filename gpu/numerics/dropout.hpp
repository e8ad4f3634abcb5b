#pragma once

#include "gpu/numerics/host_device.hpp"
#include "gpu/numerics/philox.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace stagger::gpu {

/// Which elements of attention's matrix are kept: a pure function of seed, offset, batch, head,
/// query and key, the same for every tile shape, schedule, thread and device, for the forward and
/// the backward pass, and for bits that are stored and bits that are made where they are needed.
struct DropoutRule {
  PhiloxKey key = {};           ///< of dropout_key()
  int rounds = 7;               ///< of Philox-4x32; 3 leave bits that are seen to be no chance
  int bits = 8;                 ///< random bits that decide on an element: 8, 16 or 32
  std::uint64_t threshold = 0;  ///< kept are the elements whose bits are below; 0 … 2^bits
};

/// Returns the key of one call of dropout. An offset is a call's place among those of one seed.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr PhiloxKey dropout_key(std::uint64_t seed,
                                                                  std::uint64_t offset) {
  const PhiloxCounter words =
      philox({{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32), 0, 0}},
             {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
  return {{words.word[0], words.word[1]}};
}

/// A row of attention's matrix.
struct DropoutRow {
  std::uint32_t batch = 0;
  std::uint32_t head = 0;
  std::uint32_t query = 0;
};

/// Returns which of sixteen bytes are below a threshold of 0 … 256, in the order of the words and,
/// within a word, from its low bits on.
///
/// Two bytes of a word at a time, each in a half of its own: byte + 256 - threshold has bit 8 if
/// the byte is not below. 32 keys by 7 rounds are then 167 instructions, byte by byte 216.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint32_t bytes_below(const PhiloxCounter& random,
                                                                      std::uint32_t threshold) {
  constexpr std::uint32_t kBytes = 0x00ff00ff;
  constexpr std::uint32_t kCarries = 0x01000100;
  const std::uint32_t rest = (256 - threshold) * 0x00010001;
  std::uint32_t not_below = 0;  // of word w bits 4 w, 4 w + 1 (bytes 0, 1), 16 + 4 w, … (2, 3)
  for (int word = 0; word < 4; ++word) {
    const std::uint32_t even = (random.word[word] & kBytes) + rest;
    const std::uint32_t odd = (random.word[word] >> 8 & kBytes) + rest;
    not_below |= ((even & kCarries) >> 8 | (odd & kCarries) >> 7) << 4 * word;
  }
  return ~(not_below | not_below >> 14) & 0xffff;
}

/// Moves bits up by four and puts below them which of four words are at least 2^32 - rest, in the
/// order of the words.
///
/// A sum's carry says so, and the next addition takes it: two instructions a word, where a
/// comparison, a selection and an "or" are three.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint32_t append_carries(
    std::uint32_t bits, const PhiloxCounter& random, std::uint32_t rest) {
  for (int word = 3; word >= 0; --word) {
#ifdef __CUDA_ARCH__
    asm("{ .reg .u32 sum; add.cc.u32 sum, %1, %2; addc.u32 %0, %0, %0; }"
        : "+r"(bits)
        : "r"(random.word[word]), "r"(rest));
#else
    bits = bits << 1 | (random.word[word] > ~rest ? 1U : 0U);
#endif
  }
  return bits;
}

/// Returns whether 32 keys of a row are kept, as keep_keys() does, by code for a kernel that does
/// nothing else: without loops. Requires kBits of 8 or 32 and kRounds to be the rule's.
template <int kBits, int kRounds>
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint32_t keep_word_unrolled(
    const DropoutRule& rule, const DropoutRow& row, std::uint32_t word) {
  static_assert(kBits == 8 || kBits == 32);
  constexpr std::uint32_t kCalls = kBits / 4;
  const auto threshold = static_cast<std::uint32_t>(rule.threshold);  // of 2^32: 0
  if (kBits == 32 && rule.threshold == 0) return 0;                   // no carry would tell
  std::uint32_t found = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (std::uint32_t index = 0; index < kCalls; ++index) {
    const std::uint32_t call = kBits == 8 ? index : kCalls - 1 - index;
    const PhiloxCounter random = philox_unrolled<kRounds>(
        {{word * kCalls + call, row.query, row.head, row.batch}}, rule.key);
    if constexpr (kBits == 8) {
      found |= bytes_below(random, threshold) << call * 16;
    } else {
      found = append_carries(found, random, 0 - threshold);
    }
  }
  return kBits == 8 ? found : ~found;
}

/// Returns whether 16 or 32 keys of a row are kept, on each of which kBits bits decide: bit j
/// speaks of key kKeys * place + j. Requires kBits == rule.bits.
///
/// A call of Philox decides on the next 128 / kBits keys, in the order of its words and, within a
/// word, from its low bits on: with 8 bits two calls for 32 keys, with 32 bits eight.
template <int kKeys, int kBits>
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint32_t keep_keys(const DropoutRule& rule,
                                                                    const DropoutRow& row,
                                                                    std::uint32_t place) {
  constexpr int kKeysOfCall = 128 / kBits;
  constexpr int kKeysOfWord = 32 / kBits;
  static_assert(kKeys % kKeysOfCall == 0);
  constexpr std::uint32_t kCalls = kKeys / kKeysOfCall;
  using Value = std::conditional_t<kBits == 32, std::uint64_t, std::uint32_t>;  // 2^kBits too
  constexpr auto kMask = static_cast<Value>((std::uint64_t{1} << kBits) - 1);
  const auto threshold = static_cast<Value>(rule.threshold);
  std::uint32_t kept = 0;
  for (std::uint32_t call = 0; call < kCalls; ++call) {
    const PhiloxCounter random =
        philox({{place * kCalls + call, row.query, row.head, row.batch}}, rule.key, rule.rounds);
    std::uint32_t of_call = 0;
    for (int key = 0; key < kKeysOfCall; ++key) {
      const Value value = Value{random.word[key / kKeysOfWord]} >> key % kKeysOfWord * kBits;
      if ((value & kMask) < threshold) of_call |= std::uint32_t{1} << key;
    }
    kept |= of_call << call * kKeysOfCall;
  }
  return kept;
}

/// Returns whether 16 or 32 keys of a row are kept, by a rule of any bits.
template <int kKeys>
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint32_t keep_keys(const DropoutRule& rule,
                                                                    const DropoutRow& row,
                                                                    std::uint32_t place) {
  if (rule.bits == 8) return keep_keys<kKeys, 8>(rule, row, place);
  return rule.bits == 16 ? keep_keys<kKeys, 16>(rule, row, place)
                         : keep_keys<kKeys, 32>(rule, row, place);
}

/// Returns whether the 32 keys of a word are kept: bit j speaks of key 32 * word + j.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint32_t keep_word(const DropoutRule& rule,
                                                                    const DropoutRow& row,
                                                                    std::uint32_t word) {
  return keep_keys<32>(rule, row, word);
}

/// Stored bits: [batch, heads, seq_q, ceil(seq_kv / 32)] words. Bits beyond the last key are those
/// that keys there would have.
struct DropoutLayout {
  std::int64_t heads = 0;
  std::int64_t seq_q = 0;
  std::int64_t seq_kv = 0;

  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int64_t words_of_row() const {
    return (seq_kv + 31) / 32;
  }
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int64_t words(std::int64_t batches) const {
    return batches * heads * seq_q * words_of_row();
  }
  /// Where a row's first word is.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int64_t place(const DropoutRow& row) const {
    return ((row.batch * heads + row.head) * seq_q + row.query) * words_of_row();
  }
  /// Whether stored bits keep a key of a row.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr bool kept(const std::uint32_t* bits,
                                                        const DropoutRow& row,
                                                        std::int64_t key) const {
    return (bits[place(row) + key / 32] >> (key % 32) & 1) != 0;
  }
};

/// Dropout as an executor takes it: bits by words or halves of words, stored or generated.
struct DropoutWords {
  DropoutRule rule = {};
  DropoutLayout layout = {};
  const std::uint32_t* stored = nullptr;  ///< nullptr: they are generated
  float scale = 1;                        ///< what kept elements are multiplied by

  /// Bit j speaks of key 32 * place + j. Requires that the row has such a word.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint32_t word(const DropoutRow& row,
                                                                 std::uint32_t place) const {
    return stored == nullptr ? keep_word(rule, row, place) : stored[layout.place(row) + place];
  }
  /// Bit j, of 16, speaks of key 16 * place + j. Requires that the row has the word of it.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::uint32_t half(const DropoutRow& row,
                                                                 std::uint32_t place) const {
    if (stored == nullptr) return keep_keys<16>(rule, row, place);
    return stored[layout.place(row) + place / 2] >> place % 2 * 16 & 0xffff;
  }
};

}  // namespace stagger::gpu
