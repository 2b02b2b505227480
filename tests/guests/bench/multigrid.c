/* Solves Poisson's equation in three dimensions by multigrid V-cycles: multigrid MIB [CYCLES]. Each cycle goes over
   grids of several sizes. Prints a checksum, and to standard error the seconds that the cycles took. */
#include "scientific.h"

#define LEVELS_MAX 12

struct grid {
    size_t n; /* points along an edge, borders included */
    double *u, *f, *r;
};

static size_t at(size_t n, size_t x, size_t y, size_t z)
{
    return (x * n + y) * n + z;
}

static void smooth(struct grid *grid)
{
    size_t n = grid->n;
    double *u = grid->u;
    for (size_t x = 1; x + 1 < n; x++)
        for (size_t y = 1; y + 1 < n; y++)
            for (size_t z = 1; z + 1 < n; z++) {
                size_t i = at(n, x, y, z);
                double sum = u[i - n * n] + u[i + n * n] + u[i - n] + u[i + n] + u[i - 1] + u[i + 1];
                u[i] = u[i] / 3 + 2.0 / 3 * (sum + grid->f[i]) / 6;
            }
}

static void residual(struct grid *grid)
{
    size_t n = grid->n;
    const double *u = grid->u;
    for (size_t x = 1; x + 1 < n; x++)
        for (size_t y = 1; y + 1 < n; y++)
            for (size_t z = 1; z + 1 < n; z++) {
                size_t i = at(n, x, y, z);
                double sum = u[i - n * n] + u[i + n * n] + u[i - n] + u[i + n] + u[i - 1] + u[i + 1];
                grid->r[i] = grid->f[i] + sum - 6 * u[i];
            }
}

static void restrict_to(const struct grid *fine, struct grid *coarse)
{
    size_t n = coarse->n;
    for (size_t x = 1; x + 1 < n; x++)
        for (size_t y = 1; y + 1 < n; y++)
            for (size_t z = 1; z + 1 < n; z++) {
                size_t i = at(fine->n, 2 * x, 2 * y, 2 * z);
                coarse->f[at(n, x, y, z)] =
                    fine->r[i] * 2 + (fine->r[i - 1] + fine->r[i + 1] + fine->r[i - fine->n] + fine->r[i + fine->n]) / 2;
                coarse->u[at(n, x, y, z)] = 0;
            }
}

static void correct(struct grid *fine, const struct grid *coarse)
{
    size_t n = fine->n;
    for (size_t x = 1; x + 1 < n; x++)
        for (size_t y = 1; y + 1 < n; y++)
            for (size_t z = 1; z + 1 < n; z++) {
                size_t low = at(coarse->n, x / 2, y / 2, z / 2);
                size_t high = at(coarse->n, (x + 1) / 2, (y + 1) / 2, (z + 1) / 2);
                fine->u[at(n, x, y, z)] += (coarse->u[low] + coarse->u[high]) / 2;
            }
}

static void cycle(struct grid *grids, int levels)
{
    smooth(grids);
    if (levels > 1) {
        residual(grids);
        restrict_to(grids, grids + 1);
        cycle(grids + 1, levels - 1);
        correct(grids, grids + 1);
    }
    smooth(grids);
}

int main(int argc, char **argv)
{
    size_t mib = argument(argc, argv, 1, 256), cycles = argument(argc, argv, 2, 1);
    struct grid grids[LEVELS_MAX];
    /* Three arrays; the coarser grids take another seventh. */
    size_t cells = 8;
    while ((cells + 4) * (cells + 4) * (cells + 4) * 3 * sizeof(double) * 8 / 7 < mib << 20)
        cells += 4;
    int levels = 0;
    for (size_t n = cells;; n /= 2) {
        struct grid *grid = grids + levels++;
        size_t points = (n + 1) * (n + 1) * (n + 1);
        *grid = (struct grid){n + 1, map_doubles(points), map_doubles(points), map_doubles(points)};
        if (!grid->u || !grid->f || !grid->r)
            return 2;
        if (n % 2 || n < 8 || levels == LEVELS_MAX)
            break;
    }
    size_t points = grids->n * grids->n * grids->n;
    for (size_t i = 0; i < points; i++) {
        grids->f[i] = value_at(i) - 0.5;
        grids->u[i] = grids->r[i] = 0;
    }
    double before = seconds();
    for (size_t round = 0; round < cycles; round++)
        cycle(grids, levels);
    return report(before, grids->u, points);
}
