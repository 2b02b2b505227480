/* Factors of a dense matrix in blocks as in crates/evaluate/kernels/src/lu.rs, with one-sided communication: each process has its blocks
 * in a window, and gets others' from there.
 *
 *   mpi_lu BLOCKS BLOCK FILE
 */
#include "mpi_report.h"

static long blocks, size, torus_rows, torus_columns;
static MPI_Win window;
static double *own;

static long block_size(void) { return size * size; }

static int owner(long row, long column)
{
    return (int)(row % torus_rows * torus_columns + column % torus_columns);
}

/* Where its owner has it. */
static long place(long row, long column)
{
    return (row / torus_rows * ((blocks + torus_columns - 1) / torus_columns) + column / torus_columns) * block_size();
}

static double chance(uint64_t at)
{
    uint64_t bits = (at + 1) * UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)(int64_t)(bits ^ bits >> 31) / (double)(UINT64_C(1) << 63);
}

static void subtract_multiple(double *restrict row, double factor, const double *restrict other, long count)
{
    for (long index = 0; index < count; index++)
        row[index] -= factor * other[index];
}

static void factor(double *block)
{
    for (long step = 0; step < size; step++)
        for (long row = step + 1; row < size; row++) {
            block[row * size + step] /= block[step * size + step];
            subtract_multiple(block + row * size + step + 1, block[row * size + step], block + step * size + step + 1,
                              size - step - 1);
        }
}

static void solve_lower(double *block, const double *factored)
{
    for (long step = 0; step < size; step++)
        for (long row = step + 1; row < size; row++)
            subtract_multiple(block + row * size, factored[row * size + step], block + step * size, size);
}

static void solve_upper(double *block, const double *factored)
{
    for (long row = 0; row < size; row++)
        for (long step = 0; step < size; step++) {
            block[row * size + step] /= factored[step * size + step];
            subtract_multiple(block + row * size + step + 1, block[row * size + step], factored + step * size + step + 1,
                              size - step - 1);
        }
}

static void subtract_product(double *target, const double *left, const double *right)
{
    for (long row = 0; row < size; row++)
        for (long step = 0; step < size; step++)
            subtract_multiple(target + row * size, left[row * size + step], right + step * size, size);
}

static void *allocate(long bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

/* What others have written before is there, and what this process has written they see. */
static void meet(void)
{
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
}

/* Begins to get a block, unless it is here. */
static const double *get(int rank, long row, long column, double *room)
{
    int from = owner(row, column);
    if (from == rank)
        return own + place(row, column);
    MPI_Get(room, block_size(), MPI_DOUBLE, from, place(row, column), block_size(), MPI_DOUBLE, window);
    return room;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, hosts;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &hosts);
    blocks = number(argc, argv, 1);
    size = number(argc, argv, 2);
    if (argc < 4) {
        fprintf(stderr, "usage: mpi_lu BLOCKS BLOCK FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (torus_rows = 1; torus_rows * torus_rows <= hosts; torus_rows++)
        if (hosts % torus_rows == 0)
            torus_columns = torus_rows;
    torus_rows = torus_columns;
    torus_columns = hosts / torus_rows;

    long all = blocks * size;
    long own_blocks = ((blocks + torus_rows - 1) / torus_rows) * ((blocks + torus_columns - 1) / torus_columns);
    long bytes = block_size() * (long)sizeof(double);
    MPI_Win_allocate(own_blocks * bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
    double *diagonal_room = allocate(bytes), *left_rooms = allocate(blocks * bytes), *right_rooms = allocate(blocks * bytes);
    const double **left = allocate(blocks * sizeof *left), **right = allocate(blocks * sizeof *right);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (long row = 0; row < blocks; row++)
        for (long column = 0; column < blocks; column++)
            if (owner(row, column) == rank)
                for (long index = 0; index < block_size(); index++) {
                    long i = row * size + index / size, j = column * size + index % size;
                    own[place(row, column) + index] = i == j ? (double)all : chance((uint64_t)(i * all + j));
                }
    for (long step = 0; step < blocks; step++) {
        if (owner(step, step) == rank)
            factor(own + place(step, step));
        meet();
        const double *diagonal = get(rank, step, step, diagonal_room);
        MPI_Win_flush_all(window);
        for (long other = step + 1; other < blocks; other++) {
            if (owner(step, other) == rank)
                solve_lower(own + place(step, other), diagonal);
            if (owner(other, step) == rank)
                solve_upper(own + place(other, step), diagonal);
        }
        meet();
        for (long other = step + 1; other < blocks; other++) {
            left[other] = right[other] = NULL;
            for (long inner = step + 1; inner < blocks; inner++) {
                if (left[other] == NULL && owner(other, inner) == rank)
                    left[other] = get(rank, other, step, left_rooms + other * block_size());
                if (right[other] == NULL && owner(inner, other) == rank)
                    right[other] = get(rank, step, other, right_rooms + other * block_size());
            }
        }
        MPI_Win_flush_all(window);
        for (long column = step + 1; column < blocks; column++)
            for (long row = step + 1; row < blocks; row++)
                if (owner(row, column) == rank)
                    subtract_product(own + place(row, column), left[row], right[column]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t part = 0;
    for (long row = 0; row < blocks; row++)
        for (long column = 0; column < blocks; column++)
            if (owner(row, column) == rank)
                for (long index = 0; index < block_size(); index++) {
                    uint64_t bits;
                    memcpy(&bits, &own[place(row, column) + index], sizeof bits);
                    part += weigh(bits, (uint64_t)(row * blocks + column) * block_size() + index);
                }
    MPI_Barrier(MPI_COMM_WORLD);
    report(argv[3], MPI_Wtime() - begun, part);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
