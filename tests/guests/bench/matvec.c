/* Multiplies a matrix by a vector, again and again: matvec MIB ROUNDS. Out of core where the matrix does not fit. Prints
   a checksum, and to standard error the seconds that the multiplications took. */
#include "scientific.h"

int main(int argc, char **argv)
{
    size_t mib = argument(argc, argv, 1, 256), rounds = argument(argc, argv, 2, 2);
    size_t columns = 4096, rows = mib * ((1 << 20) / sizeof(double) / columns);
    double *matrix = map_doubles(rows * columns);
    double *x = malloc(columns * sizeof *x), *y = calloc(rows, sizeof *y);
    if (!matrix || !x || !y)
        return 2;
    for (size_t i = 0; i < rows * columns; i++)
        matrix[i] = value_at(i);
    for (size_t i = 0; i < columns; i++)
        x[i] = 1.0 + i % 7;
    double before = seconds();
    for (size_t round = 0; round < rounds; round++)
        for (size_t row = 0; row < rows; row++) {
            const double *line = matrix + row * columns;
            double sum = 0;
            for (size_t column = 0; column < columns; column++)
                sum += line[column] * x[column];
            y[row] = y[row] / 2 + sum;
        }
    return report(before, y, rows);
}
