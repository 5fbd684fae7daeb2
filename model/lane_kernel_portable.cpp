// Two plans at a time: what every processor of the architecture has.
#define TESSERA_LANE_KERNEL lane_kernel_portable
#define TESSERA_LANE_NAME "portable"
#include "model/lane_kernel.inl"
