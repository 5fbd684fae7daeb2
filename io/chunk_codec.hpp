// One HDF5 chunk: byte shuffle, then deflate in a zlib frame, as HDF5's own filters `shuffle` and `deflate`
// write it, so that any HDF5 reads it back. Pure and thread-safe: chunks are compressed in parallel.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// Deflate level of the files: 1, the fastest; the metrics are floats whose low bytes do not compress at any.
inline constexpr int kDeflateLevel = 1;

/// Compresses `raw` (whole values of `element` bytes) into `out`, which is resized. The bytes depend on the
/// input only. Throws RunError when memory runs out.
void compress_chunk(std::span<const std::uint8_t> raw, std::size_t element, std::vector<std::uint8_t>& out);

/// The inverse; `raw` has the size that is expected. Throws RunError when the bytes are damaged.
void expand_chunk(std::span<const std::uint8_t> compressed, std::size_t element, std::span<std::uint8_t> raw);

/// CRC-32 (the polynomial of zlib) of bytes; `seed` is the CRC of what came before.
std::uint32_t crc32(std::span<const std::uint8_t> bytes, std::uint32_t seed = 0);

}  // namespace tessera
