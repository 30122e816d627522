/* What kernels.cu needs where it is compiled for a processor. */
#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef struct { u32 x, y, z, w; } uint4;

#define KERNEL static void
#define FUNCTION static inline

/* The thread that runs: one at a time, in order. */
static struct { u32 x, y; } blockIdx, blockDim, threadIdx;

/* Where a thread runs alone there is nobody to share with. */
FUNCTION const u32 *staged_tables(const u32 *tables)
{
    return tables;
}

/* Lanes come one after the other, to what was zero before the first. */
FUNCTION void sum_over_warp(u32 *to, u32 value)
{
    *to ^= value;
}
