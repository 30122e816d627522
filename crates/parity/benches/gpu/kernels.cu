/* Parity and checksums for a GPU. A thread has 16 bytes of each column of one stripe.
 *
 * `.ci/gpu ptx` compiles this file to kernels.ptx, which the benchmark gives to the driver. It is C
 * too: host.c runs the same kernels on a processor, a thread at a time, for the test.
 *
 * A stripe's columns lie one after the other, and so do stripes. `words` is the length of a column
 * in units of 16 bytes. The grid is (words / blockDim, stripes). The field is that of crate::field.
 */

#ifdef __CUDACC__
typedef unsigned int u32;
typedef unsigned long long u64;
#define KERNEL extern "C" __global__ void
#define FUNCTION static __device__ __forceinline__
#else
#include "host.h"
#endif

/* Bytes under one checksum, as 16-byte words; and how many of them each lane of a warp has. */
#define BLOCK_WORDS 256
#define LANES 32
/* The polynomial of CRC32C, its lowest power in the highest bit. */
#define CASTAGNOLI 0x82f63b78u
/* Four tables that take 4 bytes in, and four that go on by a row of 512 bytes. */
#define TABLE_ENTRIES (8 * 256)

#ifdef __CUDACC__
/* The tables of a checksum in memory that is as near as registers. Every thread has to call it. */
FUNCTION const u32 *staged_tables(const u32 *tables)
{
    __shared__ u32 staged[TABLE_ENTRIES];
    for (u32 entry = threadIdx.x; entry < TABLE_ENTRIES; entry += blockDim.x)
        staged[entry] = tables[entry];
    __syncthreads();
    return staged;
}

/* The sum of what all lanes of a warp have. */
FUNCTION void sum_over_warp(u32 *to, u32 value)
{
    for (u32 other = LANES / 2; other > 0; other /= 2)
        value ^= __shfl_xor_sync(0xffffffffu, value, other);
    if (threadIdx.x % LANES == 0)
        *to = value;
}
#endif

/* Four field elements, each times 2. */
FUNCTION u32 doubled(u32 elements)
{
    u32 carries = (elements >> 7) & 0x01010101u;
    return ((elements & 0x7f7f7f7fu) << 1) ^ (carries * 0x1du);
}

FUNCTION uint4 twice(uint4 word)
{
    word.x = doubled(word.x);
    word.y = doubled(word.y);
    word.z = doubled(word.z);
    word.w = doubled(word.w);
    return word;
}

FUNCTION uint4 sum_of(uint4 one, uint4 other)
{
    one.x ^= other.x;
    one.y ^= other.y;
    one.z ^= other.z;
    one.w ^= other.w;
    return one;
}

FUNCTION uint4 nothing(void)
{
    uint4 word;
    word.x = word.y = word.z = word.w = 0;
    return word;
}

/* All threads have the same factor, so that none waits for another's branch. */
FUNCTION uint4 times(uint4 word, u32 factor)
{
    uint4 product = nothing();
    for (; factor != 0; factor >>= 1) {
        if (factor & 1)
            product = sum_of(product, word);
        word = twice(word);
    }
    return product;
}

/* The thread's word of column 0 of its stripe, where stripes have `width` columns. */
FUNCTION u64 first_word(u32 width, u32 words)
{
    return (u64)blockIdx.y * width * words + (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

/* P and Q of `data` columns; results are P, Q of the first stripe, then of the next. */
KERNEL generate_pq(const uint4 *columns, uint4 *results, u32 data, u32 words)
{
    if (blockIdx.x * blockDim.x + threadIdx.x >= words)
        return;
    columns += first_word(data, words);
    results += first_word(2, words);
    uint4 p = nothing(), q = nothing();
    for (u32 column = data; column-- > 0;) {
        uint4 word = columns[(u64)column * words];
        p = sum_of(p, word);
        q = sum_of(twice(q), word);
    }
    results[0] = p;
    results[words] = q;
}

/* The one lost column: the sum of the `left` ones, P among them. */
KERNEL recover_one(const uint4 *columns, uint4 *results, u32 left, u32 words)
{
    if (blockIdx.x * blockDim.x + threadIdx.x >= words)
        return;
    columns += first_word(left, words);
    results += first_word(1, words);
    uint4 sum = nothing();
    for (u32 column = 0; column < left; column++)
        sum = sum_of(sum, columns[(u64)column * words]);
    results[0] = sum;
}

/* Data columns x < y of `data`, from the others in order, P and Q. With what they lack in P and in Q,
 * D(x) = of_p * P + of_q * Q, and D(y) = D(x) + P. */
KERNEL recover_two(const uint4 *columns, uint4 *results, u32 data, u32 words, u32 x, u32 y,
                   u32 of_p, u32 of_q)
{
    if (blockIdx.x * blockDim.x + threadIdx.x >= words)
        return;
    columns += first_word(data, words);
    results += first_word(2, words);
    uint4 p = nothing(), q = nothing();
    u32 place = data - 2;
    for (u32 column = data; column-- > 0;) {
        q = twice(q);
        if (column == x || column == y)
            continue;
        uint4 word = columns[(u64)--place * words];
        p = sum_of(p, word);
        q = sum_of(q, word);
    }
    p = sum_of(p, columns[(u64)(data - 2) * words]);
    q = sum_of(q, columns[(u64)(data - 1) * words]);
    uint4 first = sum_of(times(p, of_p), times(q, of_q));
    results[0] = first;
    results[words] = sum_of(first, p);
}

/* `value` in which each of four bytes is looked up in a table of its own. */
FUNCTION u32 looked_up(const u32 *tables, u32 value)
{
    return tables[value & 255] ^ tables[256 + ((value >> 8) & 255)] ^
           tables[512 + ((value >> 16) & 255)] ^ tables[768 + (value >> 24)];
}

/* The product of two polynomials modulo CRC32C's. */
FUNCTION u32 product_of(u32 one, u32 other)
{
    u32 product = 0;
    for (u32 bit = 0; bit < 32; bit++) {
        product ^= (0u - (one >> 31)) & other;
        one <<= 1;
        other = (other >> 1) ^ ((0u - (other & 1)) & CASTAGNOLI);
    }
    return product;
}

/* The CRC32C of each of `blocks` blocks of 4 KiB, a warp for each. `tables` are TABLE_ENTRIES, then
 * x to the number of bits behind each lane's last word, then the checksum of a block of zeroes. */
KERNEL checksums(const uint4 *columns, u32 *sums, const u32 *tables, u32 blocks)
{
    const u32 *staged = staged_tables(tables);
    u32 lane = threadIdx.x % LANES;
    u32 block = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
    if (block >= blocks)
        return;
    columns += (u64)block * BLOCK_WORDS + lane;
    u32 sum = 0;
    for (u32 row = 0; row < BLOCK_WORDS; row += LANES) {
        uint4 word = columns[row];
        u32 own = looked_up(staged, word.x);
        own = looked_up(staged, own ^ word.y);
        own = looked_up(staged, own ^ word.z);
        own = looked_up(staged, own ^ word.w);
        sum = looked_up(staged + 1024, sum) ^ own;
    }
    sum = product_of(sum, tables[TABLE_ENTRIES + lane]);
    if (lane == 0)
        sum ^= tables[TABLE_ENTRIES + LANES];
    sum_over_warp(sums + block, sum);
}
