/* Reads slices of a three-dimensional array of 8-byte elements that lies in a file row by row, as a
 * viewer of scientific data does: which rows are read depends on the seed alone, what is printed
 * depends on every element read.
 *
 *   slices FILE READS SEED [--hinted AHEAD]
 *
 * A row has 1,024 elements (8 KiB); a slice has 256 rows; one checksum is printed for each slice.
 * With --hinted the program tells the kernel which row it will want AHEAD reads from now: the same
 * program after its author added hints by hand.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROW_ELEMENTS = 1024, ROW_BYTES = ROW_ELEMENTS * 8, SLICE_ROWS = 256 };

static uint64_t next_random(uint64_t *state)
{
    uint64_t mixed = (*state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

static off_t next_row(uint64_t *state, uint64_t rows)
{
    return (off_t)(next_random(state) % rows) * ROW_BYTES;
}

static uint64_t count_of(const char *text, const char *name)
{
    char *end = NULL;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        fprintf(stderr, "slices: %s is not a count for %s\n", text, name);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc != 4 && !(argc == 6 && strcmp(argv[4], "--hinted") == 0)) {
        fprintf(stderr, "usage: slices FILE READS SEED [--hinted AHEAD]\n");
        return 2;
    }
    uint64_t reads = count_of(argv[2], "READS");
    uint64_t state = count_of(argv[3], "SEED");
    uint64_t ahead = argc == 6 ? count_of(argv[5], "AHEAD") : 0;

    int file = open(argv[1], O_RDONLY);
    if (file < 0) {
        fprintf(stderr, "slices: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    struct stat status;
    if (fstat(file, &status) != 0 || status.st_size < ROW_BYTES) {
        fprintf(stderr, "slices: %s holds no whole row\n", argv[1]);
        return 1;
    }
    uint64_t rows = (uint64_t)status.st_size / ROW_BYTES;

    uint64_t hint_state = state;
    uint64_t hinted = 0;
    uint64_t sum = 0;
    static uint64_t row[ROW_ELEMENTS];
    for (uint64_t done = 0; done < reads; done++) {
        if (ahead > 0) {
            for (; hinted < reads && hinted < done + ahead; hinted++)
                posix_fadvise(file, next_row(&hint_state, rows), ROW_BYTES, POSIX_FADV_WILLNEED);
        }
        off_t offset = next_row(&state, rows);
        if (pread(file, row, ROW_BYTES, offset) != ROW_BYTES) {
            fprintf(stderr, "slices: %s: no row at %jd\n", argv[1], (intmax_t)offset);
            return 1;
        }
        for (int element = 0; element < ROW_ELEMENTS; element++)
            sum = sum * 31 + row[element];
        if ((done + 1) % SLICE_ROWS == 0 || done + 1 == reads) {
            printf("slice %" PRIu64 ": %016" PRIx64 "\n", done / SLICE_ROWS, sum);
            sum = 0;
        }
    }
    if (fflush(stdout) != 0) {
        fprintf(stderr, "slices: standard output: %s\n", strerror(errno));
        return 1;
    }
    return 0;
}
