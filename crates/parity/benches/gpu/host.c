/* Runs a kernel of kernels.cu on this processor, for the test.
 *
 *   host KERNEL RESULT-BYTES BLOCKS-X BLOCKS-Y THREADS TABLE-BYTES COLUMN-BYTES ARGUMENT... <input >results
 *
 * The input is the tables, if the kernel takes any, and then the columns. Each is in memory of its
 * own that is exactly as long, so that the sanitizer sees a word too many.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.cu"

static u32 argument[8];

static void *taken(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL || fread(memory, 1, bytes, stdin) != bytes)
        exit(3);
    return memory;
}

int main(int count, char **arguments)
{
    if (count < 8 || count > 8 + 8)
        return 2;
    const char *kernel = arguments[1];
    size_t result_bytes = strtoull(arguments[2], NULL, 10);
    u32 blocks_x = strtoul(arguments[3], NULL, 10), blocks_y = strtoul(arguments[4], NULL, 10);
    blockDim.x = strtoul(arguments[5], NULL, 10);
    u32 *tables = taken(strtoull(arguments[6], NULL, 10));
    uint4 *columns = taken(strtoull(arguments[7], NULL, 10));
    for (int nth = 8; nth < count; nth++)
        argument[nth - 8] = strtoul(arguments[nth], NULL, 10);
    void *results = calloc(1, result_bytes);
    for (blockIdx.y = 0; blockIdx.y < blocks_y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < blocks_x; blockIdx.x++)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
                if (strcmp(kernel, "generate_pq") == 0)
                    generate_pq(columns, results, argument[0], argument[1]);
                else if (strcmp(kernel, "recover_one") == 0)
                    recover_one(columns, results, argument[0], argument[1]);
                else if (strcmp(kernel, "recover_two") == 0)
                    recover_two(columns, results, argument[0], argument[1], argument[2],
                                argument[3], argument[4], argument[5]);
                else if (strcmp(kernel, "checksums") == 0)
                    checksums(columns, results, tables, argument[0]);
                else
                    return 2;
    fwrite(results, 1, result_bytes, stdout);
    free(results);
    free(columns);
    free(tables);
    return fflush(stdout) != 0;
}
