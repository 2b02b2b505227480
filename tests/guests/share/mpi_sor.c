/* Red-black relaxation as in crates/evaluate/kernels/src/sor.rs, with one-sided communication: each process has its block of rows of
 * both colours in a window, with room for a neighbour's row above and below, and puts its own first and last rows there.
 *
 *   mpi_sor ROWS COLUMNS ITERATIONS FILE
 */
#include "mpi_report.h"

static long columns, rows, first, own;

/* Row `row` of the grid, which this process has, or a neighbour beside it. */
static float *at(float *colour, long row)
{
    return colour + (row - first + 1) * columns;
}

static void relax(int parity, const float *restrict above, const float *restrict beside, const float *restrict below,
                  float *restrict points)
{
    long start = parity == 0 ? 1 : 0, end = parity == 0 ? columns : columns - 1;
    for (long column = start; column < end; column++)
        points[column] = 0.25f * ((above[column] + below[column]) + (beside[column - start] + beside[column - start + 1]));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, hosts;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &hosts);
    rows = number(argc, argv, 1);
    columns = number(argc, argv, 2);
    long iterations = number(argc, argv, 3);
    if (argc < 5 || rows + 2 < hosts) {
        fprintf(stderr, "usage: mpi_sor ROWS COLUMNS ITERATIONS FILE, with a row for each process\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    /* The same blocks as Host::block gives. */
    first = (rank * (rows + 2) + hosts - 1) / hosts;
    long next = ((rank + 1) * (rows + 2) + hosts - 1) / hosts;
    own = next - first;
    long above_own = rank > 0 ? first - (((rank - 1) * (rows + 2) + hosts - 1) / hosts) : 0;

    float *colours[2];
    MPI_Win windows[2];
    for (int colour = 0; colour < 2; colour++) {
        MPI_Aint bytes = (own + 2) * columns * (long)sizeof(float);
        MPI_Win_allocate(bytes, sizeof(float), MPI_INFO_NULL, MPI_COMM_WORLD, &colours[colour], &windows[colour]);
        memset(colours[colour], 0, bytes);
        MPI_Win_fence(0, windows[colour]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int colour = 0; colour < 2; colour++)
        for (long row = first; row < next; row++)
            for (long column = 0; column < columns; column++)
                at(colours[colour], row)[column] = 1.0f + (float)((row * 31 + column * 17 + colour * 7) % 64) / 64.0f;
    long start = first > 1 ? first : 1, end = next < rows + 1 ? next : rows + 1;
    for (long turn = -1; turn < 2 * iterations; turn++) {
        /* First both colours are exchanged, then each after it has changed. */
        for (int colour = 0; colour < 2; colour++) {
            if (turn >= 0 && colour != turn % 2)
                continue;
            if (turn >= 0)
                for (long row = start; row < end; row++) {
                    float *others = colours[1 - colour];
                    relax((row + colour) % 2, at(others, row - 1), at(others, row), at(others, row + 1), at(colours[colour], row));
                }
            MPI_Win_fence(MPI_MODE_NOPRECEDE, windows[colour]);
            if (rank > 0)
                MPI_Put(at(colours[colour], first), columns, MPI_FLOAT, rank - 1, (above_own + 1) * columns, columns,
                        MPI_FLOAT, windows[colour]);
            if (rank + 1 < hosts)
                MPI_Put(at(colours[colour], next - 1), columns, MPI_FLOAT, rank + 1, 0, columns, MPI_FLOAT, windows[colour]);
            MPI_Win_fence(MPI_MODE_NOSUCCEED, windows[colour]);
        }
    }
    uint64_t part = 0;
    for (int colour = 0; colour < 2; colour++)
        for (long row = first; row < next; row++)
            for (long column = 0; column < columns; column++) {
                uint32_t bits;
                memcpy(&bits, &at(colours[colour], row)[column], sizeof bits);
                uint64_t row_part = (uint64_t)(colour * (rows + 2) + row) * columns + column;
                part += weigh(bits, row_part);
            }
    MPI_Barrier(MPI_COMM_WORLD);
    report(argv[4], MPI_Wtime() - begun, part);
    for (int colour = 0; colour < 2; colour++)
        MPI_Win_free(&windows[colour]);
    MPI_Finalize();
    return 0;
}
