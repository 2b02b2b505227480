/* Heat spreads over a plate with a hot upper edge. Each host computes some of the rows. */
#include <forebay.h>
#include <stdio.h>

enum { SIZE = 64, STEPS = 1000 };

int main(void) {
    size_t first, end;
    if (forebay_join(0, 0) < 0) return fprintf(stderr, "heat: %s\n", forebay_error()), 1;
    double **now = forebay_rows(SIZE, SIZE * sizeof(double), 1, FOREBAY_BLOCKS);
    double **next = forebay_rows(SIZE, SIZE * sizeof(double), 1, FOREBAY_BLOCKS);
    if (!now || !next || forebay_block(forebay_rank(), SIZE, &first, &end) < 0)
        return fprintf(stderr, "heat: %s\n", forebay_error()), 1;
    for (int j = 0; j < SIZE && first == 0; j++) now[0][j] = next[0][j] = 100;
    for (int step = 0; step < STEPS && forebay_barrier() == 0; step++) {
        for (size_t i = first; i < end; i++)
            for (int j = 1; j < SIZE - 1 && i > 0 && i < SIZE - 1; j++)
                next[i][j] = (now[i - 1][j] + now[i + 1][j] + now[i][j - 1] + now[i][j + 1]) / 4;
        double **last = now;
        now = next;
        next = last;
    }
    forebay_barrier();
    if (forebay_rank() == 0) printf("%.6f degrees in the middle\n", now[SIZE / 2][SIZE / 2]);
    return forebay_leave() < 0;
}
