#include "io/chunk_codec.hpp"

#include <cstring>
#include <memory>

#include <libdeflate.h>

#include "tessera/error.hpp"

namespace tessera {
namespace {

// libdeflate's states are large (about 1 MB): one per thread, kept.
struct Compressor {
  libdeflate_compressor* state = libdeflate_alloc_compressor(kDeflateLevel);
  ~Compressor() { libdeflate_free_compressor(state); }
};
struct Decompressor {
  libdeflate_decompressor* state = libdeflate_alloc_decompressor();
  ~Decompressor() { libdeflate_free_decompressor(state); }
};

template <std::size_t Element>
void shuffle(const std::uint8_t* raw, std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t b = 0; b < Element; ++b) out[b * count + i] = raw[i * Element + b];
}

void shuffle_any(const std::uint8_t* raw, std::size_t count, std::size_t element, std::uint8_t* out) {
  if (element == 4) return shuffle<4>(raw, count, out);
  if (element == 8) return shuffle<8>(raw, count, out);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t b = 0; b < element; ++b) out[b * count + i] = raw[i * element + b];
}

}  // namespace

void compress_chunk(std::span<const std::uint8_t> raw, std::size_t element, std::vector<std::uint8_t>& out) {
  thread_local Compressor compressor;
  thread_local std::vector<std::uint8_t> shuffled;
  if (!compressor.state) throw RunError("out of memory for the compressor");
  const std::uint8_t* input = raw.data();
  if (element > 1) {
    shuffled.resize(raw.size());
    shuffle_any(raw.data(), raw.size() / element, element, shuffled.data());
    input = shuffled.data();
  }
  out.resize(libdeflate_zlib_compress_bound(compressor.state, raw.size()));
  const std::size_t size = libdeflate_zlib_compress(compressor.state, input, raw.size(), out.data(), out.size());
  if (size == 0) throw RunError("a chunk of the results could not be compressed");
  out.resize(size);
}

void expand_chunk(std::span<const std::uint8_t> compressed, std::size_t element, std::span<std::uint8_t> raw) {
  thread_local Decompressor decompressor;
  thread_local std::vector<std::uint8_t> shuffled;
  if (!decompressor.state) throw RunError("out of memory for the decompressor");
  shuffled.resize(raw.size());
  std::size_t size = 0;
  const auto result = libdeflate_zlib_decompress(decompressor.state, compressed.data(), compressed.size(),
                                                 shuffled.data(), shuffled.size(), &size);
  if (result != LIBDEFLATE_SUCCESS || size != raw.size()) throw RunError("a chunk of the results is damaged");
  const std::size_t count = raw.size() / element;
  for (std::size_t b = 0; b < element; ++b)
    for (std::size_t i = 0; i < count; ++i) raw[i * element + b] = shuffled[b * count + i];
}

std::uint32_t crc32(std::span<const std::uint8_t> bytes, std::uint32_t seed) {
  return libdeflate_crc32(seed, bytes.data(), bytes.size());
}

}  // namespace tessera
