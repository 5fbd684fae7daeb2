// Four plans at a time with the registers and masks of AVX-512VL.
#define TESSERA_LANE_KERNEL lane_kernel_avx512
#define TESSERA_LANE_NAME "avx512"
#include "model/lane_kernel.inl"
