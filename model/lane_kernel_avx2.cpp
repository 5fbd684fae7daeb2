// Four plans at a time in AVX2 registers.
#define TESSERA_LANE_KERNEL lane_kernel_avx2
#define TESSERA_LANE_NAME "avx2"
#include "model/lane_kernel.inl"
